"""ListPartitionReassignments: the moves that are going on (KIP-455). Null asks for all topics."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Message, V


class ListPartitionReassignmentsTopics(Message):
    name: str = ""
    partition_indexes: list[Int32] = []


class ListPartitionReassignmentsRequest(Message):
    timeout_ms: Int32 = 60_000
    topics: Annotated[list[ListPartitionReassignmentsTopics] | None, V(nullable="0+")] = None


class OngoingPartitionReassignment(Message):
    partition_index: Int32 = 0
    replicas: list[Int32] = []
    adding_replicas: list[Int32] = []
    removing_replicas: list[Int32] = []


class OngoingTopicReassignment(Message):
    name: str = ""
    partitions: list[OngoingPartitionReassignment] = []


class ListPartitionReassignmentsResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    topics: list[OngoingTopicReassignment] = []


LIST_PARTITION_REASSIGNMENTS = Api(
    46,
    "ListPartitionReassignments",
    "0",
    flexible=0,
    request=ListPartitionReassignmentsRequest,
    response=ListPartitionReassignmentsResponse,
    needs="DESCRIBE on CLUSTER",
)
