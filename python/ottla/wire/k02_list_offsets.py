"""ListOffsets: the offset of a timestamp, or the first or last one of a partition.

Version 0 answers with a list of offsets, 1 with one offset and its timestamp, 2 knows isolation levels, 4 leader
epochs.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int8, Int16, Int32, Int64, Message, V


class ListOffsetsPartition(Message):
    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, V("4+", ignorable=True)] = -1
    timestamp: Int64 = 0
    max_num_offsets: Annotated[Int32, V("0")] = 1


class ListOffsetsTopic(Message):
    name: str = ""
    partitions: list[ListOffsetsPartition] = []


class ListOffsetsRequest(Message):
    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, V("2+")] = 0
    topics: list[ListOffsetsTopic] = []


class ListOffsetsPartitionResponse(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    old_style_offsets: Annotated[list[Int64], V("0")] = []
    timestamp: Annotated[Int64, V("1+")] = -1
    offset: Annotated[Int64, V("1+")] = -1
    leader_epoch: Annotated[Int32, V("4+")] = -1


class ListOffsetsTopicResponse(Message):
    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = []


class ListOffsetsResponse(Message):
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
