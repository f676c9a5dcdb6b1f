"""DescribeProducers (key 61): the producers that a partition remembers, and their open transactions (KIP-664).

How an operator finds who holds readers of committed records back. A partition that is named twice is described twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import trio

from ottla.controller.names import check_name
from ottla.errors import InvalidTopic, StorageError, TopicAuthorizationFailed
from ottla.kafka import TopicPartition
from ottla.slices import Slices
from ottla.wire.k61_describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import LogRooms

    DescribeProducers: TypeAlias = "Call[DescribeProducersRequest, DescribeProducersResponse]"


#: A partition and a producer in an answer; and what a producer takes in memory, where it is described for the first
#: time.
ROW_BYTES, PRODUCER_BYTES, PRODUCER_OBJECTS_BYTES = 16, 37, 400


async def handle(call: DescribeProducers, rooms: LogRooms) -> None:
    asked = call.message
    topics = []
    rights = call.rights
    memory, slices = call.memory, Slices()
    known: dict[TopicPartition, PartitionResponse] = {}
    for topic in asked.topics:
        await slices.row()
        rows = []
        for index in topic.partition_indexes:
            await slices.row()
            name = TopicPartition(topic.name, index)
            row = known.get(name)
            objects_bytes = 0
            if row is None:
                if rights is not None and not rights.may(Operation.READ, Resource.TOPIC, topic.name):
                    row = PartitionResponse(partition_index=index, error_code=TopicAuthorizationFailed.code)
                else:
                    row = await _describe(rooms, topic.name, index, slices)
                known[name] = row
                objects_bytes = PRODUCER_OBJECTS_BYTES * len(row.active_producers)
            await memory.add(ROW_BYTES + PRODUCER_BYTES * len(row.active_producers), objects_bytes)
            rows.append(row)
        topics.append(TopicResponse(name=topic.name, partitions=rows))
    del known
    call.reply(DescribeProducersResponse(topics=topics))


async def _describe(rooms: LogRooms, topic: str, index: int, slices: Slices) -> PartitionResponse:
    row = PartitionResponse(partition_index=index)
    try:
        check_name(topic)
    except InvalidTopic as problem:
        row.error_code, row.error_message = problem.code, str(problem)
        return row
    partition = rooms.replicas.partitions.get((topic, index))
    if partition is None:
        row.error_code = rooms.metadata.error_where_absent(topic, index)
    elif partition.is_offline:
        row.error_code = StorageError.code
    else:
        # The log may be waiting for a disk.
        found = await trio.to_thread.run_sync(partition.log.each_producer)
        for producer in found:
            await slices.row()
            row.active_producers.append(
                ProducerState(
                    producer.producer_id,
                    producer.producer_epoch,
                    producer.last_sequence,
                    producer.last_timestamp_ms,
                    producer.coordinator_epoch,
                    producer.transaction_start,
                )
            )
    return row
