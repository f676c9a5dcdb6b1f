"""WriteTxnMarkers (key 27): from a transaction coordinator, the markers that end transactions in partitions (KIP-98).
Version 1, later than 2.7, is the lowest that the tools of 4.x use to abort one that hangs.

Answered when every marker is safe as with acks=all: below the high watermark, and with one replica on disk. A partition
refuses a marker of an older producer epoch or an older coordinator than it has seen. A marker on `__consumer_offsets`
decides about the offsets that the transaction brought: the group coordinator is told when it is safe.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.replies import reply
from ottla.errors import KafkaError, NotEnoughReplicas, UnknownServerError, UnknownTopicOrPartition
from ottla.kafka import NO_EPOCH, OFFSETS_TOPIC
from ottla.replication.internal_topic import SafeAppend
from ottla.replication.partition import Partition
from ottla.wire.k27_write_txn_markers import (
    WRITE_TXN_MARKERS,
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from ottla._core import AppendInfo, Request
    from ottla.broker.broker import Broker

VERSIONS = range(2)

logger = logging.getLogger("ottla.requests")


def handle(broker: Broker, request: Request) -> None:
    asked: WriteTxnMarkersRequest = WRITE_TXN_MARKERS.decode_request(request.api_version, request)
    answer = _Answer(broker, request)
    for marker in asked.markers:
        for topic in marker.topics:
            for index in topic.partition_indexes:
                answer.write(marker, topic.name, index)
    answer.registered()


class _Answer:
    """Markers on their way; the answer leaves with the last of them."""

    def __init__(self, broker: Broker, request: Request) -> None:
        self._broker = broker
        self._request = request
        self._waiting = 1  # the request itself, until all of its markers are registered
        #: producer id to topic to partition to error code
        self._errors: dict[int, dict[str, dict[int, int]]] = {}

    def write(self, marker: WritableTxnMarker, topic: str, index: int) -> None:
        self._waiting += 1
        done = partial(self._done, marker, topic, index)
        partition = self._broker.replicas.partitions.get((topic, index))
        if partition is None:
            return done(UnknownTopicOrPartition.code)
        if error := partition.leader_error(NO_EPOCH):
            return done(error)
        if not partition.has_enough_replicas:
            return done(NotEnoughReplicas.code)
        return self._append(partition, marker, SafeAppend(self._broker.replicas, partition, done))

    def _append(self, partition: Partition, marker: WritableTxnMarker, append: SafeAppend) -> None:
        def start(token: int) -> AppendInfo | None:
            return partition.log.append_marker(
                marker.producer_id,
                marker.producer_epoch,
                marker.transaction_result,
                marker.coordinator_epoch,
                partition.leader_epoch,
                token,
            )

        try:
            info = self._broker.server.submit(start, append.reported)
        except KafkaError as refused:
            return append.refused(refused)
        if info is not None:
            append.appended(info)
        if not append.done:
            self._broker.deadlines.add(self._broker.config.get_int("request.timeout.ms"), append)
        return None

    def _done(self, marker: WritableTxnMarker, topic: str, index: int, error: int, _last_offset: int = -1) -> None:
        if error == 0 and topic == OFFSETS_TOPIC:
            error = self._tell_groups(index, marker)
        self._errors.setdefault(marker.producer_id, {}).setdefault(topic, {})[index] = error
        self.registered()

    def _tell_groups(self, index: int, marker: WritableTxnMarker) -> int:
        try:
            self._broker.groups.marker_written(index, marker.producer_id, marker.transaction_result)
        except Exception:
            logger.exception("the offsets of producer %d in partition %d", marker.producer_id, index)
            return UnknownServerError.code
        return 0

    def registered(self) -> None:
        """One less to wait for."""
        self._waiting -= 1
        if self._waiting:
            return
        markers = [
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
                            for index, error in partitions.items()
                        ],
                    )
                    for topic, partitions in topics.items()
                ],
            )
            for producer_id, topics in self._errors.items()
        ]
        response = WriteTxnMarkersResponse(markers=markers)
        reply(self._broker, self._request, WRITE_TXN_MARKERS, response)
