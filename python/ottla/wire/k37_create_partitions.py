"""CreatePartitions: more partitions for a topic. Version 3 may answer THROTTLING_QUOTA_EXCEEDED (KIP-599)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import ASSIGNMENT_ITEMS_MAX, Api, Int16, Int32, Message, V


class CreatePartitionsAssignment(Message):
    broker_ids: list[Int32] = []


class CreatePartitionsTopic(Message):
    name: str = ""
    count: Int32 = 0
    assignments: Annotated[list[CreatePartitionsAssignment] | None, V(nullable="0+")] = []


class CreatePartitionsRequest(Message):
    topics: list[CreatePartitionsTopic] = []
    timeout_ms: Int32 = 0
    validate_only: bool = False


class CreatePartitionsTopicResult(Message):
    name: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None


class CreatePartitionsResponse(Message):
    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = []


CREATE_PARTITIONS = Api(
    37,
    "CreatePartitions",
    "0-3",
    flexible=2,
    request=CreatePartitionsRequest,
    response=CreatePartitionsResponse,
    items_max=ASSIGNMENT_ITEMS_MAX,
    needs="ALTER on TOPIC",
)
