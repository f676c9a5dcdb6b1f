"""OffsetForLeaderEpoch (key 23): where a leader epoch ends, so that followers and consumers can find where logs part
(KIP-101, KIP-279, KIP-320).

The answer names the largest epoch not above the one asked for, and its end offset; (-1, -1) for an epoch from the
future.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.broker.replies import in_pieces, reply
from ottla.errors import KafkaError, UnknownTopicOrPartition
from ottla.wire.k23_offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.broker import Broker

VERSIONS = range(4)


def handle(broker: Broker, request: Request) -> None:
    asked: OffsetForLeaderEpochRequest = OFFSET_FOR_LEADER_EPOCH.decode_request(request.api_version, request)
    rows = sum(len(topic.partitions) for topic in asked.topics)
    in_pieces(broker, request, rows, _answer(broker, request, asked))


def _answer(broker: Broker, request: Request, asked: OffsetForLeaderEpochRequest) -> Iterator[None]:
    """Each row is of its own moment."""
    # Of a partition that is named twice the last row counts, as in Kafka.
    named = {(topic.name, row.partition_index): row for topic in asked.topics for row in topic.partitions}
    topics: dict[str, OffsetForLeaderTopicResult] = {}
    for (name, index), wanted in named.items():
        yield
        row = OffsetForLeaderPartitionResult(partition_index=index, end_offset=-1)
        partition = broker.replicas.partitions.get((name, index))
        if partition is None:
            row.error_code = UnknownTopicOrPartition.code
        elif error := partition.leader_error(wanted.current_leader_epoch):
            row.error_code = error
        else:
            try:
                row.leader_epoch, row.end_offset = partition.log.epoch_end_offset(wanted.leader_epoch)
            except KafkaError as refused:
                row.error_code = refused.code
        topics.setdefault(name, OffsetForLeaderTopicResult(name=name)).partitions.append(row)
    response = OffsetForLeaderEpochResponse(topics=list(topics.values()))
    reply(broker, request, OFFSET_FOR_LEADER_EPOCH, response)
