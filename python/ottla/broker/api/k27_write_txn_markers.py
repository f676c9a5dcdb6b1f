"""WriteTxnMarkers (key 27): from a transaction coordinator, the markers that end transactions in partitions (KIP-98).
Version 1, later than 2.7, is the lowest that the tools of 4.x use to abort one that hangs.

Answered when every marker is safe as with acks=all: below the high watermark, and with one replica on disk. A partition
refuses a marker of an older producer epoch or an older coordinator than it has seen. A marker on `__consumer_offsets`
decides about the offsets that the transaction brought: the group coordinator is told when it is safe.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import trio

from ottla.errors import UnknownServerError, UnknownTopicOrPartition
from ottla.kafka import NO_EPOCH, OFFSETS_TOPIC
from ottla.slices import ROWS, Slices
from ottla.wire.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from ottla._core import AppendInfo
    from ottla.broker.call import Call
    from ottla.broker.rooms import TransactionRooms
    from ottla.replication.partition import Partition

    WriteTxnMarkers: TypeAlias = "Call[WriteTxnMarkersRequest, WriteTxnMarkersResponse]"

#: Markers that are on their way at a time, for one request: their answers take a few milliseconds.
MARKERS_AT_ONCE = 500

logger = logging.getLogger("ottla.requests")


def handle(call: WriteTxnMarkers, rooms: TransactionRooms) -> None:
    asked = call.message
    if _count(asked) > ROWS:
        return call.in_background(_write_many, call, rooms, asked)
    return _write(call, rooms, asked)


def _count(asked: WriteTxnMarkersRequest) -> int:
    """How many rows the request has; no more are counted than make a difference."""
    rows = 0
    for marker in asked.markers:
        rows += 1
        for topic in marker.topics:
            rows += 1 + len(topic.partition_indexes)
            if rows > ROWS:
                return rows
        if rows > ROWS:
            break
    return rows


def _write(call: WriteTxnMarkers, rooms: TransactionRooms, asked: WriteTxnMarkersRequest) -> None:
    """A marker is written for each row, whatever becomes of the others."""
    answer = _Answer(call, rooms)
    for marker in asked.markers:
        for topic in marker.topics:
            for index in topic.partition_indexes:
                answer.write(marker, topic.name, index)
    answer.registered()


async def _write_many(call: WriteTxnMarkers, rooms: TransactionRooms, asked: WriteTxnMarkersRequest) -> None:
    """The same; so many markers are on their way at a time, since those of a partition become safe all at once."""
    answer = _Answer(call, rooms)
    slices = Slices()
    for marker in asked.markers:
        await slices.row()
        for topic in marker.topics:
            await slices.row()
            for index in topic.partition_indexes:
                await slices.row()
                answer.write(marker, topic.name, index)
                if answer.waiting > MARKERS_AT_ONCE:
                    await answer.others_are_safe()
    answer.registered()


class _Answer:
    """Markers on their way; the answer leaves with the last of them."""

    def __init__(self, call: WriteTxnMarkers, rooms: TransactionRooms) -> None:
        self._rooms = rooms
        self._call = call
        self.waiting = 1  # the request itself, until all of its markers are registered
        self._is_safe: trio.Event | None = None
        #: Of the answer.
        self._rows = 0
        #: producer id to topic to partition to error code
        self._errors: dict[int, dict[str, dict[int, int]]] = {}

    def write(self, marker: WritableTxnMarker, topic: str, index: int) -> None:
        self.waiting += 1
        self._rows += 1
        done = partial(self._done, marker, topic, index)
        partition = self._rooms.replicas.partitions.get((topic, index))
        if partition is None:
            return done(UnknownTopicOrPartition.code)
        if error := partition.leader_error(NO_EPOCH):
            return done(error)
        return self._append(partition, marker, done)

    def _append(self, partition: Partition, marker: WritableTxnMarker, done: Callable[[int, int], None]) -> None:
        def start(token: int) -> AppendInfo | None:
            return partition.log.append_marker(
                marker.producer_id,
                marker.producer_epoch,
                marker.transaction_result,
                marker.coordinator_epoch,
                partition.leader_epoch,
                token,
            )

        timeout_ms = self._rooms.config.get_int("request.timeout.ms")
        self._rooms.safe_appends.append(partition, start, done, timeout_ms)

    def _done(self, marker: WritableTxnMarker, topic: str, index: int, error: int, _last_offset: int = -1) -> None:
        if error == 0 and topic == OFFSETS_TOPIC:
            error = self._tell_groups(index, marker)
        self._errors.setdefault(marker.producer_id, {}).setdefault(topic, {})[index] = error
        self.registered()

    def _tell_groups(self, index: int, marker: WritableTxnMarker) -> int:
        try:
            self._rooms.groups.marker_written(index, marker.producer_id, marker.transaction_result)
        except Exception:
            logger.exception("the offsets of producer %d in partition %d", marker.producer_id, index)
            return UnknownServerError.code
        return 0

    async def others_are_safe(self) -> None:
        """Returns when no marker is on its way."""
        self._is_safe = trio.Event()
        if self.waiting > 1:
            await self._is_safe.wait()
        self._is_safe = None

    def registered(self) -> None:
        """One less to wait for."""
        self.waiting -= 1
        if self.waiting == 1 and self._is_safe is not None:
            self._is_safe.set()
        if not self.waiting:
            self._call.in_slices(self._rows, self._reply())

    def _reply(self) -> Iterator[None]:
        response = WriteTxnMarkersResponse()
        for producer_id, topics in self._errors.items():
            marker = WritableTxnMarkerResult(producer_id=producer_id)
            response.markers.append(marker)
            for name, partitions in topics.items():
                topic = WritableTxnMarkerTopicResult(name=name)
                marker.topics.append(topic)
                for index, error in partitions.items():
                    yield
                    topic.partitions.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=error))
        self._call.leave([self._errors])
        self._errors = {}
        self._call.reply(response)
