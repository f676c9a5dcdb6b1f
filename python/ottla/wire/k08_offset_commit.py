"""OffsetCommit: how far a group has read.

Version 0 keeps offsets in the coordination tree, and knows no members; all others append them to __consumer_offsets.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Int64, Message, V


class OffsetCommitRequestPartition(Message):
    """How far one partition was read."""

    partition_index: Int32 = 0
    #: The offset of the next record to read, by the custom of all clients. Kafka does not look whether the log has it.
    committed_offset: Int64 = 0
    #: The leader epoch of the last record that was read, given back with OffsetFetch so that a consumer can notice
    #: truncation (KIP-320). -1 for none.
    committed_leader_epoch: Annotated[Int32, V("6+", ignorable=True)] = -1
    #: Milliseconds since 1970, from which retention may count. -1, as in all other versions: now.
    commit_timestamp: Annotated[Int64, V("1")] = -1
    #: Words of the client's own, stored and given back. Null is stored as "". Longer than offset.metadata.max.bytes is
    #: OFFSET_METADATA_TOO_LARGE.
    committed_metadata: Annotated[str | None, V(nullable="0+")] = ""


class OffsetCommitRequestTopic(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[OffsetCommitRequestPartition] = []


class OffsetCommitRequest(Message):
    """Offsets of one group."""

    #: May be "": such offsets are taken, but nobody can join that group.
    group_id: str = ""
    #: The generation in which the member read. Another one than the group's is ILLEGAL_GENERATION. -1: the group has no
    #: members and only keeps its offsets here.
    generation_id: Annotated[Int32, V("1+", ignorable=True)] = -1
    #: "" beside a generation of -1.
    member_id: Annotated[str, V("1+", ignorable=True)] = ""
    #: The name of a static member, whose id is checked with it (FENCED_INSTANCE_ID); null for others (KIP-345).
    group_instance_id: Annotated[str | None, V("7+", nullable="7+")] = None
    #: How long the offsets are kept from now. -1, and always since version 5: as offsets.retention.minutes says
    #: (KIP-211).
    retention_time_ms: Annotated[Int64, V("2-4", ignorable=True)] = -1
    topics: list[OffsetCommitRequestTopic] = []


class OffsetCommitResponsePartition(Message):
    """The result for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetCommitResponseTopic(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[OffsetCommitResponsePartition] = []


class OffsetCommitResponse(Message):
    """The result, when the group's partition of __consumer_offsets has it safely."""

    throttle_time_ms: Annotated[Int32, V("3+", ignorable=True)] = 0
    #: An error of the whole group stands in each row, since there is no other place for it.
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
