"""ListPartitionReassignments (key 46): the moves of partitions to other replicas that are going on (KIP-455). Only the
controller knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.freeing import Freed
from ottla.broker.replies import reply
from ottla.errors import KafkaError
from ottla.kafka import TopicPartition
from ottla.slices import Slices
from ottla.wire.k46_list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import AdminContext


async def handle(broker: AdminContext, request: Request) -> None:
    version = request.api_version
    asked: ListPartitionReassignmentsRequest = LIST_PARTITION_REASSIGNMENTS.decode_request(version, request)
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
        for name, move in (await broker.controller.reassignments()).items():
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
    reply(broker, request, LIST_PARTITION_REASSIGNMENTS, response)
