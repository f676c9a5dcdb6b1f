"""AlterPartitionReassignments (key 45): gives partitions to other replicas, or takes that back (KIP-455). Only the
controller does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.between import PARTITIONS_MAX
from ottla.broker.freeing import Freed
from ottla.errors import KafkaError, RemoteProtocolError
from ottla.kafka import TopicPartition
from ottla.slices import Slices
from ottla.wire.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import AdminRooms

    AlterPartitionReassignments: TypeAlias = (
        "Call[AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse]"
    )


async def handle(call: AlterPartitionReassignments, rooms: AdminRooms) -> None:
    asked = call.message
    # Of a partition that is named twice the last row counts, as in Kafka.
    mine = Freed()
    wanted: dict[TopicPartition, tuple[int, ...] | None] = mine.add({})
    slices = Slices()
    for topic in asked.topics:
        await slices.row()
        for target in topic.partitions:
            await slices.row()
            name = TopicPartition(topic.name, target.partition_index)
            wanted[name] = None if target.replicas is None else tuple(target.replicas)
            if len(wanted) > PARTITIONS_MAX:
                raise RemoteProtocolError(f"more than {PARTITIONS_MAX} partitions are to move at once")
    response = AlterPartitionReassignmentsResponse()
    try:
        topics: dict[str, ReassignableTopicResponse] = mine.add({})
        for name, error in mine.add(await rooms.controller.reassign(wanted)).items():
            await slices.row()
            row = ReassignablePartitionResponse(partition_index=name.partition, error_message=None)
            if error is not None:
                row.error_code, row.error_message = error.code, str(error)
            topics.setdefault(name.topic, ReassignableTopicResponse(name=name.topic)).partitions.append(row)
        response.responses = list(topics.values())
    except KafkaError as refused:
        response.error_code, response.error_message = refused.code, str(refused)
    call.reply(response)
