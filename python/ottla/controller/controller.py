"""The controller: elected through the tree, it decides for the cluster and tells the brokers.

Every broker runs one. All but one wait for `/controller` to go away; the one that made that node is active until its
session ends or the node is deleted (which is how an administrator moves the controller). While active, it handles one
event at a time: a watch fired, a broker answered or asks for something (`events` has their order).

A broker registers before it stands for election, in every session. A controller that was elected first would see itself
among the dead, and take its partitions from it for a moment.

What it decides is in `decisions`, `isr`, `shutdown` and `deletion`, what it writes goes through `store` (fenced by the
controller epoch), what it tells the brokers is made by `requests` and leaves through `channel`. This file is only the
order of things, and that order matters: first the tree, then memory, then the brokers.

An active controller that meets an unexpected error gives up its place and lets the next election start from what is in
the tree, instead of going on with a copy that may be wrong.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import trio

from ottla.controller import decisions, moves, orders, timings
from ottla.controller.balance import Balance, give_back
from ottla.controller.batches import overlapping
from ottla.controller.channel import TIMEOUT_MS, Channel, Connect
from ottla.controller.decisions import IsrChange
from ottla.controller.deletion import Deletion
from ottla.controller.early_removal import remove_controller, remove_registration
from ottla.controller.election import Elected, elect
from ottla.controller.events import CONTROLLER_GONE, LOOK_AGAIN, LOOK_AT_REST, Event, Events
from ottla.controller.isr import Altered, alter_isr
from ottla.controller.missing import Missing
from ottla.controller.model import Away, Broker, Cluster
from ottla.controller.names import check_name
from ottla.controller.neighbours import Neighbours
from ottla.controller.registration import Registration
from ottla.controller.relapses import Relapses
from ottla.controller.requests import ControlRequest, RequestBatch
from ottla.controller.shutdown import shut_down
from ottla.controller.store import ControllerMoved, FencedTree, Written
from ottla.controller.timings import Timings
from ottla.coordination import znodes
from ottla.coordination.tree import (
    Delete,
    EventKind,
    NoNode,
    Operation,
    SessionExpired,
    SessionState,
    Tree,
    TreeError,
    Unavailable,
    Watch,
    WatchEvent,
    ensure_one,
    get_or_none,
)
from ottla.coordination.znodes import BrokerRegistration, MalformedNode, PartitionState, TopicAssignment
from ottla.errors import (
    InvalidTopic,
    KafkaError,
    NotController,
    StaleControllerEpoch,
    UnknownTopicOrPartition,
    counted,
)
from ottla.kafka import EPOCH_DURING_DELETE, NO_LEADER, TopicPartition
from ottla.logging_setup import Repeated
from ottla.peers import Dialer
from ottla.slices import Slices, in_slices
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR
from ottla.wire.k05_stop_replica import STOP_REPLICA

logger = logging.getLogger(__name__)

STORAGE_ERROR = 56
RETRY_MS = 1000
"""Before standing for election again after an unexpected error, so that an error that stays does not spin."""
#: Topics that are read from the tree with one request: with a handful of partitions each, they take some 40 us.
TOPICS_AT_ONCE = 100

T = TypeVar("T")


class _Order(Generic[T]):
    """What somebody asks of the active controller, done when the events before it are."""

    def __init__(self, work: Callable[[_Term], Awaitable[T]], kind: str | None) -> None:
        #: Of `timings.KINDS`, or None.
        self.kind = kind
        self._work = work
        self._done = trio.Event()
        self._was_done = False
        self._result: T | None = None
        self._error: KafkaError = NotController()

    async def carry_out(self, term: _Term) -> None:
        try:
            self._result = await self._work(term)
        except KafkaError as error:
            self._error = error
        else:
            self._was_done = True
        self._done.set()

    def drop(self) -> None:
        """The controller's time is over."""
        self._done.set()

    async def result(self) -> T:
        await self._done.wait()
        if not self._was_done:
            raise self._error
        return self._result  # type: ignore[return-value]


class Controller:
    """One broker's part in the controllership. `run` it for as long as the broker lives."""

    def __init__(
        self,
        tree: Tree,
        broker_id: int,
        *,
        listener: str = "PLAINTEXT",
        connect: Connect | None = None,
        registration: Registration | None = None,
        timeout_ms: int = TIMEOUT_MS,
        unclean_election_default: bool = False,
        delete_topics: bool = True,
        balance: Balance | None = None,
        session_s: float | None = None,
        doubt: Callable[[int, bool], None] = lambda broker, is_doubted: None,
        ends_at: orders.EndsAt | None = None,
        named: Callable[[], Iterable[tuple[Broker, float | None]]] = tuple,
    ) -> None:
        """`listener` names the inter-broker listener; `connect` opens a connection to a broker there. `registration` is
        renewed in every new session; without one, somebody else sees to it. `timeout_ms` is how long a broker has for
        an answer, `controller.socket.timeout.ms`.

        `unclean_election_default` is the broker's `unclean.leader.election.enable`, `delete_topics` its
        `delete.topic.enable`. Without `balance` leadership is not given back to first replicas.

        `session_s` is how long sessions live without their processes. With it, those of processes that are positively
        gone are not waited for (`watch_neighbours`), but for an election of replicas that are not in sync. `doubt` is
        told of a broker that may be gone, before that is proved, and when it is not.

        `ends_at` asks a broker where its logs end, for elections of replicas that are not in sync. `named` are the
        brokers that clients are told of here, with the time until when if they are away.
        """
        self._tree = tree
        self._broker_id = broker_id
        self._listener = listener
        # Kafka's controllers name themselves so too.
        self._connect = connect or Dialer(str(broker_id), timeout_ms).open
        self._timeout_ms = timeout_ms
        self._registration = registration
        self._unclean_default = unclean_election_default
        self._delete_topics = delete_topics
        self._balance = balance
        self._session_s = session_s
        self._ends_at = ends_at
        self._named = named
        self._neighbours = Neighbours(tree, broker_id, listener, self._is_gone, doubt)
        self._watches: dict[Event, Watch] = {}
        #: How long events wait and take.
        self.timings = Timings()
        self._events = Events(self.timings)
        self._responses = 0
        #: How often this broker made a replica leader that was not in sync.
        self.unclean_elections_total = 0
        self._term: _Term | None = None
        self._active_id: int | None = None
        #: The version that /controller_epoch had before that was known.
        self._epoch_version: int | None = None
        self._orders: dict[Event, _Order[Any]] = {}
        self._troubles = Repeated(logger)

    @property
    def epoch(self) -> int | None:
        """The controller epoch while this broker is the active controller, else None."""
        return None if self._term is None else self._term.elected.epoch

    @property
    def is_active(self) -> bool:
        return self._term is not None

    @property
    def cluster(self) -> Cluster | None:
        """What it knows of the cluster, to be looked at only; None unless it is the active one."""
        return None if self._term is None else self._term.cluster

    @property
    def events_waiting(self) -> int:
        return len(self._events)

    def requests_waiting(self) -> dict[int, int]:
        """How many requests to each broker are not answered yet; nothing unless this is the active controller."""
        return {} if self._term is None else self._term.requests_waiting()

    @property
    def active_id(self) -> int | None:
        """The broker that was the active controller when we last looked; None if there was none."""
        return self._active_id

    async def run(self) -> None:
        """Register, stand for election, serve, and begin again, until cancelled. Raises Unavailable if the tree is
        closed, and AlreadyRegistered if another process has this broker's id.
        """
        remove = self._tree.listen(self._on_session)
        try:
            while True:
                await self._tree.wait_connected()
                elected = None
                if not await self._is_registered():
                    continue
                try:
                    elected = await self._stand()
                    if elected is None:
                        await self._wait_for_change()
                    elif self._registration is not None and not self._registration.is_current:
                        # The session ended during the election, between two calls of which none could fail.
                        await self._step_down(elected)
                    else:
                        await self._serve(elected)
                except (ControllerMoved, SessionExpired) as error:
                    logger.info("broker %d is not the controller: %s", self._broker_id, error)
                except Unavailable:
                    raise
                except MalformedNode as error:
                    # Only what an election itself needs; a bad node of a topic or a broker costs nobody its place.
                    self._troubles.log(logging.ERROR, error.args, "nobody can be the controller: %s", error)
                    await self._step_down(elected)
                    await trio.sleep(RETRY_MS / 1000)
                except Exception:
                    logger.exception("the controller gives up its place after an unexpected error")
                    await self._step_down(elected)
                    await trio.sleep(RETRY_MS / 1000)
        finally:
            remove()

    async def watch_neighbours(self) -> None:
        """Acts on other brokers that are gone before their sessions end, until cancelled."""
        await self._neighbours.run()

    def _is_gone(self, broker: int, epoch: int) -> None:
        self._events.put(("gone", broker, epoch) if self.is_active else CONTROLLER_GONE)

    # What administrators ask for.

    async def elect_leaders(
        self, names: Iterable[TopicPartition], *, unclean: bool
    ) -> dict[TopicPartition, KafkaError | int]:
        """Makes the preferred replica of each partition its leader, or (`unclean`) any that is online where there is
        none: the one that has the most, as far as its replicas say. The leader that was elected, or why none was.
        Raises NotController.
        """
        ends: orders.Ends = {}
        if unclean:
            if self._term is None:
                raise NotController
            names = list(names)
            # Before the events that came earlier: others do not wait for the answers.
            ends = await orders.ends_of(self._term.cluster, names, self._ends_at)
        return await self._order(
            lambda term: orders.elect_leaders(term, names, unclean=unclean, ends=ends), timings.MANUAL_BALANCE
        )

    async def alter_isr(
        self, broker: int, broker_epoch: int, changes: Mapping[TopicPartition, IsrChange]
    ) -> dict[TopicPartition, KafkaError | Altered]:
        """What a leader asks for (see `isr`): by partition the state that holds now, or the error. Raises
        NotController, StaleBrokerEpoch.
        """
        return await self._order(
            lambda term: alter_isr(term, broker, broker_epoch, changes), timings.ISR_CHANGE, urgent=True
        )

    async def shut_down(self, broker: int, broker_epoch: int) -> list[TopicPartition]:
        """Takes its work from a broker that stops (see `shutdown`); the partitions that it leads still. Raises
        NotController, StaleBrokerEpoch, BrokerNotAvailable.
        """
        return await self._order(lambda term: shut_down(term, broker, broker_epoch), timings.SHUTDOWN, urgent=True)

    async def all_told(self) -> None:
        """Returns when every broker has answered all that this controller sent it. At once, if this is none."""
        if self._term is not None:
            await self._term.all_told()

    async def reassign(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Gives partitions to other replicas; None takes a move back that is going on. Raises NotController."""
        return await self._order(lambda term: moves.reassign(term, wanted), timings.REASSIGNMENT)

    async def reassignments(self) -> dict[TopicPartition, decisions.Reassigned]:
        """The moves that are going on. Raises NotController."""
        return await self._order(lambda term: term.reassignments(), None)

    async def _order(self, work: Callable[[_Term], Awaitable[T]], kind: str | None, *, urgent: bool = False) -> T:
        if self._term is None:
            raise NotController
        order = _Order(work, kind)
        event = ("urgent order" if urgent else "order", id(order))
        self._orders[event] = order
        self._events.put(event)
        return await order.result()

    def allow_unclean_elections(self, allowed: bool) -> None:
        """`unclean.leader.election.enable` changed. When it is turned on, partitions without a leader may get one."""
        newly, self._unclean_default = allowed and not self._unclean_default, allowed
        if newly and self.is_active:
            self._events.put(("unclean elections", None))

    def allow_unclean_elections_of(self, topic: str) -> None:
        """The same, for one topic."""
        if self.is_active:
            self._events.put(("unclean elections", topic))

    # Election.

    async def _is_registered(self) -> bool:
        """Registers this broker, if it is not in this session. False if the session ended meanwhile."""
        if self._registration is None:
            return True
        try:
            # Who stands for election in a tree that was emptied would lead another cluster.
            await self._registration.at_home()
            if not self._registration.is_current:
                await self._registration.register()
        except SessionExpired:
            return False
        return True

    async def _stand(self) -> Elected | None:
        # Before it is known who the controller is: the version must not be that of a later one.
        counter = await get_or_none(self._tree, znodes.CONTROLLER_EPOCH)
        self._epoch_version = None if counter is None else counter.stat.version
        elected, self._active_id = await elect(self._tree, self._broker_id, self._watch(("controller",)))
        return elected

    async def _wait_for_change(self) -> None:
        if await self._make_room():
            return
        while not any(event in self._events for event in (("controller",), ("session",), LOOK_AGAIN, CONTROLLER_GONE)):
            await self._events.changed()
        self._events.clear()

    async def _make_room(self) -> bool:
        """Removes /controller if the process of the broker that it names is gone. False if it may live."""
        broker, version = self._active_id, self._epoch_version
        proof = None if broker is None else self._neighbours.proof(broker)
        if broker is None or proof is None or proof.has_made_room or version is None:
            return False
        made_room = await remove_controller(self._tree, broker, proof.epoch, version)
        proof.has_made_room |= made_room
        return made_room

    async def _step_down(self, elected: Elected | None) -> None:
        """Let another election happen, if the place is still ours."""
        if elected is None:
            return
        try:
            fenced = FencedTree(self._tree, elected.epoch, elected.epoch_version)
            await fenced.multi([Delete(znodes.CONTROLLER)])
        except (ControllerMoved, TreeError) as error:
            logger.info("stepping down: %s", error)

    # Events: put in from watches and answers, taken out one at a time.

    def _watch(self, event: Event) -> Watch:
        if event not in self._watches:

            def fire(happened: WatchEvent) -> None:
                self._events.put(LOOK_AGAIN if happened.kind is EventKind.LOST else event)

            self._watches[event] = fire
        return self._watches[event]

    def _on_session(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED and self._term is not None:
            # At once, not as an event: nothing more may be sent in the name of a dead session.
            self._term.scope.cancel()
        self._events.put(("session",))

    async def _serve(self, elected: Elected) -> None:
        self._events.clear()
        logger.info("broker %d is the controller with epoch %d", self._broker_id, elected.epoch)
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            term = _Term(self, elected, nursery)
            self._term = term
            self._active_id = self._broker_id
            try:
                await self._serve_term(term)
            except Exception as error:
                # Not through the nursery, which would wrap it in a group.
                failure = error
            finally:
                self._term = None
                self._active_id = None
                for order in self._orders.values():
                    order.drop()
                self._orders.clear()
                nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _serve_term(self, term: _Term) -> None:
        with self.timings.timed(timings.CONTROLLER_CHANGE):
            await term.remove_gone(await self._neighbours.still_gone())
            await term.take_over()
        # Those that are gone since.
        for broker, epoch in self._neighbours.gone().items():
            self._events.put(("gone", broker, epoch))
        if self._balance is not None:
            term.nursery.start_soon(self._look_at_balance, self._balance)
        slices = Slices(own=True)
        while True:
            event = await self._events.take()
            with self.timings.timed(term.kind(event)):
                await term.handle(event)
            # Thousands of topics that are gone are as many events, of which each has little to do.
            await slices.row()

    async def _look_at_balance(self, balance: Balance) -> None:
        await trio.sleep(balance.first_look_s)
        while True:
            self._events.put(("balance", balance.tolerated_percentage))
            await trio.sleep(balance.interval_s)


class FoundTopic(NamedTuple):
    """A topic as the tree has it. A node with another `czxid` is another topic."""

    assignment: TopicAssignment
    czxid: int


class _Term:
    """The time between an election and its end: the copy of the cluster, and the connections to its brokers."""

    def __init__(self, controller: Controller, elected: Elected, nursery: trio.Nursery) -> None:
        self.elected = elected
        self.scope = nursery.cancel_scope
        self._controller = controller
        self.nursery = nursery
        self.tree = controller._tree
        self._store = FencedTree(controller._tree, elected.epoch, elected.epoch_version)
        self._watch = controller._watch
        self.cluster = Cluster()
        self._channels: dict[int, Channel] = {}
        self._deletions: dict[str, Deletion] = {}
        self._responses: dict[Event, tuple[ControlRequest, Any]] = {}
        self._grown: set[TopicPartition] = set()
        self._relapses = Relapses()
        #: Brokers whose registration is removed just now.
        self._removed: set[int] = set()
        #: Those that work again and have waited.
        self._restored: set[TopicPartition] = set()
        self.moves_in_tree: dict[TopicPartition, tuple[int, ...]] = {}
        self._watches_endings = False
        self._missing = Missing()
        self._waits_for_missing = False
        self._troubles = Repeated(logger)
        #: No replica that is not in sync leads before.
        self._unclean_from = -math.inf
        # A controller before this one may have removed brokers early.
        self._put_off_unclean_elections()

    def _leave_out(self, what: str, error: MalformedNode | InvalidTopic) -> None:
        """One node that nobody understands must not keep all others from being served; it is said once, though such
        nodes are read again whenever their neighbours change.
        """
        self._troubles.log(logging.ERROR, (what, str(error)), "%s is left out: %s", what, error)

    def kind(self, event: Event) -> str | None:
        """Of which of `timings.KINDS` an event is that has not been handled; None if of none."""
        match event:
            case ("response", _):
                request, _ = self._responses[event]
                return timings.OF_ANSWERS.get(request.api.key)
            case ("order" | "urgent order", _):
                order = self._controller._orders.get(event)
                return None if order is None else order.kind
            case ("unclean elections", topic):
                return timings.UNCLEAN_ENABLED if topic is None else timings.UNCLEAN_ENABLED_OF_TOPIC
        return timings.OF_EVENTS.get(event[0])

    async def handle(self, event: Event) -> None:
        match event:
            case ("controller",) | ("session",):
                await self._check_place()
            case ("look again",):
                await self._look_again()
            case ("look at the rest",):
                await self._look_at_rest()
            case ("brokers",):
                await self._on_brokers()
            case ("gone", broker_id, epoch):
                await self._on_gone(broker_id, epoch)
            case ("broker", broker_id):
                await self._on_broker(broker_id)
            case ("away",):
                await self._on_away()
            case ("topics",):
                await self._on_topics()
            case ("topic", topic):
                await self._on_topic(topic)
            case ("missing topics",):
                await self._on_missing_topics()
            case ("deletions",):
                await self._on_deletions()
            case ("restored",):
                await self._on_restored()
            case ("unclean elections", topic):
                await self._on_unclean_elections(topic)
            case ("isr changes",):
                await self._on_isr_changes()
            case ("log dir events",):
                await self._on_log_dir_events()
            case ("response", _):
                await self._on_response(*self._responses.pop(event))
            case ("grown isrs",):
                grown, self._grown = self._grown, set()
                await moves.advance(self, grown)
            case ("endings",):
                self._watches_endings = False
                await moves.give_up_silent(self)
            case ("order" | "urgent order", _):
                order = self._controller._orders.get(event)
                if order is not None:
                    await order.carry_out(self)
                    self._controller._orders.pop(event, None)
            case ("balance", tolerated_percentage):
                await give_back(self, tolerated_percentage)
            case ("elections",):
                await orders.elections_in_tree(self, self._watch(event))
            case ("reassignments",):
                await moves.reassignments_in_tree(self, self._watch(event))

    async def _check_place(self) -> None:
        """Still ours? An administrator may have deleted the node to move the controller."""
        node = await self.tree.exists(znodes.CONTROLLER, self._watch(("controller",)))
        if node is None or node.czxid != self.elected.czxid:
            raise ControllerMoved("/controller is not ours any more")

    # Taking over.

    async def remove_gone(self, gone: Mapping[int, int]) -> None:
        """Before the cluster is read: else every broker is told first that processes lead that are gone, and hears who
        leads instead only when it has taken all of that.
        """
        for broker_id, epoch in [*gone.items()]:
            await remove_registration(self._store, broker_id, epoch)

    async def take_over(self) -> None:
        """Read everything, arm every watch, tell every broker everything."""
        await self._check_place()
        await self._make_feature_node()
        await self._discard_notifications(znodes.ISR_CHANGES, ("isr changes",))
        await self._discard_notifications(znodes.LOG_DIR_EVENTS, ("log dir events",))
        self.cluster.brokers = await self._read_brokers()
        for broker in self.cluster.brokers.values():
            self._open_channel(broker)
        known = self.cluster.brokers
        self._name_on((broker, until_s) for broker, until_s in self._controller._named() if broker.id not in known)
        topics = await self.tree.children(znodes.TOPICS, self._watch(("topics",)))
        async for topic, found in in_slices((await self._read_topics(topics)).items()):
            self.cluster.assign(topic, found.assignment)
            self.cluster.born[topic] = found.czxid
        names = [name async for name, _ in in_slices(self.cluster.partitions())]
        resigned = set()
        async for name, stored in in_slices((await self._store.read_states(names)).items()):
            self._set_state(name, stored.state, stored.version)
            leader = self.cluster.brokers.get(stored.state.leader)
            if leader is not None and leader.may_have_resigned(stored.mzxid):
                resigned.add(name)
        self.cluster.suspect(self.cluster.brokers.values())

        # Brokers must know who lives before they can follow anyone.
        batch = self.batch()
        batch.metadata_to(self.cluster.brokers)
        await self.send(batch)
        marked = await self.tree.children(znodes.DELETE_TOPICS, self._watch(("deletions",)))
        await self._mark_deletions(marked)
        settled = await self.settle(names)
        await self._lead_anew(resigned - settled)
        batch = self.batch()
        async for name in in_slices(names):
            partition = self.cluster.topics[name.topic][name.partition]
            others = moves.not_to_be_told(partition) if partition.removing else None
            self.tell(batch, name, only={*partition.replicas} - others if others else None)
        await self.send(batch)
        await self._on_deletions()
        await moves.resume(self, names)
        await moves.reassignments_in_tree(self, self._watch(("reassignments",)))
        await orders.elections_in_tree(self, self._watch(("elections",)))

    async def _lead_anew(self, names: Collection[TopicPartition]) -> None:
        """Partitions whose leaders may have resigned are led by the same in the next leader epoch: else they would
        never lead again. A controller before this one has removed their registrations, and elected nobody.
        """
        states = {}
        async for name in in_slices(sorted(names)):
            partition = self.cluster.get(name)
            state = None if partition is None else decisions.next_epoch(partition, self.elected.epoch)
            if state is not None and not self.is_deleting(name.topic):
                states[name] = state
        await self.change_states(states)

    async def _look_again(self) -> None:
        """Every watch was lost with the connection, and what happened since is unknown: read what they watched."""
        self._controller._events.drop_looks()
        self._controller._events.put(LOOK_AT_REST)
        await self._check_place()
        await self._on_brokers()

    async def _look_at_rest(self) -> None:
        await self._on_topics(again=True)
        await self._on_deletions()
        await self._on_isr_changes()
        await self._on_log_dir_events()
        await moves.reassignments_in_tree(self, self._watch(("reassignments",)))
        await orders.elections_in_tree(self, self._watch(("elections",)))

    async def _make_feature_node(self) -> None:
        if await get_or_none(self.tree, znodes.FEATURE) is None:
            await ensure_one(self.tree, znodes.FEATURE, znodes.EMPTY_FEATURE)

    async def _discard_notifications(self, path: str, event: Event) -> None:
        """What they told is read from the states themselves."""
        names = await self.tree.children(path, self._watch(event))
        await self._store.delete_nodes([f"{path}/{name}" for name in names])

    # Brokers.

    async def _read_brokers(self) -> dict[int, Broker]:
        ids = []
        for name in await self.tree.children(znodes.BROKER_IDS, self._watch(("brokers",))):
            try:
                ids.append(znodes.broker_of(name))
            except MalformedNode as error:
                self._leave_out("a broker", error)
        return await self._read(ids)

    async def _read(self, ids: Sequence[int]) -> dict[int, Broker]:
        """Those of the brokers that are registered, and whose registration can be understood."""
        paths = [znodes.broker_path(broker_id) for broker_id in ids]
        nodes = await self.tree.get_many(paths, [self._watch(("broker", broker_id)) for broker_id in ids])
        brokers = {}
        for broker_id, path, node in zip(ids, paths, nodes, strict=True):
            if node is None:
                continue
            try:
                registration = BrokerRegistration.decode(path, node.data)
            except MalformedNode as error:
                self._leave_out("a broker", error)
            else:
                brokers[broker_id] = Broker.of(broker_id, node.stat.czxid, registration)
        return brokers

    async def _on_brokers(self) -> None:
        now = await self._read_brokers()
        known = self.cluster.brokers
        # A broker that came back under the same id between two looks did both: it left, and another process came.
        left = [id for id, broker in known.items() if id not in now or now[id].epoch != broker.epoch]
        came = [id for id, broker in now.items() if id not in known or known[id].epoch != broker.epoch]
        if left:
            await self._brokers_left(left)
        if came:
            await self._brokers_came([now[id] for id in came])
        # Only now: a broker that did both is asked again.
        await moves.end(self)
        await self._brokers_changed(now)

    async def broker_epoch(self, broker: int, epoch: int) -> int | None:
        """The epoch that a broker has now. Looks again if it may be newer than known. None: it is not registered."""
        known = self.cluster.brokers.get(broker)
        if known is None or known.epoch < epoch:
            # Its request was quicker than the watch.
            await self._on_brokers()
            known = self.cluster.brokers.get(broker)
        return None if known is None else known.epoch

    async def strangers(self, brokers: Iterable[int]) -> set[int]:
        """Those of the brokers whose registration is gone, or not the one that is known; by a fresh look."""
        ids = sorted(brokers)
        nodes = await self.tree.get_many([znodes.broker_path(broker_id) for broker_id in ids])
        strangers = set()
        for broker_id, node in zip(ids, nodes, strict=True):
            known = self.cluster.brokers.get(broker_id)
            if known is None or node is None or node.stat.czxid != known.epoch:
                strangers.add(broker_id)
        if strangers:
            await self._on_brokers()
        return strangers

    async def _brokers_left(self, left: list[int]) -> None:
        logger.info("brokers left: %s", left)
        is_named_on = self._removed | self.cluster.leaving
        self._name_on((self.cluster.brokers[broker], None) for broker in left if broker in is_named_on)
        for broker in left:
            del self.cluster.brokers[broker]
            self._removed.discard(broker)
            self.cluster.leaving.discard(broker)
            self.cluster.failed_replicas.pop(broker, None)
            self._relapses.forget(broker)
            self.cluster.unheard.pop(broker, None)
            self._channels.pop(broker).close()
            self.cluster.endings.broker_left(broker)
            for deletion in self._deletions.values():
                deletion.broker_left(broker)
        await self._availability_changed(self.cluster.on_brokers(left))

    async def _availability_changed(self, names: list[TopicPartition]) -> None:
        """Replicas of these partitions can be used no longer, or again: leaders and metadata follow."""
        changed = await self.settle(names)
        batch = self.batch()
        async for name in in_slices(names):
            if name in changed:
                self.tell(batch, name)
            else:
                # Its replicas that are offline now are news all the same.
                self.tell_of(batch, name)
        batch.metadata_to(self.cluster.brokers)
        await self.send(batch)

    async def _brokers_came(self, came: list[Broker]) -> None:
        logger.info("brokers came: %s", [broker.id for broker in came])
        for broker in came:
            self.cluster.brokers[broker.id] = broker
            self.cluster.away.pop(broker.id, None)
            self._open_channel(broker)
            for deletion in self._deletions.values():
                deletion.broker_came(broker.id)
        ids = {broker.id for broker in came}
        batch = self.batch()
        batch.metadata_to(self.cluster.brokers.keys() - ids)
        await self.send(batch)
        batch = self.batch()
        async for name, partition in in_slices(self.cluster.partitions()):
            batch.metadata(name, partition, deleted=name.topic in self._deletions)
        batch.metadata_to(ids)
        await self.send(batch)

        names = self.cluster.on_brokers(ids)
        asked = self.cluster.suspect(came)
        asked |= await self.settle(names)
        batch = self.batch()
        async for name in in_slices(names):
            self.tell(batch, name, only=None if name in asked else ids)
        for broker in came:
            self._ask_again(batch, broker.id)
        await self.send(batch)
        await self._advance_deletions()

    def _ask_again(self, batch: RequestBatch, broker: int) -> None:
        """A broker that came back is to delete what left it meanwhile, while the tree says so still."""
        endings = self.cluster.endings
        for name in endings.left_by(broker):
            partition = self.cluster.get(name)
            if partition is not None and partition.state is not None:
                batch.stop(name, [broker], partition.state.leader_epoch, delete=True)
                endings.asked_again(name, broker)

    async def _on_gone(self, broker_id: int, epoch: int) -> None:
        """A process is positively gone: its registration goes before its session ends."""
        known, proof = self.cluster.brokers.get(broker_id), self._controller._neighbours.proof(broker_id)
        if known is not None and known.epoch == epoch and proof is not None and proof.epoch == epoch:
            self._put_off_unclean_elections()
            self._removed.add(broker_id)
            await remove_registration(self._store, broker_id, epoch)
            await self._on_brokers()
            # If it has said something new of itself, it lives.
            self._removed.discard(broker_id)

    def _name_on(self, brokers: Iterable[tuple[Broker, float | None]]) -> None:
        """Clients are told of these brokers, which are not registered, for as long as a session lasts, or until the
        given time if that is sooner.
        """
        session_s, now_s = self._controller._session_s, trio.current_time()
        if session_s is None:
            return
        for broker, until_s in brokers:
            ends_s = now_s + session_s if until_s is None else min(until_s, now_s + session_s)
            if ends_s > now_s:
                self.cluster.away[broker.id] = Away(broker, ends_s)
                self.nursery.start_soon(self._name_until, ends_s)

    async def _name_until(self, ends_s: float) -> None:
        await trio.sleep_until(ends_s)
        self._controller._events.put(("away",))

    async def _on_away(self) -> None:
        """The sessions of brokers that are away would have ended."""
        now_s = trio.current_time()
        over = [broker for broker, away in self.cluster.away.items() if away.until_s <= now_s]
        for broker in over:
            del self.cluster.away[broker]
        if over:
            batch = self.batch()
            batch.metadata_to(self.cluster.brokers)
            await self.send(batch)

    def _put_off_unclean_elections(self) -> None:
        """Until the session of a broker that was removed early would have ended: so long it may come back and lead."""
        session_s = self._controller._session_s
        if session_s is None:
            return
        self._unclean_from = trio.current_time() + session_s

        async def then() -> None:
            await trio.sleep_until(self._unclean_from)
            self._controller._events.put(("unclean elections", None))

        self.nursery.start_soon(then)

    async def _on_broker(self, broker_id: int) -> None:
        """A broker changed what it says of itself. That it left or came is another event."""
        await self._brokers_changed(await self._read([broker_id]))

    async def _brokers_changed(self, now: Mapping[int, Broker]) -> None:
        known = self.cluster.brokers
        changed = [
            broker
            for broker in now.values()
            if broker.id in known and broker != known[broker.id] and broker.epoch == known[broker.id].epoch
        ]
        for broker in changed:
            if known[broker.id].is_unclean and not broker.is_unclean:
                # What kept others from leading is over.
                self._controller._events.put(("unclean elections", None))
            known[broker.id] = broker
            self._channels[broker.id].update(broker)
        if changed:
            batch = self.batch()
            batch.metadata_to(known)
            await self.send(batch)

    def requests_waiting(self) -> dict[int, int]:
        return {broker: len(channel) for broker, channel in self._channels.items()}

    async def all_told(self) -> None:
        for channel in tuple(self._channels.values()):
            await channel.told()

    def _open_channel(self, broker: Broker) -> None:
        of = self._controller
        channel = Channel(broker, of._listener, of._connect, self._answered, of._timeout_ms)
        self._channels[broker.id] = channel
        self.nursery.start_soon(channel.run)

    # Topics.

    async def _read_topics(self, topics: Sequence[str]) -> dict[str, FoundTopic]:
        """Those that are there and can be understood, each watched from now on."""
        assignments: dict[str, FoundTopic] = {}

        async def read(piece: Sequence[str]) -> None:
            paths = [znodes.topic_path(topic) for topic in piece]
            nodes = await self.tree.get_many(paths, [self._watch(("topic", topic)) for topic in piece])
            for topic, path, node in zip(piece, paths, nodes, strict=True):
                if node is None:
                    continue
                try:
                    check_name(topic)
                    assignments[topic] = FoundTopic(TopicAssignment.decode(path, node.data), node.stat.czxid)
                except (MalformedNode, InvalidTopic) as error:
                    self._leave_out("a topic", error)

        await overlapping(read, topics, at_most=TOPICS_AT_ONCE)
        return assignments

    async def _on_topics(self, *, again: bool = False) -> None:
        """Topics came or went. With `again`, those that are known may have changed as well."""
        names = await self.tree.children(znodes.TOPICS, self._watch(("topics",)))
        known, there = self.cluster.topics, set[str]()
        changed: list[str] = []
        missing: list[str] = []
        async for topic in in_slices(names):
            there.add(topic)
            if again or topic not in known or topic in self._missing:
                changed.append(topic)
        async for topic in in_slices(list(known)):
            if topic not in there and topic not in self._missing:
                missing.append(topic)
        if missing:
            self._missing.miss(missing, trio.current_time())
            self._wait_for_missing()
        await self._look_at(changed)

    async def _on_topic(self, topic: str) -> None:
        """Partitions were added, or another topic is in its place. One that is new altogether is another event."""
        if topic in self.cluster.topics:
            await self._look_at([topic])

    async def _look_at(self, topics: Sequence[str]) -> None:
        found = await self._read_topics(topics)
        born = self.cluster.born
        others = [topic for topic, its in found.items() if born.get(topic, its.czxid) != its.czxid]
        if others and not await self._is_at_home():
            for topic in others:
                del found[topic]
            self._missing.miss(others, trio.current_time())
            self._wait_for_missing()
            others = []
        await self._topics_removed(others)
        self._missing.found(found)
        born.update((topic, its.czxid) for topic, its in found.items())
        await self._assigned({topic: its.assignment for topic, its in found.items()})

    # Topics that were removed by hand.

    async def _is_at_home(self) -> bool:
        registration = self._controller._registration
        return registration is None or await registration.is_at_home()

    def _wait_for_missing(self) -> None:
        if self._waits_for_missing:
            return
        self._waits_for_missing = True

        async def rest() -> None:
            while rest_s := self._missing.rest_s(trio.current_time()):
                await trio.sleep(rest_s)
            self._controller._events.put(("missing topics",))

        self.nursery.start_soon(rest)

    async def _on_missing_topics(self) -> None:
        """For a while no further topic was missed: those that are missing were removed, if the tree is ours."""
        self._waits_for_missing = False
        if not self._missing:
            return
        if not await self._is_at_home():
            self._missing.wait_on(trio.current_time())
            self._wait_for_missing()
            return
        there = set(await self.tree.children(znodes.TOPICS, self._watch(("topics",))))
        topics = self._missing.take()
        await self._topics_removed([topic for topic in topics if topic not in there])
        await self._look_at([topic for topic in topics if topic in there])

    async def _topics_removed(self, topics: Sequence[str]) -> None:
        """Topics were removed from the tree by hand. What has one of the names now is another topic (see `missing`)."""
        if not topics:
            return
        cluster, batch = self.cluster, self.batch()
        async for name in in_slices(cluster.partitions_of(topics)):
            partition, ending = cluster.get(name), cluster.endings.get(name)
            assert partition is not None
            batch.metadata(name, partition, deleted=True)
            if name.topic not in self._deletions:
                batch.stop(name, {*partition.replicas, *(ending.leaving if ending else ())}, EPOCH_DURING_DELETE)
        batch.metadata_to(cluster.brokers)
        await self.send(batch)
        for topic in topics:
            if topic in self._deletions:
                logger.warning("topic %s was removed from the tree while it was deleted", topic, extra={"topic": topic})
                await self._store.delete_topic(topic, cluster.born[topic])
                # There may be a mark for the other topic.
                self._controller._events.put(("deletions",))
            else:
                message = (
                    "topic %s was removed from the tree without being deleted: its replicas are stopped, and brokers "
                    "keep their folders (%s-N in log.dirs) with the records. Remove the folders if nobody needs them. "
                    "Topics are deleted with `ottla topic delete` or kafka-topics --delete"
                )
                logger.warning(message, topic, topic, extra={"topic": topic})
            await self._forget(topic)

    async def _assigned(self, assignments: Mapping[str, TopicAssignment]) -> None:
        new = {}
        async for topic, assignment in in_slices(assignments.items()):
            if names := self._assign(topic, assignment):
                new[topic] = names
        try:
            await self._new_partitions([name for names in new.values() for name in names])
        except NoNode:
            # One that is gone again keeps none of the others back.
            for topic, names in new.items():
                try:
                    await self._new_partitions(names)
                except NoNode:
                    logger.warning("topic %s is gone again", topic)

    def _assign(self, topic: str, assignment: TopicAssignment) -> list[TopicPartition]:
        is_new = topic not in self.cluster.topics
        if topic in self._deletions:
            logger.warning("topic %s is being deleted, its new assignment is not looked at", topic)
            return []
        names = self.cluster.assign(topic, assignment)
        if is_new:
            logger.info("topic %s is new, with %s", topic, counted(len(names), "partition"), extra={"topic": topic})
        elif names:
            more = counted(len(names), "more partition")
            logger.info("topic %s has %s", topic, more, extra={"topic": topic})
        return names

    async def _forget(self, topic: str) -> None:
        """The topic is gone from the tree."""
        await moves.forget(self, topic)
        cluster = self.cluster
        for name in cluster.partitions_of([topic]):
            cluster.untold.pop(name, None)
            for replicas in (*cluster.failed_replicas.values(), *cluster.unheard.values()):
                replicas.discard(name)
        cluster.topics.pop(topic, None)
        cluster.born.pop(topic, None)
        self._missing.found((topic,))
        self._deletions.pop(topic, None)

    async def _new_partitions(self, names: list[TopicPartition]) -> None:
        """Raises NoNode if a topic is gone."""
        if names:
            await self.settle(names)
            await self.tell_all(names)

    # Deletion of topics.

    async def _on_deletions(self) -> None:
        marked = await self.tree.children(znodes.DELETE_TOPICS, self._watch(("deletions",)))
        if not self._controller._delete_topics:
            await self._store.delete_nodes([znodes.delete_topic_path(topic) for topic in marked])
            return
        # A topic made just before it was marked may not have been looked at yet.
        if any(topic not in self.cluster.topics for topic in marked):
            await self._on_topics()
        unknown = [topic for topic in marked if topic not in self.cluster.topics]
        await self._store.delete_nodes([znodes.delete_topic_path(topic) for topic in unknown])
        await self._mark_deletions(marked)
        await self._advance_deletions()
        for deletion in list(self._deletions.values()):
            await self._complete_deletion(deletion)

    async def _mark_deletions(self, marked: Iterable[str]) -> None:
        fresh = [
            topic
            for topic in marked
            if topic in self.cluster.topics and topic not in self._deletions and topic not in self._missing
        ]
        if not fresh or not self._controller._delete_topics:
            return
        logger.info("deleting topics %s", fresh)
        batch = self.batch()
        async for name in in_slices(self.cluster.partitions_of(fresh)):
            partition = self.cluster.get(name)
            assert partition is not None
            batch.metadata(name, partition, deleted=True)
        batch.metadata_to(self.cluster.brokers)
        await self.send(batch)
        endings = self.cluster.endings
        for topic in fresh:
            self._deletions[topic] = Deletion(topic, self.cluster.topics[topic], endings.of_topic(topic))
            await moves.forget(self, topic)

    async def _advance_deletions(self) -> None:
        batch = self.batch()
        for deletion in self._deletions.values():
            for broker, partitions in deletion.next_requests(self.cluster.brokers).items():
                for partition in partitions:
                    batch.delete(TopicPartition(deletion.topic, partition), broker)
        await self.send(batch)

    async def _complete_deletion(self, deletion: Deletion) -> None:
        if not deletion.is_complete:
            return
        await self._store.delete_topic(deletion.topic, self.cluster.born[deletion.topic])
        await self._forget(deletion.topic)
        logger.info("topic %s is deleted", deletion.topic)

    async def _on_unclean_elections(self, topic: str | None) -> None:
        await self._availability_changed(
            [
                name
                for name, partition in self.cluster.partitions()
                if topic in (None, name.topic) and partition.state is not None and partition.state.leader == NO_LEADER
            ]
        )

    # Notifications from brokers.

    async def _on_isr_changes(self) -> None:
        """Leaders wrote new ISRs into the tree; everybody's metadata follows."""
        names = await self.tree.children(znodes.ISR_CHANGES, self._watch(("isr changes",)))
        paths = [f"{znodes.ISR_CHANGES}/{name}" for name in names]
        changed: dict[TopicPartition, None] = {}
        for path, node in zip(paths, await self.tree.get_many(paths), strict=True):
            if node is not None:
                try:
                    changed.update(dict.fromkeys(znodes.decode_partitions(path, node.data)))
                except MalformedNode as error:
                    self._leave_out("a notification", error)
        known = [name for name in changed if self.cluster.get(name) is not None]
        batch = self.batch()
        states = await self._store.read_states(known)
        async for name, stored in in_slices(states.items()):
            self._set_state(name, stored.state, stored.version)
            self.tell_of(batch, name)
        if known:
            batch.metadata_to(self.cluster.brokers)
        await self.send(batch)
        await self._store.delete_nodes(paths)
        await moves.advance(self, known)

    async def _on_log_dir_events(self) -> None:
        """Brokers lost a log directory: ask them, with the roles they have, which replicas still work."""
        names = await self.tree.children(znodes.LOG_DIR_EVENTS, self._watch(("log dir events",)))
        paths = [f"{znodes.LOG_DIR_EVENTS}/{name}" for name in names]
        brokers = set()
        for path, node in zip(paths, await self.tree.get_many(paths), strict=True):
            if node is not None:
                try:
                    brokers.add(znodes.decode_log_dir_event(path, node.data))
                except MalformedNode as error:
                    self._leave_out("a notification", error)
        batch = self.batch()
        async for name in in_slices(self.cluster.on_brokers(brokers)):
            self.tell(batch, name, only=brokers)
        await self.send(batch)
        await self._store.delete_nodes(paths)

    # Answers.

    def _answered(self, request: ControlRequest, response: Any) -> None:
        event = ("response", self._controller._responses)
        self._controller._responses += 1
        self._responses[event] = (request, response)
        self._controller._events.put(event)

    async def _on_response(self, request: ControlRequest, response: Any) -> None:
        broker = self.cluster.brokers.get(request.broker)
        if broker is None or broker.epoch != request.broker_epoch:
            return
        if response.error_code:
            logger.warning("broker %d answered %s with error %d", broker.id, request.api.name, response.error_code)
        if request.api is LEADER_AND_ISR:
            await self._on_roles_taken(broker.id, response)
        elif request.api is STOP_REPLICA:
            await self._on_replicas_stopped(broker.id, request, response)

    async def _on_roles_taken(self, broker: int, response: Any) -> None:
        before = self.cluster.failed_replicas.get(broker, set())
        after = set(before)
        unheard = self.cluster.unheard.get(broker, set())
        heard = set()
        async for answer in in_slices(response.partition_errors):
            name = TopicPartition(answer.topic_name, answer.partition_index)
            if name in unheard:
                unheard.discard(name)
                heard.add(name)
            if answer.error_code == STORAGE_ERROR:
                after.add(name)
            elif answer.error_code in (0, StaleControllerEpoch.code):
                # No news to it, and its log works.
                after.discard(name)
        self.cluster.failed_replicas[broker] = after
        # One that works again, since its log could be made after all, may lead: nobody else may be there to do so.
        restored, failed = sorted(before - after), sorted(after - before)
        heard.difference_update(restored, failed)
        if restored:
            logger.info("broker %d has %s that it had not before", broker, counted(len(restored), "replica"))
            if wait_s := self._relapses.restored(broker, trio.current_time()):
                self.nursery.start_soon(self._use_later, restored, wait_s)
            else:
                await self._availability_changed(restored)
        if failed:
            self._relapses.failed(broker, trio.current_time())
            of = counted(len(failed), "replica")
            logger.warning("broker %d has no working log directory for %s", broker, of)
            for deletion in self._deletions.values():
                deletion.failed(broker, [name.partition for name in failed if name.topic == deletion.topic])
            await self._availability_changed(failed)
        if heard:
            await self._availability_changed(sorted(heard))

    async def _use_later(self, restored: list[TopicPartition], wait_s: float) -> None:
        await trio.sleep(wait_s)
        self._restored.update(restored)
        self._controller._events.put(("restored",))

    async def _on_restored(self) -> None:
        names, self._restored = sorted(self._restored), set()
        await self._availability_changed([name for name in names if self.cluster.get(name) is not None])

    async def _on_replicas_stopped(self, broker: int, request: ControlRequest, response: Any) -> None:
        failed = {
            (answer.topic_name, answer.partition_index)
            for answer in response.partition_errors
            if answer.error_code not in (0, UnknownTopicOrPartition.code)
        }
        for topic_state in request.message.topic_states:
            deletion = self._deletions.get(topic_state.topic_name)
            if deletion is None:
                continue
            asked = [state.partition_index for state in topic_state.partition_states if state.delete_partition]
            refused = [
                partition for partition in asked if response.error_code or (topic_state.topic_name, partition) in failed
            ]
            if refused:
                logger.warning("broker %d could not delete %s of %s", broker, refused, deletion.topic)
            deletion.failed(broker, refused)
            deletion.deleted(broker, set(asked) - set(refused))
            await self._complete_deletion(deletion)
        if self.cluster.endings:
            await self._on_replicas_left(broker, request, response, failed)

    async def _on_replicas_left(
        self, broker: int, request: ControlRequest, response: Any, failed: Collection[tuple[str, int]]
    ) -> None:
        """A broker was to delete replicas that moved elsewhere. If it could not, nothing that is asked again helps."""
        refused = 0
        async for topic, state in in_slices(
            (each.topic_name, state) for each in request.message.topic_states for state in each.partition_states
        ):
            name = TopicPartition(topic, state.partition_index)
            if state.delete_partition and name in self.cluster.endings:
                refused += bool(response.error_code) or name in failed
                self.cluster.endings.answered(broker, name, state.leader_epoch)
        if refused:
            of = counted(refused, "replica")
            logger.warning("broker %d keeps %s that moved elsewhere: it could not delete them", broker, of)
        await moves.end(self)

    async def reassignments(self) -> dict[TopicPartition, decisions.Reassigned]:
        return {
            name: decisions.Reassigned.of(partition)
            async for name, partition in in_slices(self.cluster.partitions())
            if partition.adding or partition.removing
        }

    def watch_endings(self) -> None:
        """Has moves end that would wait too long for brokers."""
        if self._watches_endings or (until_s := self.cluster.endings.next_s()) is None:
            return
        self._watches_endings = True

        async def then() -> None:
            await trio.sleep_until(until_s)
            self._controller._events.put(("endings",))

        self.nursery.start_soon(then)

    # Deciding, writing, telling.

    async def change_states(self, wanted: Mapping[TopicPartition, PartitionState]) -> set[TopicPartition]:
        """Writes new states, first to the tree; returns those that are written. What someone else had changed meanwhile
        is taken over instead.
        """
        states = {}
        async for name, state in in_slices(wanted.items()):
            partition = self.cluster.get(name)
            if partition is not None:
                states[name] = state, partition.version
        return set((await self.write_states(states)).done)

    async def write_states(self, states: Mapping[TopicPartition, tuple[PartitionState, int]]) -> Written:
        """Writes new states, each on condition of a version of its node. Memory follows: what somebody else had changed
        meanwhile is taken over.
        """
        outcome = Written({}, {})

        async def write(names: Sequence[TopicPartition]) -> None:
            written = await self._store.set_states({name: states[name] for name in names})
            self._take_over_written(written, {name: states[name][0] for name in names})
            outcome.done.update(written.done)
            outcome.found.update(written.found)

        await overlapping(write, list(states))
        return outcome

    def isr_grew(self, names: Iterable[TopicPartition]) -> None:
        """Moves of these partitions may be at their end."""
        self._grown.update(names)
        if self._grown:
            self._controller._events.put(("grown isrs",))

    def is_deleting(self, topic: str) -> bool:
        return topic in self._deletions

    async def multi(self, operations: Sequence[Operation]) -> None:
        """As Tree.multi, if this is still the controller."""
        await self._store.multi(operations)

    async def delete_nodes(self, paths: Sequence[str]) -> None:
        await self._store.delete_nodes(paths)

    async def tell_moved(self, leaving: Mapping[TopicPartition, Collection[int]]) -> None:
        """As `tell_all`; and the brokers that hold a partition no longer are to delete it."""
        batch = self.batch()
        async for name, brokers in in_slices(leaving.items()):
            self.tell(batch, name)
            partition = self.cluster.get(name)
            if brokers and partition is not None and partition.state is not None:
                batch.stop(name, brokers, partition.state.leader_epoch, delete=True)
        await self.send(batch)

    async def tell_all(self, names: Iterable[TopicPartition]) -> None:
        """The roles of partitions to the brokers that hold them, and everybody's metadata."""
        batch = self.batch()
        async for name in in_slices(names):
            self.tell(batch, name)
        await self.send(batch)

    async def tell_metadata(self, names: Iterable[TopicPartition]) -> None:
        """What everybody is to know of these partitions."""
        batch = self.batch()
        async for name in in_slices(names):
            self.tell_of(batch, name)
        batch.metadata_to(self.cluster.brokers)
        await self.send(batch)

    async def settle(self, names: Sequence[TopicPartition]) -> set[TopicPartition]:
        """Gives each partition the state that fits who is online; first in the tree, then here. Returns those whose
        state changed.
        """
        return set().union(*await overlapping(self._settle_piece, names))

    async def _settle_piece(self, names: Iterable[TopicPartition]) -> set[TopicPartition]:
        settled: set[TopicPartition] = set()
        pending = [name for name in names if name.topic not in self._deletions]
        epoch = self.elected.epoch
        while pending:
            unclean = await self._may_elect_unclean(pending)
            first: dict[TopicPartition, PartitionState] = {}
            later: dict[TopicPartition, tuple[PartitionState, int]] = {}
            for name in pending:
                partition = self.cluster.get(name)
                if partition is None:
                    continue
                online = self.cluster.online(name, partition.replicas)
                if partition.state is None:
                    state = decisions.first_state(online, epoch)
                    if state is not None:
                        first[name] = state
                    continue
                if self.cluster.is_unheard(name, partition.state.leader):
                    continue
                if partition.state.leader not in online:
                    online = [broker for broker in online if not self.cluster.is_unheard(name, broker)]
                leaving = self.cluster.leaving_with(name)
                state = decisions.after_replicas_left(
                    partition,
                    online,
                    epoch,
                    leaving=leaving,
                    # Those that may have lost records have the most all the same, and find out who leads.
                    unclean=name.topic in unclean and not self.cluster.suspected(name),
                )
                if state is not None:
                    later[name] = (state, partition.version)
            pending = []
            if first:
                written = await self._store.create_states(first)
                for name in written.done:
                    self.cluster.untold[name] = set(self.cluster.topics[name.topic][name.partition].replicas)
                settled |= written.done.keys() | written.found.keys()
                pending += self._take_over_written(written, first)
            if later:
                written = await self._store.set_states(later)
                settled |= written.done.keys()
                pending += self._take_over_written(written, {name: state for name, (state, _) in later.items()})
        return settled

    def _take_over_written(
        self, written: Written, wanted: Mapping[TopicPartition, PartitionState]
    ) -> list[TopicPartition]:
        """Memory follows the tree. Returns the partitions to decide on again, because someone else had written."""
        unclean = 0
        for name, version in written.done.items():
            partition = self.cluster.get(name)
            if partition is not None and decisions.is_unclean(partition, wanted[name]):
                unclean += 1
                assert partition.state is not None
                logger.warning(
                    "%s: broker %d leads and was not in sync: what only brokers %s had is lost",
                    name,
                    wanted[name].leader,
                    ", ".join(map(str, partition.state.isr)),
                )
            self._set_state(name, wanted[name], version)
        if unclean:
            self._controller.unclean_elections_total += unclean
            are = counted(unclean, "partition is", "partitions are")
            logger.warning("%s now led by a replica that was not in sync", are)
        for name, (state, version) in written.found.items():
            self._set_state(name, state, version)
        return list(written.found)

    def _set_state(self, name: TopicPartition, state: PartitionState, version: int) -> None:
        partition = self.cluster.get(name)
        if partition is not None:
            partition.state, partition.version = state, version

    async def _may_elect_unclean(self, names: Iterable[TopicPartition]) -> set[str]:
        """Of the topics with partitions that only a replica not in sync could lead, those that allow it."""
        topics: set[str] = set()
        if trio.current_time() < self._unclean_from:
            return topics
        for name in names:
            partition = self.cluster.get(name)
            if partition is not None and partition.state is not None:
                online = self.cluster.online(name, partition.replicas)
                if decisions.needs_unclean_election(partition, online, self.cluster.leaving_with(name)):
                    topics.add(name.topic)
        allowed = set()
        paths = {topic: znodes.config_path("topics", topic) for topic in sorted(topics)}
        nodes = await self.tree.get_many(list(paths.values())) if paths else []
        for (topic, path), node in zip(paths.items(), nodes, strict=True):
            try:
                config = {} if node is None else znodes.decode_config(path, node.data)
            except MalformedNode as error:
                # Records are not given up because of a setting that may have forbidden it.
                self._leave_out("an unclean election", error)
                continue
            setting = config.get("unclean.leader.election.enable", str(self._controller._unclean_default))
            if setting.strip().lower() == "true":
                allowed.add(topic)
        return allowed

    def batch(self) -> RequestBatch:
        return RequestBatch(self.cluster, self._controller._broker_id, self.elected.epoch, self._controller._listener)

    def tell(
        self,
        batch: RequestBatch,
        name: TopicPartition,
        *,
        only: set[int] | None = None,
        also: Iterable[int] = (),
    ) -> None:
        """The roles of a partition's replicas whose brokers live and stay, and of its leader (or of `only` those
        brokers'), and of `also`. Nothing if it has none or is going away.
        """
        partition = self.cluster.get(name)
        if partition is None or partition.state is None or name.topic in self._deletions:
            return
        leaving = self.cluster.leaving - {partition.state.leader, *also}
        brokers = [
            broker
            for broker in partition.replicas
            if broker in self.cluster.brokers and broker not in leaving and (only is None or broker in only)
        ]
        untold = self.cluster.untold.get(name)
        if untold is None:
            batch.roles(name, partition, brokers)
            return
        batch.roles(name, partition, [broker for broker in brokers if broker in untold], is_new=True)
        batch.roles(name, partition, [broker for broker in brokers if broker not in untold])
        untold.difference_update(brokers)
        if not untold:
            del self.cluster.untold[name]

    def tell_of(self, batch: RequestBatch, name: TopicPartition) -> None:
        """A partition's metadata."""
        partition = self.cluster.get(name)
        if partition is not None:
            batch.metadata(name, partition, deleted=name.topic in self._deletions)

    async def send(self, batch: RequestBatch) -> None:
        """Sends the requests of a batch. Other tasks are served meanwhile; the next event waits."""
        async for request in batch.requests():
            self._channels[request.broker].send(request)
