"""AlterPartitionReassignments: moves partitions to other brokers; null replicas cancel a move (KIP-455)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import ASSIGNMENT_ITEMS_MAX, Api, Int16, Int32, Message, V


class ReassignablePartition(Message):
    partition_index: Int32 = 0
    replicas: Annotated[list[Int32] | None, V(nullable="0+")] = None


class ReassignableTopic(Message):
    name: str = ""
    partitions: list[ReassignablePartition] = []


class AlterPartitionReassignmentsRequest(Message):
    timeout_ms: Int32 = 60_000
    topics: list[ReassignableTopic] = []


class ReassignablePartitionResponse(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""


class ReassignableTopicResponse(Message):
    name: str = ""
    partitions: list[ReassignablePartitionResponse] = []


class AlterPartitionReassignmentsResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    responses: list[ReassignableTopicResponse] = []


ALTER_PARTITION_REASSIGNMENTS = Api(
    45,
    "AlterPartitionReassignments",
    "0",
    flexible=0,
    request=AlterPartitionReassignmentsRequest,
    response=AlterPartitionReassignmentsResponse,
    items_max=ASSIGNMENT_ITEMS_MAX,
    needs="ALTER on CLUSTER",
)
