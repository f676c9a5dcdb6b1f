"""OffsetForLeaderEpoch: where a leader epoch ends, for followers (KIP-101) and consumers (KIP-320).

Version 1 answers with the epoch it found, 2 checks the asker's own epoch, 3 tells followers from consumers by the
replica id.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Int64, Message, V


class OffsetForLeaderPartition(Message):
    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, V("2+", ignorable=True)] = -1
    leader_epoch: Int32 = 0


class OffsetForLeaderTopic(Message):
    name: str = ""
    partitions: list[OffsetForLeaderPartition] = []


class OffsetForLeaderEpochRequest(Message):
    replica_id: Annotated[Int32, V("3+", ignorable=True)] = -2
    topics: list[OffsetForLeaderTopic] = []


class OffsetForLeaderPartitionResult(Message):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_epoch: Annotated[Int32, V("1+", ignorable=True)] = -1
    end_offset: Int64 = 0


class OffsetForLeaderTopicResult(Message):
    name: str = ""
    partitions: list[OffsetForLeaderPartitionResult] = []


class OffsetForLeaderEpochResponse(Message):
    throttle_time_ms: Annotated[Int32, V("2+", ignorable=True)] = 0
    topics: list[OffsetForLeaderTopicResult] = []


OFFSET_FOR_LEADER_EPOCH = Api(
    23,
    "OffsetForLeaderEpoch",
    "0-3",
    flexible=4,
    request=OffsetForLeaderEpochRequest,
    response=OffsetForLeaderEpochResponse,
    # The second is for followers.
    needs="DESCRIBE on TOPIC or CLUSTER_ACTION on CLUSTER",
)
