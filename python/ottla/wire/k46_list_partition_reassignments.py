"""ListPartitionReassignments: the moves that are going on (KIP-455). Only the controller knows."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Message, V


class ListPartitionReassignmentsTopics(Message):
    """Partitions of one topic."""

    name: str = ""
    partition_indexes: list[Int32] = []


class ListPartitionReassignmentsRequest(Message):
    """Partitions that are asked about."""

    #: Kafka 2.7 does not look at it.
    timeout_ms: Int32 = 60_000
    #: Null asks for all.
    topics: Annotated[list[ListPartitionReassignmentsTopics] | None, V(nullable="0+")] = None


class OngoingPartitionReassignment(Message):
    """A partition that moves. Others are not answered."""

    partition_index: Int32 = 0
    #: All that it has now, with those that come and those that go.
    replicas: list[Int32] = []
    #: Those that come. The move ends when all of them are in sync.
    adding_replicas: list[Int32] = []
    #: Those that go then.
    removing_replicas: list[Int32] = []


class OngoingTopicReassignment(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[OngoingPartitionReassignment] = []


class ListPartitionReassignmentsResponse(Message):
    """The moves."""

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
