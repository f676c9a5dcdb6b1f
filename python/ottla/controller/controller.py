"""The controller: elected through the tree, it decides for the cluster and tells the brokers.

Every broker runs one. All but one wait for `/controller` to go away; the one that made that node is active until its
session ends or the node is deleted (which is how an administrator moves the controller). While active, it handles one
event at a time: a watch fired, a broker answered or asks for something (`events` has their order, `handling` what is
done about each).

A broker registers before it stands for election, in every session. A controller that was elected first would see itself
among the dead, and take its partitions from it for a moment.

This file has the election, the loop, and the door for those who ask something of the controller. The work of an active
controller is that of a `term` and its parts. Their decisions are in `decisions` and `deletion`, their writes go through
`store` (fenced by the controller epoch), and brokers are told through `channels`. Everywhere the order is the same, and
it matters: first the tree, then memory, then the brokers.

An active controller that meets an unexpected error gives up its place and lets the next election start from what is in
the tree, instead of going on with a copy that may be wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import trio

from ottla.controller import log_ends, orders, timings
from ottla.controller.balance import Balance
from ottla.controller.channel import TIMEOUT_MS, Connect
from ottla.controller.decisions import IsrChange, Reassigned
from ottla.controller.early_removal import remove_controller
from ottla.controller.election import Elected, elect
from ottla.controller.events import (
    AlterIsr,
    AutoBalance,
    BrokerGone,
    ControlledShutdown,
    ControllerChange,
    ControllerGone,
    ElectLeaders,
    Events,
    ListReassignments,
    LookAgain,
    Order,
    Reassign,
    SessionChange,
    TopicUncleanLeaderElectionEnable,
    UncleanLeaderElectionEnable,
)
from ottla.controller.handling import handle
from ottla.controller.isr import Altered, alter_isr
from ottla.controller.model import Broker, Cluster
from ottla.controller.neighbours import Neighbours
from ottla.controller.registration import Registration
from ottla.controller.shutdown import shut_down
from ottla.controller.store import ControllerMoved, FencedTree
from ottla.controller.taking_over import take_over
from ottla.controller.term import Standing, Term
from ottla.controller.timings import Timings
from ottla.controller.unclean_elections import Unclean
from ottla.coordination import znodes
from ottla.coordination.tree import Delete, SessionExpired, SessionState, Tree, TreeError, Unavailable, get_or_none
from ottla.coordination.znodes import MalformedNode
from ottla.errors import KafkaError, NotController
from ottla.kafka import TopicPartition
from ottla.logging_setup import Repeated
from ottla.peers import Dialer
from ottla.peers.presence import Greet
from ottla.slices import Slices

logger = logging.getLogger(__name__)

RETRY_MS = 1000
"""Before standing for election again after an unexpected error, so that an error that stays does not spin."""

T = TypeVar("T")


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
        epoch_ends: log_ends.EpochEnds | None = None,
        named: Callable[[], Iterable[tuple[Broker, float | None]]] = tuple,
        greet: Greet | None = None,
    ) -> None:
        """`listener` names the inter-broker listener; `connect` opens a connection to a broker there. `registration` is
        renewed in every new session; without one, somebody else sees to it. `timeout_ms` is how long a broker has for
        an answer, `controller.socket.timeout.ms`.

        `unclean_election_default` is the broker's `unclean.leader.election.enable`, `delete_topics` its
        `delete.topic.enable`. Without `balance` leadership is not given back to first replicas.

        `session_s` is how long sessions live without their processes. With it, those of processes that are positively
        gone are not waited for (`watch_neighbours`), but for an election of replicas that are not in sync. `doubt` is
        told of a broker that may be gone, before that is proved, and when it is not.

        `epoch_ends` asks a broker where its logs end, for elections of replicas that are not in sync. `named` are the
        brokers that clients are told of here, with the time until when if they are away. `greet` says on a connection
        to another broker who this is.
        """
        self._tree = tree
        self._broker_id = broker_id
        self._registration = registration
        self._balance = balance
        self._epoch_ends = epoch_ends
        self._named = named
        self._unclean = Unclean(unclean_election_default)
        self._neighbours = Neighbours(tree, broker_id, listener, self._is_gone, doubt, greet)
        self._standing = Standing(
            broker_id,
            listener,
            # Kafka's controllers name themselves so too.
            connect=connect or Dialer(str(broker_id), timeout_ms).open,
            timeout_ms=timeout_ms,
            session_s=session_s,
            delete_topics=delete_topics,
            unclean=self._unclean,
            proof=self._neighbours.proof,
            is_at_home=self._is_at_home,
        )
        #: How long events wait and take.
        self.timings = Timings()
        self._events = Events(self.timings)
        self._term: Term | None = None
        self._active_id: int | None = None
        #: The version that /controller_epoch had before that was known.
        self._epoch_version: int | None = None
        #: Those that are not done yet.
        self._orders: set[Order[Any]] = set()
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
        """The cluster as the active controller knows it, to be looked at only; None unless this is the active one."""
        return None if self._term is None else self._term.cluster

    @property
    def unclean_elections_total(self) -> int:
        """How often this broker made a replica leader that was not in sync."""
        return self._unclean.total

    @property
    def events_waiting(self) -> int:
        return len(self._events)

    def requests_waiting(self) -> dict[int, int]:
        """How many requests to each broker are not answered yet; nothing unless this is the active controller."""
        return {} if self._term is None else self._term.channels.waiting()

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
        self._events.put(BrokerGone(broker, epoch) if self.is_active else ControllerGone())

    # What administrators ask for.

    async def elect_leaders(
        self, names: Iterable[TopicPartition], *, unclean: bool
    ) -> dict[TopicPartition, KafkaError | int]:
        """Makes the preferred replica of each partition its leader, or (`unclean`) any that is online where there is
        none: the one that has the most, as far as its replicas say. The leader that was elected, or why none was.
        Raises NotController.
        """
        term = self._active()
        ends = log_ends.NO_ENDS
        if unclean:
            names = list(names)
            # Before the events that came earlier: others do not wait for the answers.
            ends = await log_ends.ends_of(term.cluster, names, self._epoch_ends)
            term = self._active()
        return await self._order(ElectLeaders(lambda: orders.elect_leaders(term, names, unclean=unclean, ends=ends)))

    async def alter_isr(
        self, broker: int, broker_epoch: int, changes: Mapping[TopicPartition, IsrChange]
    ) -> dict[TopicPartition, KafkaError | Altered]:
        """Does what a leader asks for (see `isr`): by partition the state that holds now, or the error. Raises
        NotController, StaleBrokerEpoch.
        """
        term = self._active()
        return await self._order(AlterIsr(lambda: alter_isr(term, broker, broker_epoch, changes)))

    async def shut_down(self, broker: int, broker_epoch: int) -> list[TopicPartition]:
        """Takes its work from a broker that stops (see `shutdown`); the partitions that it leads still. Raises
        NotController, StaleBrokerEpoch, BrokerNotAvailable.
        """
        term = self._active()
        return await self._order(ControlledShutdown(lambda: shut_down(term, broker, broker_epoch)))

    async def all_told(self) -> None:
        """Returns when every broker has answered all that this controller sent it. At once, if this is none."""
        if self._term is not None:
            await self._term.channels.all_told()

    async def reassign(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Gives partitions to other replicas; None takes a move back that is going on. Raises NotController."""
        term = self._active()
        return await self._order(Reassign(lambda: term.moves.reassign(wanted)))

    async def reassignments(self) -> dict[TopicPartition, Reassigned]:
        """The moves that are going on. Raises NotController."""
        return await self._order(ListReassignments(self._active().moves.under_way))

    def _active(self) -> Term:
        """The term that an order is for; when it ends, so do its orders. Raises NotController."""
        if self._term is None:
            raise NotController
        return self._term

    async def _order(self, order: Order[T]) -> T:
        self._orders.add(order)
        self._events.put(order)
        try:
            return await order.result()
        finally:
            self._orders.discard(order)

    def allow_unclean_elections(self, allowed: bool) -> None:
        """`unclean.leader.election.enable` changed. When it is turned on, partitions without a leader may get one."""
        newly, self._unclean.is_allowed = allowed and not self._unclean.is_allowed, allowed
        if newly and self.is_active:
            self._events.put(UncleanLeaderElectionEnable())

    def allow_unclean_elections_of(self, topic: str) -> None:
        """The same, for one topic."""
        if self.is_active:
            self._events.put(TopicUncleanLeaderElectionEnable(topic))

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
        elected, self._active_id = await elect(self._tree, self._broker_id, self._events.watch(ControllerChange()))
        return elected

    async def _wait_for_change(self) -> None:
        if await self._make_room():
            return
        signs = ControllerChange(), SessionChange(), LookAgain(), ControllerGone()
        while not any(event in self._events for event in signs):
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

    async def _is_at_home(self) -> bool:
        """The tree is that of this broker's cluster, as far as anybody can tell."""
        return self._registration is None or await self._registration.is_at_home()

    # Events: put in from watches and answers, taken out one at a time.

    def _on_session(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED and self._term is not None:
            # Not as an event: nothing more may be sent in the name of a dead session.
            self._term.end()
        self._events.put(SessionChange())

    async def _serve(self, elected: Elected) -> None:
        self._events.clear()
        logger.info("broker %d is the controller with epoch %d", self._broker_id, elected.epoch)
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            term = Term(elected, self._tree, self._events, nursery, self._standing)
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
                for order in self._orders:
                    order.drop()
                term.end()
                # None of them is for another term, which looks at everything. Answers would keep their requests.
                self._events.clear()
        if failure is not None:
            raise failure

    async def _serve_term(self, term: Term) -> None:
        with self.timings.timed(timings.CONTROLLER_CHANGE):
            await term.brokers.remove_gone(await self._neighbours.still_gone())
            await take_over(term, self._named)
        # Those that are gone since.
        for broker, epoch in self._neighbours.gone().items():
            self._events.put(BrokerGone(broker, epoch))
        if self._balance is not None:
            term.nursery.start_soon(self._look_at_balance, self._balance)
        slices = Slices(own=True)
        while True:
            event = await self._events.take()
            with self.timings.timed(event.kind):
                await handle(term, event)
            # Else it would be kept until there is the next: an answer, and its request with all partitions perhaps.
            del event
            # Thousands of topics that are gone are as many events, of which each has little to do.
            await slices.row()

    async def _look_at_balance(self, balance: Balance) -> None:
        await trio.sleep(balance.first_look_s)
        while True:
            self._events.put(AutoBalance(balance.tolerated_percentage))
            await trio.sleep(balance.interval_s)
