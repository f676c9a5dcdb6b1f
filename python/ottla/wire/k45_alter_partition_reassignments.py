"""AlterPartitionReassignments: moves partitions to other brokers (KIP-455).

Only the controller does it. It took the place of the node /admin/reassign_partitions, which tools wrote. The answer
says that the moves have begun; ListPartitionReassignments shows which are going on.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import ASSIGNMENT_ITEMS_MAX, Api, Int16, Int32, Message, V


class ReassignablePartition(Message):
    """A partition that is to move."""

    partition_index: Int32 = 0
    #: The brokers where it is to be, the preferred leader first. Null takes a move back, or is
    #: NO_REASSIGNMENT_IN_PROGRESS.
    replicas: Annotated[list[Int32] | None, V(nullable="0+")] = None


class ReassignableTopic(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[ReassignablePartition] = []


class AlterPartitionReassignmentsRequest(Message):
    """Partitions that are to move."""

    #: Kafka 2.7 does not look at it.
    timeout_ms: Int32 = 60_000
    topics: list[ReassignableTopic] = []


class ReassignablePartitionResponse(Message):
    """The result for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""


class ReassignableTopicResponse(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[ReassignablePartitionResponse] = []


class AlterPartitionReassignmentsResponse(Message):
    """The results; an error for all is without rows."""

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
