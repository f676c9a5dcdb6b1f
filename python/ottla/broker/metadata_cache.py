"""The cluster as this broker knows it, as the controller last told it (UpdateMetadata). No I/O.

Everything a client learns from Metadata comes from here, never from the coordination tree: so a topic is answered with
its leader only when this broker has heard of the leader, and CreateTopics waits for exactly that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec
import trio

from ottla.broker.freeing import Rows, free_soon
from ottla.errors import NotLeaderOrFollower, UnknownTopicOrPartition
from ottla.kafka import LEADER_DURING_DELETE, TopicPartition
from ottla.slices import Slices

if TYPE_CHECKING:
    from ottla.replication.roles import PartitionState
    from ottla.wire.k06_update_metadata import UpdateMetadataPartitionState

T = TypeVar("T")

#: Topics that are replaced in one go: less than a millisecond.
TOPICS_AT_ONCE: Final = 2_000

#: How long answers wait for what will be known soon: longer than proving that a process is gone, and an election, take.
DOUBT_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class BrokerMetadata:
    broker_id: int
    rack: str | None
    #: listener name to host and port
    endpoints: dict[str, tuple[str, int]]
    #: listener name to the name of its security protocol, of those that are not plain text
    protocols: dict[str, str] = field(default_factory=dict)


class Away(NamedTuple):
    """A broker that is gone, of which clients are told all the same until then."""

    broker: BrokerMetadata
    until_s: float


class PartitionMetadata(msgspec.Struct, frozen=True, gc=False):
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]


@dataclass(slots=True)
class MetadataCache:
    controller_id: int = -1
    #: The brokers that are alive.
    brokers: dict[int, BrokerMetadata] = field(default_factory=dict)
    #: Others that Metadata names. Librdkafka takes a broker down that is named no more, and waits for ever for what it
    #: wanted of that one. With Kafka a broker that dies is named until its session ends. Nobody else asks for them: a
    #: broker that is away leads nothing, coordinates nothing and holds nobody up.
    away: dict[int, Away] = field(default_factory=dict)
    #: The partitions of a topic are replaced, never changed: a copy of `topics` is a snapshot.
    topics: dict[str, dict[int, PartitionMetadata]] = field(default_factory=dict)
    #: Held from the making of an `Update` until it is applied.
    updating: trio.Lock = field(default_factory=trio.Lock)
    #: True once the controller has told what a client may take for the cluster, or was silent for long.
    is_known: bool = False
    #: Brokers whose machines have closed a connection, and until when others lead what they led, most likely.
    _doubted: dict[int, float] = field(default_factory=dict)
    _waiting: dict[trio.Event, Callable[[], bool]] = field(default_factory=dict)
    _patient: set[trio.CancelScope] = field(default_factory=set)
    _is_over: bool = False

    def changed(self) -> None:
        """Lets those go on who wait for what is true now."""
        for event in [event for event, holds in self._waiting.items() if holds()]:
            del self._waiting[event]
            event.set()

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Returns once `holds()` is true, which is asked after every update (and every `changed`)."""
        if holds():
            return
        event = trio.Event()
        self._waiting[event] = holds
        try:
            await event.wait()
        finally:
            self._waiting.pop(event, None)

    async def wait_for_each(self, holds: Callable[[T], bool], items: Iterable[T]) -> None:
        """Returns when `holds(item)` was true of each item once. Unlike `wait_until` for all of them together, it does
        not look at hundreds of thousands in one go, and at all of them again after every update.
        """
        slices = Slices()
        for item in items:
            await slices.row()
            if not holds(item):
                await self.wait_until(partial(holds, item))

    @contextmanager
    def patience(self, seconds: float) -> Iterator[None]:
        """A block of waiting that ends after so long, or when this broker stops: it is told nothing more by then, and
        whoever waits is better told so than cut off. What came of it is to be looked at afterwards.
        """
        with trio.move_on_after(seconds) as scope:
            if self._is_over:
                scope.cancel()
            self._patient.add(scope)
            try:
                yield
            finally:
                self._patient.remove(scope)

    def stop(self) -> None:
        """Ends all patience: nothing is going to change any more."""
        self._is_over = True
        for scope in self._patient:
            scope.cancel()

    async def known(self) -> None:
        """Returns when this broker knows the cluster, or is said to (`is_known`).

        A client that is told of no brokers by a broker that has just started, or that its topics do not exist, may
        believe it: librdkafka since 2.10 forgets the broker, and with `metadata.recovery.strategy=none` for ever.
        (Kafka 2.7 can answer so for a moment; with KRaft it answers nobody before it has caught up.)
        """
        await self.wait_until(lambda: self.is_known)

    def become_known(self) -> None:
        self.is_known = True
        self.changed()

    def doubt(self, broker: int, is_doubted: bool) -> None:
        """The process of a broker may be gone, or is not."""
        if is_doubted and broker in self.brokers:
            self._doubted[broker] = trio.current_time() + DOUBT_S
        elif self._doubted.pop(broker, None) is not None:
            self.changed()

    async def certain(self) -> None:
        """Returns when no broker is doubted, or has been for `DOUBT_S`. A client that has lost its leader asks at once
        who leads now; one that is told of the lost leader once more asks again after a second (librdkafka).
        """
        if self._doubted:
            with trio.move_on_at(max(self._doubted.values())):
                await self.wait_until(lambda: not self._doubted)

    def address(self, broker: int, listener: str) -> tuple[str, int] | None:
        """Where a broker's listener of this name is; None if it is not known, or not alive."""
        known = self.brokers.get(broker)
        return None if known is None else known.endpoints.get(listener)

    def error_where_absent(self, topic: str, partition: int) -> int:
        """Why this broker, which has no replica of the partition, does not serve it (`ReplicaManager.getPartition`):
        others have it, as a client with old metadata does not know yet, or nobody.
        """
        known = partition in self.topics.get(topic, {})
        return NotLeaderOrFollower.code if known else UnknownTopicOrPartition.code

    def has_leaders(self, topic: str, partitions: Iterable[int]) -> bool:
        """True if all of `partitions` exist and have a leader that is alive."""
        known = self.topics.get(topic, {})
        return all(index in known and known[index].leader in self.brokers for index in partitions)


class Update:
    """One UpdateMetadata, or what LeaderAndIsr says before it, on its way into the cache.

    Its rows are added in any number of pieces; nobody sees any of them before `apply`.
    """

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache
        self._brokers: dict[int, BrokerMetadata] = {}
        self._away: dict[int, Away] = {}
        self._topics: dict[str, dict[int, PartitionMetadata]] = {}
        #: The partitions that are gone.
        self.deleted: list[TopicPartition] = []

    def add_broker(self, broker: BrokerMetadata, away_ms: int = 0) -> None:
        """A broker that is alive, unless it is away for so long yet. Who is not named is gone."""
        if away_ms > 0:
            self._away[broker.broker_id] = Away(broker, trio.current_time() + away_ms / 1000)
        else:
            self._brokers[broker.broker_id] = broker

    def add(self, topic: str, state: UpdateMetadataPartitionState) -> None:
        index = state.partition_index
        partitions = self._topics.get(topic)
        if partitions is None:
            partitions = self._topics[topic] = self._cache.topics.get(topic, {}).copy()
        if state.leader == LEADER_DURING_DELETE:
            partitions.pop(index, None)
            self.deleted.append(TopicPartition(topic, index))
        else:
            partitions[index] = PartitionMetadata(
                state.leader, state.leader_epoch, tuple(state.isr), tuple(state.replicas), tuple(state.offline_replicas)
            )

    def keep_brokers(self) -> None:
        """Nothing is said of the brokers: those that were alive are."""
        self._brokers, self._away = self._cache.brokers, self._cache.away

    def add_role(self, topic: str, index: int, state: PartitionState) -> None:
        """Another leader, as LeaderAndIsr names it. Nothing, if the partition is not known or a newer leader is."""
        known = self._cache.topics.get(topic, {}).get(index)
        if known is None or known.leader_epoch >= state.leader_epoch:
            return
        if topic not in self._topics:
            self._topics[topic] = self._cache.topics[topic].copy()
        self._topics[topic][index] = PartitionMetadata(
            state.leader, state.leader_epoch, state.isr, state.replicas, known.offline_replicas
        )

    async def apply(self, controller_id: int, slices: Slices) -> None:
        """Everybody sees all of it at once. Of many topics a whole new dictionary is made before, in `slices`."""
        cache = self._cache
        topics = cache.topics
        before: list[Rows] = [self._topics, cache.brokers]
        if len(self._topics) > TOPICS_AT_ONCE:
            before.append(topics)
            topics = topics.copy()
            for topic, partitions in self._topics.items():
                await slices.row()
                _put(topics, topic, partitions)
        else:
            # One topic may have as many partitions as others together.
            before += [topics[topic] for topic in self._topics if topic in topics]
            for topic, partitions in self._topics.items():
                _put(topics, topic, partitions)
        cache.controller_id = controller_id
        cache.brokers, cache.away = self._brokers, self._away
        for broker in [broker for broker in cache._doubted if broker not in cache.brokers]:
            # Others lead what it led: its partitions are in the same request.
            del cache._doubted[broker]
        cache.topics = topics
        cache.changed()
        self._topics = {}
        free_soon(before)


def _put(topics: dict[str, dict[int, PartitionMetadata]], topic: str, partitions: dict[int, PartitionMetadata]) -> None:
    """A topic without partitions is none."""
    if partitions:
        topics[topic] = partitions
    else:
        topics.pop(topic, None)
