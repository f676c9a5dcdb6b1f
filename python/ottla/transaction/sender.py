"""Carries markers to the partitions' leaders: WriteTxnMarkers over a connection to each, one request at a time.

This broker is one of them, reached over its own listener like any other, so that there is one path. What could not be
delivered is tried again, with whoever leads by then, until it is written or its partition is gone.
"""

from __future__ import annotations

import logging
from typing import Protocol

import trio

from ottla.coordination.tree import TreeError
from ottla.errors import ProtocolError
from ottla.kafka import NO_LEADER, TopicPartition
from ottla.logging_setup import Repeated
from ottla.peers import Dialer, Peers
from ottla.transaction.coordinator import Coordinator
from ottla.transaction.outbox import Marker
from ottla.wire.k27_write_txn_markers import (
    WRITE_TXN_MARKERS,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

logger = logging.getLogger("ottla.transactions")

RETRY_MS = 100
"""Between two rounds for what could not be written."""
VERSION = 0
"""The one that Kafka 2.7 knows."""


class Directory(Protocol):
    """Where partitions and brokers are, as this broker knows it."""

    def leader(self, partition: TopicPartition) -> int | None:
        """The broker that leads; NO_LEADER if none does now; None if this broker does not know the partition."""

    def address(self, broker: int) -> tuple[str, int] | None:
        """Where a broker listens for other brokers; None while it is away."""

    def is_led_elsewhere(self, partition: TopicPartition) -> bool:
        """True if another broker leads the partition."""

    def may_be_replaced(self) -> bool:
        """True if others may lead what this broker leads, without its having heard."""

    async def exists(self, partition: TopicPartition) -> bool:
        """True if the partition exists by the coordination tree, or its node there is damaged. Raises TreeError if the
        tree cannot be asked now.
        """


class Sender:
    """Empties a coordinator's outbox for as long as `run` runs."""

    def __init__(self, coordinator: Coordinator, directory: Directory, dialer: Dialer) -> None:
        self._coordinator = coordinator
        self._outbox = coordinator.outbox
        self._directory = directory
        self._peers = Peers(directory.address, dialer)
        self._new = trio.Event()
        self._stuck = trio.Event()
        #: Partitions that this broker has not heard of: they may be deleted, or the news of them late.
        self._unknown: set[TopicPartition] = set()
        self._gone: set[TopicPartition] = set()
        self._troubles = Repeated(logger)

    def wake(self) -> None:
        """There is something new to be carried."""
        self._new.set()

    async def run(self) -> None:
        """Sends until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._peers.run)
            nursery.start_soon(self._try_again, nursery)
            while True:
                await self._new.wait()
                self._new = trio.Event()
                self._route(nursery, again=False)

    async def _try_again(self, nursery: trio.Nursery) -> None:
        while True:
            await self._stuck.wait()
            self._stuck = trio.Event()
            await trio.sleep(RETRY_MS / 1000)
            await self._look_for_unknown()
            self._coordinator.finish()
            self._route(nursery, again=True)

    def _route(self, nursery: trio.Nursery, *, again: bool) -> None:
        for ending in self._outbox.route(self._leader, again=again):
            self._coordinator.completed(ending)
        for broker in self._outbox.brokers():
            if taken := self._outbox.take(broker):
                nursery.start_soon(self._send, broker, taken)
        if self._outbox.is_waiting or self._coordinator.has_unfinished:
            self._stuck.set()

    def _leader(self, partition: TopicPartition) -> int | None:
        leader = self._directory.leader(partition)
        if leader is not None:
            return leader
        if partition in self._gone:
            return None
        self._unknown.add(partition)
        return NO_LEADER

    async def _look_for_unknown(self) -> None:
        """Dropping a marker of a partition that does exist would leave its transaction open for ever: ask the tree."""
        unknown, self._unknown, self._gone = self._unknown, set(), set()
        try:
            for partition in unknown:
                if not await self._directory.exists(partition):
                    self._gone.add(partition)
        except TreeError as problem:
            self._troubles.log(
                logging.INFO,
                ("unknown", str(problem)),
                "cannot tell yet whether the partitions of some transactions still exist: %s",
                problem,
            )

    async def _send(self, broker: int, markers: list[Marker]) -> None:
        """One request and what its answer means; the next one, if there is one, is sent by `_route`."""
        try:
            # A marker may be written twice.
            answer = await self._peers.call(broker, WRITE_TXN_MARKERS, _request(markers), VERSION)
        except (OSError, ProtocolError) as problem:
            # Ten times a second, for as long as the broker is away.
            self._troubles.log(
                logging.INFO,
                (broker, str(problem)),
                "markers for broker %d are tried again until they are written: %s",
                broker,
                problem,
            )
            self._outbox.lost(broker)
        else:
            for ending in self._outbox.answered(broker, _results(answer)):
                self._coordinator.completed(ending)
        self._new.set()


def _request(markers: list[Marker]) -> WriteTxnMarkersRequest:
    rows = []
    for ending, partitions in markers:
        by_topic: dict[str, list[int]] = {}
        for topic, index in partitions:
            by_topic.setdefault(topic, []).append(index)
        topics = [WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in by_topic.items()]
        rows.append(
            WritableTxnMarker(
                producer_id=ending.producer_id,
                producer_epoch=ending.epoch,
                transaction_result=ending.commit,
                topics=topics,
                coordinator_epoch=ending.shard.epoch,
            )
        )
    return WriteTxnMarkersRequest(markers=rows)


def _results(answer: WriteTxnMarkersResponse) -> dict[tuple[int, TopicPartition], int]:
    return {
        (marker.producer_id, TopicPartition(topic.name, partition.partition_index)): partition.error_code
        for marker in answer.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
