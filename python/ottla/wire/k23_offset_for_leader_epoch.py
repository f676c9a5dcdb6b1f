"""OffsetForLeaderEpoch: where a leader epoch ends, for followers (KIP-101) and consumers (KIP-320).

From it they find how much of their log, or of what they have read, the leader has, too.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Int64, Message, V


class OffsetForLeaderPartition(Message):
    """A partition, and the epoch that is asked about."""

    partition_index: Int32 = 0
    #: The leader epoch that the asker knows, checked as in a Fetch (KIP-320); -1 is not checked.
    current_leader_epoch: Annotated[Int32, V("2+", ignorable=True)] = -1
    #: The epoch of the asker's last record.
    leader_epoch: Int32 = 0


class OffsetForLeaderTopic(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[OffsetForLeaderPartition] = []


class OffsetForLeaderEpochRequest(Message):
    """Partitions whose epochs are asked about."""

    #: A follower's broker id, or -1 for a consumer. -2, as in older versions, leaves it open. Kafka 2.7 makes no
    #: difference.
    replica_id: Annotated[Int32, V("3+", ignorable=True)] = -2
    topics: list[OffsetForLeaderTopic] = []


class OffsetForLeaderPartitionResult(Message):
    """Where the epoch ends."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    #: The largest epoch in the leader's log that is not above the one asked about (KIP-279); -1 for one from the
    #: future. If the log begins with a later epoch it is the one asked about.
    leader_epoch: Annotated[Int32, V("1+", ignorable=True)] = -1
    #: The first offset after that epoch, which is the log's end for the current one. -1 if there is no epoch.
    end_offset: Int64 = 0


class OffsetForLeaderTopicResult(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[OffsetForLeaderPartitionResult] = []


class OffsetForLeaderEpochResponse(Message):
    """The results."""

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
