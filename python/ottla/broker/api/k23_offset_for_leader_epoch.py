"""OffsetForLeaderEpoch (key 23): where a leader epoch ends, so that followers and consumers can find where logs part
(KIP-101, KIP-279, KIP-320).

The answer names the largest epoch not above the one asked for, and its end offset; (-1, -1) for an epoch from the
future.

Brokers of ours that have no leader for a partition ask each other where their logs end
(`ottla.replication.unclean_start`): for the largest epoch there can be, without naming the one that they know. Kafka's
followers never do. The answer is the epoch of the last record and the log's end, whether this broker leads or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.broker.freeing import leave
from ottla.broker.replies import count_of, reply
from ottla.errors import KafkaError
from ottla.kafka import NO_EPOCH, PartitionKey
from ottla.replication.unclean_start import ANY_EPOCH
from ottla.slices import serve
from ottla.wire.k23_offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import LogContext


def handle(broker: LogContext, request: Request) -> None:
    asked: OffsetForLeaderEpochRequest = OFFSET_FOR_LEADER_EPOCH.decode_request(request.api_version, request)
    rows = count_of(topic.partitions for topic in asked.topics)
    serve(broker, request, rows, _answer(broker, request, asked))


def _answer(broker: LogContext, request: Request, asked: OffsetForLeaderEpochRequest) -> Iterator[None]:
    """Each row is of its own moment."""
    # Of a partition that is named twice the last row counts, as in Kafka.
    named: dict[PartitionKey, OffsetForLeaderPartition] = {}
    for topic in asked.topics:
        yield
        for asked_row in topic.partitions:
            yield
            named[topic.name, asked_row.partition_index] = asked_row
    topics: dict[str, OffsetForLeaderTopicResult] = {}
    for (name, index), wanted in named.items():
        yield
        row = OffsetForLeaderPartitionResult(partition_index=index, end_offset=-1)
        partition = broker.replicas.partitions.get((name, index))
        end = None
        if asked.replica_id >= 0 and (wanted.current_leader_epoch, wanted.leader_epoch) == (NO_EPOCH, ANY_EPOCH):
            end = broker.replicas.end_of(name, index)
        if end is not None:
            row.leader_epoch, row.end_offset = end
        elif partition is None:
            row.error_code = broker.metadata.error_where_absent(name, index)
        elif error := partition.leader_error(wanted.current_leader_epoch):
            row.error_code = error
        else:
            try:
                row.leader_epoch, row.end_offset = partition.log.epoch_end_offset(wanted.leader_epoch)
            except KafkaError as refused:
                row.error_code = refused.code
        topics.setdefault(name, OffsetForLeaderTopicResult(name=name)).partitions.append(row)
    response = OffsetForLeaderEpochResponse(topics=list(topics.values()))
    leave(request, [named, topics])
    reply(broker, request, OFFSET_FOR_LEADER_EPOCH, response)
