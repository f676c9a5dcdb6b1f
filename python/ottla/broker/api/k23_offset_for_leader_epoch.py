"""OffsetForLeaderEpoch (key 23): where a leader epoch ends, so that followers and consumers can find where logs part
(KIP-101, KIP-279, KIP-320).

The answer names the largest epoch not above the one asked for, and its end offset; (-1, -1) for an epoch from the
future.

Brokers of ours that have no leader for a partition ask each other where their logs, or epochs of them, end
(`ottla.replication.unclean_start`, `ottla.controller.log_ends`): without naming the epoch that they know, which Kafka's
followers never do. The answer is that of this broker's log, whether it leads or not. For the largest epoch there can be
it is the epoch of the last record and the log's end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.call import count_of
from ottla.errors import KafkaError, TopicAuthorizationFailed
from ottla.kafka import NO_EPOCH, PartitionKey
from ottla.wire.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import LogRooms

    OffsetForLeaderEpoch: TypeAlias = "Call[OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse]"


def handle(call: OffsetForLeaderEpoch, rooms: LogRooms) -> None:
    asked = call.message
    rows = count_of(topic.partitions for topic in asked.topics)
    call.in_slices(rows, _answer(call, rooms, asked))


def _answer(call: OffsetForLeaderEpoch, rooms: LogRooms, asked: OffsetForLeaderEpochRequest) -> Iterator[None]:
    """Each row is of its own moment."""
    # Of a partition that is named twice the last row counts, as in Kafka.
    named: dict[PartitionKey, OffsetForLeaderPartition] = {}
    for topic in asked.topics:
        yield
        for asked_row in topic.partitions:
            yield
            named[topic.name, asked_row.partition_index] = asked_row
    topics: dict[str, OffsetForLeaderTopicResult] = {}
    rights = call.rights
    if rights is not None and rights.might(Operation.CLUSTER_ACTION, Resource.CLUSTER):
        rights = None
    for (name, index), wanted in named.items():
        yield
        row = OffsetForLeaderPartitionResult(partition_index=index, end_offset=-1)
        if rights is not None and not rights.may(Operation.DESCRIBE, Resource.TOPIC, name):
            row.error_code = TopicAuthorizationFailed.code
            topics.setdefault(name, OffsetForLeaderTopicResult(name=name)).partitions.append(row)
            continue
        partition = rooms.replicas.partitions.get((name, index))
        end = None
        try:
            if asked.replica_id >= 0 and wanted.current_leader_epoch == NO_EPOCH:
                end = rooms.unclean_start.end_of((name, index), wanted.leader_epoch)
            if end is not None:
                row.leader_epoch, row.end_offset = end
            elif partition is None:
                row.error_code = rooms.metadata.error_where_absent(name, index)
            elif error := partition.leader_error(wanted.current_leader_epoch):
                row.error_code = error
            else:
                row.leader_epoch, row.end_offset = partition.log.epoch_end_offset(wanted.leader_epoch)
        except KafkaError as refused:
            row.error_code = refused.code
        topics.setdefault(name, OffsetForLeaderTopicResult(name=name)).partitions.append(row)
    response = OffsetForLeaderEpochResponse(topics=list(topics.values()))
    call.leave([named, topics])
    call.reply(response)
