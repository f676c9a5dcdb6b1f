"""The controller: elected through the tree, it decides for the cluster and tells the brokers.

Every broker runs one. All but one wait for `/controller` to go away; the one that made that node is active until its
session ends or the node is deleted (which is how an administrator moves the controller). While active, it handles one
event at a time: a watch fired, a broker answered. Events of a kind that wait are one event, because each handler reads
what the tree holds *now*; so no change is missed and a burst of changes costs one read.

What it decides is in `decisions` and `deletion`, what it writes goes through `store` (fenced by the controller epoch),
what it tells the brokers is made by `requests` and leaves through `channel`. This file is only the order of things, and
that order matters: first the tree, then memory, then the brokers.

An active controller that meets an unexpected error gives up its place and lets the next election start from what is in
the tree, instead of going on with a copy that may be wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import trio

from ottla.controller import decisions, orders
from ottla.controller.channel import Channel, Connect, connector
from ottla.controller.deletion import Deletion
from ottla.controller.election import Elected, elect
from ottla.controller.model import Broker, Cluster
from ottla.controller.requests import ControlRequest, RequestBatch
from ottla.controller.store import ControllerMoved, FencedTree, Written
from ottla.controller.turns import in_turns, pieces
from ottla.coordination import znodes
from ottla.coordination.tree import (
    Delete,
    NoNode,
    Operation,
    SessionExpired,
    SessionState,
    Tree,
    TreeError,
    Unavailable,
    Watch,
    ensure_one,
    get_or_none,
)
from ottla.coordination.znodes import BrokerRegistration, MalformedNode, PartitionState, TopicAssignment
from ottla.errors import KafkaError, NotController, UnknownTopicOrPartition
from ottla.kafka import NO_LEADER, TopicPartition
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR
from ottla.wire.k05_stop_replica import STOP_REPLICA

logger = logging.getLogger(__name__)

STORAGE_ERROR = 56
RETRY_MS = 1000
"""Before standing for election again after an unexpected error, so that an error that stays does not spin."""

Event = tuple[Any, ...]
T = TypeVar("T")


class _Order(Generic[T]):
    """What somebody asks of the active controller, done when its turn among the events comes."""

    def __init__(self, work: Callable[[_Term], Awaitable[T]]) -> None:
        self._work = work
        self._done = trio.Event()
        self._result: T | None = None
        self._was_done = False

    async def carry_out(self, term: _Term) -> None:
        self._result = await self._work(term)
        self._was_done = True
        self._done.set()

    def drop(self) -> None:
        """The controller's time is over."""
        self._done.set()

    async def result(self) -> T:
        await self._done.wait()
        if not self._was_done:
            raise NotController
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
        unclean_election_default: bool = False,
        delete_topics: bool = True,
    ) -> None:
        """`listener` names the inter-broker listener; `connect` opens a connection to a broker there.

        `unclean_election_default` is the broker's `unclean.leader.election.enable`, `delete_topics` its
        `delete.topic.enable`.
        """
        self._tree = tree
        self._broker_id = broker_id
        self._listener = listener
        self._connect = connect or connector(broker_id)
        self._unclean_default = unclean_election_default
        self._delete_topics = delete_topics
        self._watches: dict[Event, Watch] = {}
        self._events: dict[Event, None] = {}
        self._woken = trio.Event()
        self._responses = 0
        self._term: _Term | None = None
        self._active_id: int | None = None
        self._orders: dict[Event, _Order[Any]] = {}

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
    def active_id(self) -> int | None:
        """The broker that was the active controller when we last looked; None if there was none."""
        return self._active_id

    async def run(self) -> None:
        """Stand for election, serve, and stand again, until cancelled. Raises Unavailable if the tree is closed."""
        remove = self._tree.listen(self._on_session)
        try:
            while True:
                await self._tree.wait_connected()
                elected = None
                try:
                    elected = await self._stand()
                    if elected is None:
                        await self._wait_for_change()
                    else:
                        await self._serve(elected)
                except (ControllerMoved, SessionExpired) as error:
                    logger.info("broker %d is not the controller: %s", self._broker_id, error)
                except Unavailable:
                    raise
                except Exception:
                    logger.exception("the controller gives up its place after an unexpected error")
                    await self._step_down(elected)
                    await trio.sleep(RETRY_MS / 1000)
        finally:
            remove()

    # What administrators ask for.

    async def elect_leaders(
        self, names: Iterable[TopicPartition], *, unclean: bool
    ) -> dict[TopicPartition, KafkaError | int]:
        """Makes the preferred replica of each partition its leader, or (`unclean`) any that is online where there is
        none. The leader that was elected, or why none was. Raises NotController.
        """
        return await self._order(lambda term: orders.elect_leaders(term, names, unclean=unclean))

    async def reassign(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Gives partitions to other replicas; None takes a move back that is going on. Raises NotController."""
        return await self._order(lambda term: orders.reassign(term, wanted))

    def reassignments(self) -> dict[TopicPartition, decisions.Reassigned]:
        """The moves that are going on. Raises NotController."""
        if self._term is None:
            raise NotController
        return self._term.reassignments()

    async def _order(self, work: Callable[[_Term], Awaitable[T]]) -> T:
        if self._term is None:
            raise NotController
        order = _Order(work)
        event = ("order", id(order))
        self._orders[event] = order
        self._put(event)
        return await order.result()

    def allow_unclean_elections(self, allowed: bool) -> None:
        """`unclean.leader.election.enable` changed. When it is turned on, partitions without a leader may get one."""
        newly, self._unclean_default = allowed and not self._unclean_default, allowed
        if newly and self.is_active:
            self._put(("unclean elections", None))

    def allow_unclean_elections_of(self, topic: str) -> None:
        """The same, for one topic."""
        if self.is_active:
            self._put(("unclean elections", topic))

    # Election.

    async def _stand(self) -> Elected | None:
        elected, self._active_id = await elect(self._tree, self._broker_id, self._watch(("controller",)))
        return elected

    async def _wait_for_change(self) -> None:
        while ("controller",) not in self._events and ("session",) not in self._events:
            self._woken = trio.Event()
            await self._woken.wait()
        self._events.clear()

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
            self._watches[event] = lambda _: self._put(event)
        return self._watches[event]

    def _put(self, event: Event) -> None:
        self._events[event] = None
        self._woken.set()

    def _on_session(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED and self._term is not None:
            # At once, not as an event: nothing more may be sent in the name of a dead session.
            self._term.scope.cancel()
        self._put(("session",))

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
        await term.take_over()
        while True:
            while not self._events:
                self._woken = trio.Event()
                await self._woken.wait()
            event = next(iter(self._events))
            del self._events[event]
            await term.handle(event)


class _Term:
    """The time between an election and its end: the copy of the cluster, and the connections to its brokers."""

    def __init__(self, controller: Controller, elected: Elected, nursery: trio.Nursery) -> None:
        self.elected = elected
        self.scope = nursery.cancel_scope
        self._controller = controller
        self._nursery = nursery
        self.tree = controller._tree
        self._store = FencedTree(controller._tree, elected.epoch, elected.epoch_version)
        self._watch = controller._watch
        self.cluster = Cluster()
        self._channels: dict[int, Channel] = {}
        self._deletions: dict[str, Deletion] = {}
        self._responses: dict[Event, tuple[ControlRequest, Any]] = {}

    async def handle(self, event: Event) -> None:
        match event:
            case ("controller",) | ("session",):
                await self._check_place()
            case ("brokers",):
                await self._on_brokers()
            case ("broker", broker_id):
                await self._on_broker(broker_id)
            case ("topics",):
                await self._on_topics()
            case ("topic", topic):
                await self._on_topic(topic)
            case ("deletions",):
                await self._on_deletions()
            case ("unclean elections", topic):
                await self._on_unclean_elections(topic)
            case ("isr changes",):
                await self._on_isr_changes()
            case ("log dir events",):
                await self._on_log_dir_events()
            case ("response", _):
                await self._on_response(*self._responses.pop(event))
            case ("order", _):
                order = self._controller._orders.get(event)
                if order is not None:
                    await order.carry_out(self)
                    self._controller._orders.pop(event, None)
            case ("elections",):
                await orders.elections_in_tree(self, self._watch(event))
            case ("reassignments",):
                await orders.reassignments_in_tree(self, self._watch(event))

    async def _check_place(self) -> None:
        """Still ours? An administrator may have deleted the node to move the controller."""
        node = await self.tree.exists(znodes.CONTROLLER, self._watch(("controller",)))
        if node is None or node.czxid != self.elected.czxid:
            raise ControllerMoved("/controller is not ours any more")

    # Taking over.

    async def take_over(self) -> None:
        """Read everything, arm every watch, tell every broker everything."""
        await self._check_place()
        await self._make_feature_node()
        await self._discard_notifications(znodes.ISR_CHANGES, ("isr changes",))
        await self._discard_notifications(znodes.LOG_DIR_EVENTS, ("log dir events",))
        self.cluster.brokers = await self._read_brokers()
        for broker in self.cluster.brokers.values():
            self._open_channel(broker)
        for topic in await self.tree.children(znodes.TOPICS, self._watch(("topics",))):
            assignment = await self._read_topic(topic)
            if assignment is not None:
                self.cluster.assign(topic, assignment)
        names = [name async for name, _ in in_turns(self.cluster.partitions())]
        states = await self._store.read_states(names)
        async for name, (state, version) in in_turns(states.items()):
            self._set_state(name, state, version)

        # Brokers must know who lives before they can follow anyone.
        batch = self._batch()
        batch.metadata_to(self.cluster.brokers)
        self._send(batch)
        marked = await self.tree.children(znodes.DELETE_TOPICS, self._watch(("deletions",)))
        await self._mark_deletions(marked)
        settled = await self._settle(names)
        batch = self._batch()
        async for name in in_turns(names):
            self._tell(batch, name, is_new=settled.get(name, False))
        self._send(batch)
        await self._on_deletions()
        await orders.advance_reassignments(self, names)
        await orders.reassignments_in_tree(self, self._watch(("reassignments",)))
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
        brokers = {}
        for name in await self.tree.children(znodes.BROKER_IDS, self._watch(("brokers",))):
            broker = await self._read_broker(int(name))
            if broker is not None:
                brokers[broker.id] = broker
        return brokers

    async def _read_broker(self, broker_id: int) -> Broker | None:
        path = znodes.broker_path(broker_id)
        try:
            node = await self.tree.get(path, self._watch(("broker", broker_id)))
            return Broker.of(broker_id, node.stat.czxid, BrokerRegistration.decode(path, node.data))
        except NoNode:
            return None
        except MalformedNode as error:
            logger.error("a broker is left out: %s", error)
            return None

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

    async def _brokers_left(self, left: list[int]) -> None:
        logger.info("brokers left: %s", left)
        for broker in left:
            del self.cluster.brokers[broker]
            self.cluster.failed_replicas.pop(broker, None)
            self._channels.pop(broker).close()
            for deletion in self._deletions.values():
                deletion.broker_left(broker)
        await self._availability_changed(self.cluster.on_brokers(left))

    async def _availability_changed(self, names: list[TopicPartition]) -> None:
        """Replicas of these partitions can be used no longer, or again: leaders and metadata follow."""
        changed = await self._settle(names)
        batch = self._batch()
        async for name in in_turns(names):
            if name in changed:
                self._tell(batch, name)
            else:
                # Its replicas that are offline now are news all the same.
                self._tell_metadata(batch, name)
        batch.metadata_to(self.cluster.brokers)
        self._send(batch)

    async def _brokers_came(self, came: list[Broker]) -> None:
        logger.info("brokers came: %s", [broker.id for broker in came])
        for broker in came:
            self.cluster.brokers[broker.id] = broker
            self._open_channel(broker)
            for deletion in self._deletions.values():
                deletion.broker_came(broker.id)
        ids = {broker.id for broker in came}
        batch = self._batch()
        batch.metadata_to(self.cluster.brokers.keys() - ids)
        self._send(batch)
        batch = self._batch()
        async for name, partition in in_turns(self.cluster.partitions()):
            batch.metadata(name, partition, deleted=name.topic in self._deletions)
        batch.metadata_to(ids)
        self._send(batch)

        names = self.cluster.on_brokers(ids)
        settled = await self._settle(names)
        batch = self._batch()
        async for name in in_turns(names):
            self._tell(batch, name, only=None if name in settled else ids, is_new=settled.get(name, False))
        self._send(batch)
        self._advance_deletions()

    async def _on_broker(self, broker_id: int) -> None:
        """A broker changed what it says of itself. That it left or came is another event."""
        broker = await self._read_broker(broker_id)
        known = self.cluster.brokers.get(broker_id)
        if broker is None or known is None or broker == known or broker.epoch != known.epoch:
            return
        self.cluster.brokers[broker_id] = broker
        self._channels[broker_id].update(broker)
        batch = self._batch()
        batch.metadata_to(self.cluster.brokers)
        self._send(batch)

    def _open_channel(self, broker: Broker) -> None:
        channel = Channel(broker, self._controller._listener, self._controller._connect, self._answered)
        self._channels[broker.id] = channel
        self._nursery.start_soon(channel.run)

    # Topics.

    async def _read_topic(self, topic: str) -> TopicAssignment | None:
        path = znodes.topic_path(topic)
        try:
            node = await self.tree.get(path, self._watch(("topic", topic)))
            return TopicAssignment.decode(path, node.data)
        except NoNode:
            return None
        except MalformedNode as error:
            # One topic that nobody can serve must not keep all others from being served.
            logger.error("a topic is left out: %s", error)
            return None

    async def _on_topics(self) -> None:
        names = await self.tree.children(znodes.TOPICS, self._watch(("topics",)))
        known = self.cluster.topics
        for gone in known.keys() - set(names):
            logger.warning("topic %s was removed from the tree without being deleted", gone)
            del known[gone]
            self._deletions.pop(gone, None)
        for topic in names:
            if topic not in known:
                assignment = await self._read_topic(topic)
                if assignment is not None:
                    fresh = self.cluster.assign(topic, assignment)
                    logger.info("topic %s is new, with %d partitions", topic, len(fresh), extra={"topic": topic})
                    await self._new_partitions(fresh)

    async def _on_topic(self, topic: str) -> None:
        """Partitions were added. A topic that is new altogether is another event."""
        if topic not in self.cluster.topics:
            return
        assignment = await self._read_topic(topic)
        if assignment is None:
            return
        if topic in self._deletions:
            logger.warning("topic %s is being deleted, its new assignment is not looked at", topic)
            return
        names = self.cluster.assign(topic, assignment)
        if names:
            logger.info("topic %s has %d more partitions", topic, len(names), extra={"topic": topic})
        await self._new_partitions(names)

    async def _new_partitions(self, names: list[TopicPartition]) -> None:
        if not names:
            return
        try:
            settled = await self._settle(names)
        except NoNode:
            logger.warning("topic %s is gone again", names[0].topic)
            return
        batch = self._batch()
        async for name in in_turns(names):
            self._tell(batch, name, is_new=settled.get(name, False))
        self._send(batch)

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
        self._advance_deletions()
        for deletion in list(self._deletions.values()):
            await self._complete_deletion(deletion)

    async def _mark_deletions(self, marked: Iterable[str]) -> None:
        fresh = [topic for topic in marked if topic in self.cluster.topics and topic not in self._deletions]
        if not fresh or not self._controller._delete_topics:
            return
        logger.info("deleting topics %s", fresh)
        batch = self._batch()
        async for name in in_turns(self.cluster.partitions_of(fresh)):
            partition = self.cluster.get(name)
            assert partition is not None
            batch.metadata(name, partition, deleted=True)
        batch.metadata_to(self.cluster.brokers)
        self._send(batch)
        for topic in fresh:
            self._deletions[topic] = Deletion(topic, self.cluster.topics[topic])

    def _advance_deletions(self) -> None:
        batch = self._batch()
        for deletion in self._deletions.values():
            for broker, partitions in deletion.next_requests(self.cluster.brokers).items():
                for partition in partitions:
                    batch.delete(TopicPartition(deletion.topic, partition), broker)
        self._send(batch)

    async def _complete_deletion(self, deletion: Deletion) -> None:
        if not deletion.is_complete:
            return
        await self._store.delete_topic(deletion.topic)
        self.cluster.topics.pop(deletion.topic, None)
        for failed in self.cluster.failed_replicas.values():
            failed -= {name for name in failed if name.topic == deletion.topic}
        self._deletions.pop(deletion.topic, None)
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
                for topic, partition in znodes.decode_partitions(path, node.data):
                    changed[TopicPartition(topic, partition)] = None
        known = [name for name in changed if self.cluster.get(name) is not None]
        batch = self._batch()
        states = await self._store.read_states(known)
        async for name, (state, version) in in_turns(states.items()):
            self._set_state(name, state, version)
            self._tell_metadata(batch, name)
        if known:
            batch.metadata_to(self.cluster.brokers)
        self._send(batch)
        await self._store.delete_nodes(paths)
        await orders.advance_reassignments(self, known)

    async def _on_log_dir_events(self) -> None:
        """Brokers lost a log directory: ask them, with the roles they have, which replicas still work."""
        names = await self.tree.children(znodes.LOG_DIR_EVENTS, self._watch(("log dir events",)))
        paths = [f"{znodes.LOG_DIR_EVENTS}/{name}" for name in names]
        nodes = zip(paths, await self.tree.get_many(paths), strict=True)
        brokers = {znodes.decode_log_dir_event(path, node.data) for path, node in nodes if node is not None}
        batch = self._batch()
        async for name in in_turns(self.cluster.on_brokers(brokers)):
            self._tell(batch, name, only=brokers)
        self._send(batch)
        await self._store.delete_nodes(paths)

    # Answers.

    def _answered(self, request: ControlRequest, response: Any) -> None:
        event = ("response", self._controller._responses)
        self._controller._responses += 1
        self._responses[event] = (request, response)
        self._controller._put(event)

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
        async for answer in in_turns(response.partition_errors):
            name = TopicPartition(answer.topic_name, answer.partition_index)
            if answer.error_code == STORAGE_ERROR:
                after.add(name)
            elif answer.error_code == 0:
                after.discard(name)
        self.cluster.failed_replicas[broker] = after
        # One that works again, since its log could be made after all, may lead: nobody else may be there to do so.
        restored, failed = sorted(before - after), sorted(after - before)
        if restored:
            logger.info("broker %d has %d replicas that it had not before", broker, len(restored))
            await self._availability_changed(restored)
        if failed:
            logger.warning("broker %d has no working log directory for %d replicas", broker, len(failed))
            for deletion in self._deletions.values():
                deletion.failed(broker, [name.partition for name in failed if name.topic == deletion.topic])
            await self._availability_changed(failed)

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

    def reassignments(self) -> dict[TopicPartition, decisions.Reassigned]:
        return {
            name: decisions.Reassigned(partition.replicas, partition.adding, partition.removing)
            for name, partition in self.cluster.partitions()
            if partition.adding or partition.removing
        }

    # Deciding, writing, telling.

    async def change_states(self, wanted: Mapping[TopicPartition, PartitionState]) -> set[TopicPartition]:
        """Writes new states, first to the tree; returns those that are written. What someone else had changed meanwhile
        is taken over instead.
        """
        changed: set[TopicPartition] = set()
        for piece in pieces(list(wanted)):
            versions = {name: partition.version for name in piece if (partition := self.cluster.get(name)) is not None}
            states = {name: (wanted[name], version) for name, version in versions.items()}
            written = await self._store.set_states(states)
            self._take_over_written(written, wanted)
            changed |= written.done.keys()
        return changed

    def is_deleting(self, topic: str) -> bool:
        return topic in self._deletions

    async def multi(self, operations: Sequence[Operation]) -> None:
        """As Tree.multi, if this is still the controller."""
        await self._store.multi(operations)

    async def delete_nodes(self, paths: Sequence[str]) -> None:
        await self._store.delete_nodes(paths)

    def stop_replicas(self, name: TopicPartition, brokers: Iterable[int], leader_epoch: int) -> None:
        """Replicas that hold a partition no longer delete it."""
        batch = self._batch()
        batch.stop(name, brokers, leader_epoch, delete=True)
        self._send(batch)

    async def tell_all(self, names: Iterable[TopicPartition]) -> None:
        """The roles of partitions to the brokers that hold them, and everybody's metadata."""
        batch = self._batch()
        async for name in in_turns(names):
            self._tell(batch, name)
        self._send(batch)

    async def _settle(self, names: Sequence[TopicPartition]) -> dict[TopicPartition, bool]:
        """Give each partition the state that fits who is online; first in the tree, then here.

        Returns those whose state changed, with whether it is their first.
        """
        settled: dict[TopicPartition, bool] = {}
        for piece in pieces(names):
            settled |= await self._settle_piece(piece)
            await trio.lowlevel.checkpoint()
        return settled

    async def _settle_piece(self, names: Iterable[TopicPartition]) -> dict[TopicPartition, bool]:
        settled: dict[TopicPartition, bool] = {}
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
                state = decisions.after_replicas_left(partition, online, epoch, unclean=name.topic in unclean)
                if state is not None:
                    later[name] = (state, partition.version)
            pending = []
            if first:
                written = await self._store.create_states(first)
                settled.update(dict.fromkeys(written.done, True))
                pending += self._take_over_written(written, first)
                settled.update(dict.fromkeys(written.found, False))
            if later:
                written = await self._store.set_states(later)
                settled.update(dict.fromkeys(written.done, False))
                pending += self._take_over_written(written, {name: state for name, (state, _) in later.items()})
        return settled

    def _take_over_written(
        self, written: Written, wanted: Mapping[TopicPartition, PartitionState]
    ) -> list[TopicPartition]:
        """Memory follows the tree. Returns the partitions to decide on again, because someone else had written."""
        for name, version in written.done.items():
            self._set_state(name, wanted[name], version)
        for name, (state, version) in written.found.items():
            self._set_state(name, state, version)
        return list(written.found)

    def _set_state(self, name: TopicPartition, state: PartitionState, version: int) -> None:
        partition = self.cluster.get(name)
        if partition is not None:
            partition.state, partition.version = state, version

    async def _may_elect_unclean(self, names: Iterable[TopicPartition]) -> set[str]:
        """Of the topics with partitions that only a replica not in sync could lead, those that allow it."""
        topics = set()
        for name in names:
            partition = self.cluster.get(name)
            if partition is not None and partition.state is not None:
                online = self.cluster.online(name, partition.replicas)
                if decisions.needs_unclean_election(partition, online):
                    topics.add(name.topic)
        allowed = set()
        for topic in topics:
            path = znodes.config_path("topics", topic)
            node = await get_or_none(self.tree, path)
            config = {} if node is None else znodes.decode_config(path, node.data)
            setting = config.get("unclean.leader.election.enable", str(self._controller._unclean_default))
            if setting.strip().lower() == "true":
                allowed.add(topic)
        return allowed

    def _batch(self) -> RequestBatch:
        return RequestBatch(self.cluster, self._controller._broker_id, self.elected.epoch, self._controller._listener)

    def _tell(
        self, batch: RequestBatch, name: TopicPartition, *, only: set[int] | None = None, is_new: bool = False
    ) -> None:
        """The roles of a partition's live replicas (or of `only` those brokers'), unless it has none or is going
        away.
        """
        partition = self.cluster.get(name)
        if partition is None or partition.state is None or name.topic in self._deletions:
            return
        brokers = [
            broker
            for broker in partition.replicas
            if broker in self.cluster.brokers and (only is None or broker in only)
        ]
        batch.roles(name, partition, brokers, is_new=is_new)

    def _tell_metadata(self, batch: RequestBatch, name: TopicPartition) -> None:
        partition = self.cluster.get(name)
        if partition is not None:
            batch.metadata(name, partition, deleted=name.topic in self._deletions)

    def _send(self, batch: RequestBatch) -> None:
        for request in batch.requests():
            self._channels[request.broker].send(request)
