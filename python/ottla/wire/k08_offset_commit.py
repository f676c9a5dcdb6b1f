"""OffsetCommit: how far a group has read.

Version 1 brings members and generations (and commit times, only there), 2 to 4 a retention of their own, 6 leader
epochs, 7 static members (KIP-345).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Int64, Message, V


class OffsetCommitRequestPartition(Message):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, V("6+", ignorable=True)] = -1
    commit_timestamp: Annotated[Int64, V("1")] = -1
    committed_metadata: Annotated[str | None, V(nullable="0+")] = ""


class OffsetCommitRequestTopic(Message):
    name: str = ""
    partitions: list[OffsetCommitRequestPartition] = []


class OffsetCommitRequest(Message):
    group_id: str = ""
    generation_id: Annotated[Int32, V("1+", ignorable=True)] = -1
    member_id: Annotated[str, V("1+", ignorable=True)] = ""
    group_instance_id: Annotated[str | None, V("7+", nullable="7+")] = None
    retention_time_ms: Annotated[Int64, V("2-4", ignorable=True)] = -1
    topics: list[OffsetCommitRequestTopic] = []


class OffsetCommitResponsePartition(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetCommitResponseTopic(Message):
    name: str = ""
    partitions: list[OffsetCommitResponsePartition] = []


class OffsetCommitResponse(Message):
    throttle_time_ms: Annotated[Int32, V("3+", ignorable=True)] = 0
    topics: list[OffsetCommitResponseTopic] = []


OFFSET_COMMIT = Api(
    8,
    "OffsetCommit",
    "0-8",
    flexible=8,
    request=OffsetCommitRequest,
    response=OffsetCommitResponse,
    has_small_answers=True,
    needs="READ on GROUP, READ on TOPIC",
)
