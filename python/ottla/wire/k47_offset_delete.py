"""OffsetDelete: forgets committed offsets of a group (KIP-496)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Message, V


class OffsetDeleteRequestPartition(Message):
    partition_index: Int32 = 0


class OffsetDeleteRequestTopic(Message):
    name: str = ""
    partitions: list[OffsetDeleteRequestPartition] = []


class OffsetDeleteRequest(Message):
    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = []


class OffsetDeleteResponsePartition(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetDeleteResponseTopic(Message):
    name: str = ""
    partitions: list[OffsetDeleteResponsePartition] = []


class OffsetDeleteResponse(Message):
    error_code: Int16 = 0
    throttle_time_ms: Annotated[Int32, V(ignorable=True)] = 0
    topics: list[OffsetDeleteResponseTopic] = []


OFFSET_DELETE = Api(
    47,
    "OffsetDelete",
    "0",
    request=OffsetDeleteRequest,
    response=OffsetDeleteResponse,
    needs="DELETE on GROUP, READ on TOPIC",
)
