"""ListOffsets: the offset of a timestamp, or the first or last one of a partition.

Version 0 answers with where segments start, by the times of their files; 1 with one offset, by the times of records
(KIP-79). Version 5 knows OFFSET_NOT_AVAILABLE (KIP-207), in place of which older ones get LEADER_NOT_AVAILABLE.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int8, Int16, Int32, Int64, Message, V


class ListOffsetsPartition(Message):
    """A partition, and the time that is looked for."""

    partition_index: Int32 = 0
    #: The leader epoch that the asker knows (KIP-320), checked as in a Fetch; -1 is not checked.
    current_leader_epoch: Annotated[Int32, V("4+", ignorable=True)] = -1
    #: Milliseconds since 1970: the first record of that time or later is looked for. -1: the end. -2: the start.
    timestamp: Int64 = 0
    #: The most offsets to list. Since version 1 there is at most one.
    max_num_offsets: Annotated[Int32, V("0")] = 1


class ListOffsetsTopic(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[ListOffsetsPartition] = []


class ListOffsetsRequest(Message):
    """Partitions whose offsets are asked for."""

    #: -1: a consumer. A follower's broker id: the end is that of the log, not the high watermark. -2: for debugging,
    #: any replica answers.
    replica_id: Int32 = 0
    #: 0: the end is the high watermark. 1: the end is the last stable offset (KIP-98).
    isolation_level: Annotated[Int8, V("2+")] = 0
    topics: list[ListOffsetsTopic] = []


class ListOffsetsPartitionResponse(Message):
    """The offsets of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    #: The newest first. Version 0 only.
    old_style_offsets: Annotated[list[Int64], V("0")] = []
    #: The time of the record that was found; -1 where the start or the end was asked for, or nothing was found.
    timestamp: Annotated[Int64, V("1+")] = -1
    #: -1 without an error: no record is as young as that.
    offset: Annotated[Int64, V("1+")] = -1
    #: The epoch of the record that was found, or of the leader where the end was asked for; -1 if it is not known.
    #: Consumers who start there check it for truncation later (KIP-320).
    leader_epoch: Annotated[Int32, V("4+")] = -1


class ListOffsetsTopicResponse(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = []


class ListOffsetsResponse(Message):
    """The offsets."""

    throttle_time_ms: Annotated[Int32, V("2+", ignorable=True)] = 0
    topics: list[ListOffsetsTopicResponse] = []


LIST_OFFSETS = Api(
    2,
    "ListOffsets",
    "0-5",
    flexible=6,
    request=ListOffsetsRequest,
    response=ListOffsetsResponse,
    needs="DESCRIBE on TOPIC",
)
