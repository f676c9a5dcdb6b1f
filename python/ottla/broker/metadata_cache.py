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
    from ottla.wire.k06_update_metadata import UpdateMetadataPartitionState, UpdateMetadataRequest

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
    topics: dict[str, dict[int, PartitionMetadata]] = field(default_factory=dict)
    #: Whether the controller has told, since the start, what a client may take for the cluster, or was silent for long.
    is_known: bool = False
    _waiting: dict[trio.Event, Callable[[], bool]] = field(default_factory=dict)
    _patient: set[trio.CancelScope] = field(default_factory=set)
    _is_over: bool = False

    def update(self, request: UpdateMetadataRequest) -> list[tuple[str, int]]:
        """Applies one UpdateMetadata (versions 5 and later, whose states are grouped by topic); returns the partitions
        that are gone.
        """
        self.controller_id = request.controller_id
        self.brokers = {
            broker.id: BrokerMetadata(broker.id, broker.rack, {e.listener: (e.host, e.port) for e in broker.endpoints})
            for broker in request.live_brokers
        }
        deleted = []
        for topic in request.topic_states:
            for state in topic.partition_states:
                self._update_partition(topic.topic_name, state.partition_index, state)
                if state.leader == LEADER_DURING_DELETE:
                    deleted.append((topic.topic_name, state.partition_index))
        self.changed()
        return deleted

    def changed(self) -> None:
        """Lets those go on who wait for what is true now."""
        for event in [event for event, holds in self._waiting.items() if holds()]:
            del self._waiting[event]
            event.set()

    def _update_partition(self, topic: str, index: int, state: UpdateMetadataPartitionState) -> None:
        if state.leader == LEADER_DURING_DELETE:
            partitions = self.topics.get(topic)
            if partitions is not None:
                partitions.pop(index, None)
                if not partitions:
                    del self.topics[topic]
            return
        self.topics.setdefault(topic, {})[index] = PartitionMetadata(
            state.leader, state.leader_epoch, tuple(state.isr), tuple(state.replicas), tuple(state.offline_replicas)
        )

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
