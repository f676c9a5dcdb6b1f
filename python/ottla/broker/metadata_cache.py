"""What this broker knows of the cluster, as the controller last told it (UpdateMetadata). No I/O.

Everything a client learns from Metadata comes from here, never from the coordination tree: so a topic is answered with
its leader only when this broker has heard of the leader, and CreateTopics waits for exactly that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import trio

from ottla.kafka import LEADER_DURING_DELETE

if TYPE_CHECKING:
    from ottla.wire.k06_update_metadata import UpdateMetadataBroker, UpdateMetadataPartitionState

#: In place of a leader: the partition is being deleted.


@dataclass(frozen=True, slots=True)
class BrokerMetadata:
    broker_id: int
    rack: str | None
    #: listener name to host and port
    endpoints: dict[str, tuple[str, int]]


class PartitionMetadata(msgspec.Struct, frozen=True, gc=False):
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]


@dataclass(slots=True)
class MetadataCache:
    controller_id: int = -1
    brokers: dict[int, BrokerMetadata] = field(default_factory=dict)
    #: The partitions of a topic are replaced, never changed: a copy of `topics` is a snapshot.
    topics: dict[str, dict[int, PartitionMetadata]] = field(default_factory=dict)
    #: Held from the making of an `Update` until it is applied.
    updating: trio.Lock = field(default_factory=trio.Lock)
    #: Whether the controller has told, since the start, what a client may take for the cluster, or was silent for long.
    is_known: bool = False
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

    def has_leaders(self, topic: str, partitions: Iterable[int]) -> bool:
        """Whether all of `partitions` exist and have a leader that is alive."""
        known = self.topics.get(topic, {})
        return all(index in known and known[index].leader in self.brokers for index in partitions)


class Update:
    """One UpdateMetadata (versions 5 and later, whose states are grouped by topic) on its way into the cache.

    Its rows are added in any number of pieces; nobody sees any of them before `apply`.
    """

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache
        self._topics: dict[str, dict[int, PartitionMetadata]] = {}
        #: The partitions that are gone.
        self.deleted: list[tuple[str, int]] = []

    def add(self, topic: str, state: UpdateMetadataPartitionState) -> None:
        index = state.partition_index
        partitions = self._topics.get(topic)
        if partitions is None:
            partitions = self._topics[topic] = self._cache.topics.get(topic, {}).copy()
        if state.leader == LEADER_DURING_DELETE:
            partitions.pop(index, None)
            self.deleted.append((topic, index))
        else:
            partitions[index] = PartitionMetadata(
                state.leader, state.leader_epoch, tuple(state.isr), tuple(state.replicas), tuple(state.offline_replicas)
            )

    def apply(self, controller_id: int, live_brokers: Iterable[UpdateMetadataBroker]) -> None:
        cache = self._cache
        cache.controller_id = controller_id
        cache.brokers = {
            broker.id: BrokerMetadata(broker.id, broker.rack, {e.listener: (e.host, e.port) for e in broker.endpoints})
            for broker in live_brokers
        }
        cache.topics.update(self._topics)
        for topic in {topic for topic, _ in self.deleted}:
            if not cache.topics[topic]:
                del cache.topics[topic]
        cache.changed()
