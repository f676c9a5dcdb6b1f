"""OffsetDelete: forgets committed offsets of a group (KIP-496).

A group with members keeps the offsets of the topics that they read (GROUP_SUBSCRIBED_TO_TOPIC).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Message, V


class OffsetDeleteRequestPartition(Message):
    """A partition whose offset is to go."""

    partition_index: Int32 = 0


class OffsetDeleteRequestTopic(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[OffsetDeleteRequestPartition] = []


class OffsetDeleteRequest(Message):
    """Offsets of one group."""

    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = []


class OffsetDeleteResponsePartition(Message):
    """The result for one partition."""

    partition_index: Int32 = 0
    #: A partition without an offset is no error.
    error_code: Int16 = 0


class OffsetDeleteResponseTopic(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[OffsetDeleteResponsePartition] = []


class OffsetDeleteResponse(Message):
    """The results."""

    #: Of the group, without rows: NON_EMPTY_GROUP if it has members that are no consumers.
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
