"""ListPartitionReassignments (key 46): the moves of partitions to other replicas that are going on (KIP-455). Only the
controller knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.freeing import Freed
from ottla.errors import KafkaError
from ottla.kafka import TopicPartition
from ottla.slices import Slices
from ottla.wire.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import AdminRooms

    ListPartitionReassignments: TypeAlias = (
        "Call[ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse]"
    )


async def handle(call: ListPartitionReassignments, rooms: AdminRooms) -> None:
    asked = call.message
    mine = Freed()
    wanted: set[TopicPartition] | None = None
    slices = Slices()
    if asked.topics is not None:
        wanted = mine.add(set[TopicPartition]())
        for topic in asked.topics:
            await slices.row()
            for index in topic.partition_indexes:
                await slices.row()
                wanted.add(TopicPartition(topic.name, index))
    response = ListPartitionReassignmentsResponse()
    try:
        topics: dict[str, OngoingTopicReassignment] = {}
        for name, move in (await rooms.controller.reassignments()).items():
            await slices.row()
            if wanted is None or name in wanted:
                row = OngoingPartitionReassignment(
                    partition_index=name.partition,
                    replicas=list(move.replicas),
                    adding_replicas=list(move.adding),
                    removing_replicas=list(move.removing),
                )
                topics.setdefault(name.topic, OngoingTopicReassignment(name=name.topic)).partitions.append(row)
        response.topics = list(topics.values())
    except KafkaError as error:
        response.error_code, response.error_message = error.code, str(error)
    call.reply(response)
