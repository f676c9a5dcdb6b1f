"""Events of the controller, and the queue in which they wait: each event once, the urgent ones first.

An event is a value. Two that are equal are one while they wait, because each handler reads what the tree holds *now*.
So no change is missed, and a burst of changes costs one read. An event says how urgent it is, of which of Kafka's kinds
its time is (`timings`), and whether a look at the whole tree covers it; `handling` says what is done about it. Names
are those of Kafka's events (`KafkaController.scala` of 2.7) where Kafka has one.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeVar

import trio

from ottla.controller import timings
from ottla.controller.requests import ControlRequest
from ottla.controller.timings import Timings
from ottla.coordination.tree import EventKind, Watch, WatchEvent
from ottla.errors import KafkaError, NotController
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR
from ottla.wire.k05_stop_replica import STOP_REPLICA
from ottla.wire.k06_update_metadata import UPDATE_METADATA

T = TypeVar("T")


class Urgency(enum.IntEnum):
    """Lower is sooner. Who is alive and who is the controller comes before everything else: a decision that is made
    without knowing that is made again.
    """

    CONTROLLERSHIP = 0
    LIVENESS = 1
    LEADERS = 2
    """Leaders that ask for another ISR, since their high watermark waits for the answer, and brokers that shut down."""
    REST = 3


class Event:
    """The base of all events. Subclasses are frozen, and hashable."""

    urgency: ClassVar[Urgency] = Urgency.REST
    kind: ClassVar[str | None] = None
    """One of `timings.KINDS`; None for events that Kafka does not time."""
    is_look: ClassVar[bool] = False
    """A watch puts the event in, and `LookAgain` and `LookAtRest` together see all that it would."""


# Who is the controller.


@dataclass(frozen=True)
class ControllerChange(Event):
    """`/controller` was made, removed, or names somebody else."""

    urgency = Urgency.CONTROLLERSHIP
    kind = timings.CONTROLLER_CHANGE
    is_look = True


@dataclass(frozen=True)
class SessionChange(Event):
    """The session with the coordination tree has another state."""

    urgency = Urgency.CONTROLLERSHIP
    kind = timings.CONTROLLER_CHANGE


@dataclass(frozen=True)
class ControllerGone(Event):
    """The process of another broker is gone, which may be the active controller's. Only for a broker that is not the
    active controller itself.
    """


@dataclass(frozen=True)
class LookAgain(Event):
    """Every watch is gone, with the connection: the whole tree is read again. One event for all the watches."""

    urgency = Urgency.CONTROLLERSHIP
    kind = timings.LEADER_ELECTION
    is_look = True


@dataclass(frozen=True)
class LookAtRest(Event):
    """The part of `LookAgain` that is not urgent. A connection that is lost again and again must not keep the
    controller from all other work.
    """

    kind = timings.TOPIC_CHANGE


# Brokers.


@dataclass(frozen=True)
class BrokerChange(Event):
    """Brokers have registered, or their registrations are gone."""

    urgency = Urgency.LIVENESS
    kind = timings.LEADER_ELECTION
    is_look = True


@dataclass(frozen=True)
class BrokerModifications(Event):
    """A registered broker says something else of itself."""

    broker: int
    urgency = Urgency.LIVENESS
    kind = timings.LEADER_ELECTION
    is_look = True


@dataclass(frozen=True)
class BrokerGone(Event):
    """The process behind a registration is positively gone, though its session lives (`neighbours`)."""

    broker: int
    #: Of the registration.
    epoch: int
    urgency = Urgency.LIVENESS
    kind = timings.LEADER_ELECTION


@dataclass(frozen=True)
class AwayOver(Event):
    """Clients may have been told long enough of a broker that is away (`away`)."""

    kind = timings.LEADER_ELECTION


@dataclass(frozen=True)
class ReplicasRestored(Event):
    """Replicas that failed, and that can be used again, have waited long enough (`relapses`)."""


# Topics.


@dataclass(frozen=True)
class TopicChange(Event):
    """Topics came or went."""

    kind = timings.TOPIC_CHANGE
    is_look = True


@dataclass(frozen=True)
class PartitionModifications(Event):
    """The assignment of a topic is another one."""

    topic: str
    kind = timings.TOPIC_CHANGE
    is_look = True


@dataclass(frozen=True)
class TopicsMissing(Event):
    """Topics are missing for some time, and no further one has followed them (`missing`)."""

    kind = timings.TOPIC_CHANGE


@dataclass(frozen=True)
class TopicDeletion(Event):
    """Topics were marked to be deleted."""

    kind = timings.TOPIC_DELETION
    is_look = True


# Settings.


@dataclass(frozen=True)
class UncleanLeaderElectionEnable(Event):
    """Replicas that are not in sync may lead from now on, as far as their topics allow it."""

    kind = timings.UNCLEAN_ENABLED


@dataclass(frozen=True)
class TopicUncleanLeaderElectionEnable(Event):
    """The same for the replicas of one topic."""

    topic: str
    kind = timings.UNCLEAN_ENABLED_OF_TOPIC


@dataclass(frozen=True)
class AutoBalance(Event):
    """It is time to look whether leadership is to be given back to first replicas (`balance`)."""

    tolerated_percentage: int
    kind = timings.AUTO_BALANCE


# Notifications and orders in the tree.


@dataclass(frozen=True)
class IsrChangeNotification(Event):
    """Leaders wrote new ISRs into the tree."""

    kind = timings.ISR_CHANGE
    is_look = True


@dataclass(frozen=True)
class LogDirEventNotification(Event):
    """Brokers lost log directories."""

    kind = timings.LOG_DIR_CHANGE
    is_look = True


@dataclass(frozen=True)
class PreferredElection(Event):
    """A tool wrote into the tree that it wants preferred replicas to be elected."""

    kind = timings.MANUAL_BALANCE
    is_look = True


@dataclass(frozen=True)
class Reassignment(Event):
    """A tool wrote into the tree that it wants partitions to be moved."""

    kind = timings.REASSIGNMENT
    is_look = True


# Moves.


@dataclass(frozen=True)
class IsrsGrown(Event):
    """ISRs have grown, so that moves may be at their end."""

    kind = timings.REASSIGNMENT


@dataclass(frozen=True)
class EndingsOverdue(Event):
    """Brokers may have had their time to delete what moved away from them (`endings`)."""

    kind = timings.REASSIGNMENT


# Answers of brokers.


@dataclass(frozen=True, eq=False)
class Answered(Event):
    """A broker has answered a request. No two of these are equal."""

    request: ControlRequest
    response: Any


class LeaderAndIsrAnswered(Answered):
    kind = timings.ROLES_ANSWERED


class StopReplicaAnswered(Answered):
    kind = timings.TOPIC_DELETION


class UpdateMetadataAnswered(Answered):
    """Kafka does not time these."""


_ANSWERED: Final[Mapping[int, type[Answered]]] = {
    LEADER_AND_ISR.key: LeaderAndIsrAnswered,
    STOP_REPLICA.key: StopReplicaAnswered,
    UPDATE_METADATA.key: UpdateMetadataAnswered,
}


def answered(request: ControlRequest, response: Any) -> Answered:
    return _ANSWERED[request.api.key](request, response)


# Requests to the controller.


class Order(Event, Generic[T]):
    """Work that somebody asks of the active controller, done when the events before it are. No two are equal."""

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self._work = work
        self._done = trio.Event()
        self._was_done = False
        self._result: T | None = None
        self._error: KafkaError = NotController()

    async def carry_out(self) -> None:
        try:
            self._result = await self._work()
        except KafkaError as error:
            self._error = error
        else:
            self._was_done = True
        self._done.set()

    def drop(self) -> None:
        """The controller's time is over. Nothing happens if the order was carried out."""
        self._done.set()

    async def result(self) -> T:
        """Raises the error that the work raised, or NotController if it was not done."""
        await self._done.wait()
        if not self._was_done:
            raise self._error
        return self._result  # type: ignore[return-value]


class UrgentOrder(Order[T]):
    urgency = Urgency.LEADERS


class AlterIsr(UrgentOrder[T]):
    kind = timings.ISR_CHANGE


class ControlledShutdown(UrgentOrder[T]):
    kind = timings.SHUTDOWN


class ElectLeaders(Order[T]):
    kind = timings.MANUAL_BALANCE


class Reassign(Order[T]):
    kind = timings.REASSIGNMENT


class ListReassignments(Order[T]):
    """Kafka times these; for metrics they are no event here."""


class Events:
    """The queue, with one reader and any number of writers, all on the loop."""

    def __init__(self, timings: Timings | None = None) -> None:
        self._timings = timings or Timings()
        #: Since when each waits, by urgency.
        self._waiting: tuple[dict[Event, float], ...] = tuple({} for _ in Urgency)
        self._filled = trio.Event()
        self._watches: dict[Event, Watch] = {}

    def __contains__(self, event: Event) -> bool:
        return event in self._with(event)

    def __len__(self) -> int:
        """How many wait."""
        return sum(map(len, self._waiting))

    def put(self, event: Event) -> None:
        """An event that waits already keeps its place."""
        self._with(event).setdefault(event, self._timings.now())
        self._filled.set()

    async def put_at(self, event: Event, at_s: float) -> None:
        """Puts an event in at a time of trio's clock."""
        await trio.sleep_until(at_s)
        self.put(event)

    def watch(self, event: Event) -> Watch:
        """The watch that puts an event in when it fires; the same one for equal events. When watches are lost with the
        connection, all of them put in the same event.
        """
        if event not in self._watches:

            def fire(happened: WatchEvent) -> None:
                self.put(LookAgain() if happened.kind is EventKind.LOST else event)

            self._watches[event] = fire
        return self._watches[event]

    def clear(self) -> None:
        for events in self._waiting:
            events.clear()

    def drop_looks(self) -> None:
        """Forgets the events by which something in the tree has changed: their reader is about to read everything."""
        for events in self._waiting:
            for event in [event for event in events if event.is_look]:
                del events[event]

    async def changed(self) -> None:
        """Returns once something is put in after this call."""
        self._filled = trio.Event()
        await self._filled.wait()

    async def take(self) -> Event:
        """The most urgent event; of those that are equally urgent the one that waits longest."""
        while True:
            for events in self._waiting:
                for event, put_s in events.items():
                    del events[event]
                    self._timings.taken(put_s)
                    return event
            await self.changed()

    def _with(self, event: Event) -> dict[Event, float]:
        return self._waiting[event.urgency]
