"""Fetch: record batches from an offset on, for consumers and followers.

The broker and the clients use the hand-written code of rust/wire/fetch/mod.rs; this declaration is its independent
check, and serves tools. Version 4 brings isolation levels, 7 sessions (KIP-227), 9 leader epochs (KIP-320), 11 racks
(KIP-392), 12 the diverging epoch (KIP-595).
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import field

from ottla.wire.schema import Api, Int8, Int16, Int32, Int64, Message, Records, V


class FetchPartition(Message):
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, V("9+", ignorable=True)] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, V("12+")] = -1
    log_start_offset: Annotated[Int64, V("5+", ignorable=True)] = -1
    partition_max_bytes: Int32 = 0


class FetchTopic(Message):
    topic: str = ""
    partitions: list[FetchPartition] = []


class ForgottenTopic(Message):
    topic: Annotated[str, V("7+")] = ""
    partitions: Annotated[list[Int32], V("7+")] = []


class FetchRequest(Message):
    cluster_id: Annotated[str | None, V("12+", nullable="12+", tag=0)] = None
    replica_id: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Annotated[Int32, V("3+", ignorable=True)] = 0x7FFFFFFF
    isolation_level: Annotated[Int8, V("4+", ignorable=True)] = 0
    session_id: Annotated[Int32, V("7+", ignorable=True)] = 0
    session_epoch: Annotated[Int32, V("7+", ignorable=True)] = -1
    topics: list[FetchTopic] = []
    forgotten_topics_data: Annotated[list[ForgottenTopic], V("7+")] = []
    rack_id: Annotated[str, V("11+", ignorable=True)] = ""


class EpochEndOffset(Message):
    epoch: Annotated[Int32, V("12+")] = -1
    end_offset: Annotated[Int64, V("12+")] = -1


class LeaderIdAndEpoch(Message):
    leader_id: Annotated[Int32, V("12+")] = -1
    leader_epoch: Annotated[Int32, V("12+")] = -1


class AbortedTransaction(Message):
    producer_id: Annotated[Int64, V("4+")] = 0
    first_offset: Annotated[Int64, V("4+")] = 0


class FetchablePartitionResponse(Message):
    partition: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Annotated[Int64, V("4+", ignorable=True)] = -1
    log_start_offset: Annotated[Int64, V("5+", ignorable=True)] = -1
    diverging_epoch: Annotated[EpochEndOffset, V("12+", tag=0)] = field(default_factory=EpochEndOffset)
    current_leader: Annotated[LeaderIdAndEpoch, V("12+", tag=1)] = field(default_factory=LeaderIdAndEpoch)
    aborted_transactions: Annotated[list[AbortedTransaction] | None, V("4+", nullable="4+", ignorable=True)] = []
    preferred_read_replica: Annotated[Int32, V("11+")] = -1
    record_set: Annotated[Records | None, V(nullable="0+")] = b""


class FetchableTopicResponse(Message):
    topic: str = ""
    partition_responses: list[FetchablePartitionResponse] = []


class FetchResponse(Message):
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    error_code: Annotated[Int16, V("7+", ignorable=True)] = 0
    session_id: Annotated[Int32, V("7+")] = 0
    responses: list[FetchableTopicResponse] = []


#: The first version whose clients read message sets of format v1; those of earlier ones read only v0.
V1_SINCE: Final = 2
#: The first version whose clients read record batches (format v2).
BATCHES_SINCE: Final = 4
#: The first version whose clients read record batches that are compressed with zstd.
ZSTD_SINCE: Final = 10
#: The first version whose clients name their rack, and read from followers.
RACK_SINCE: Final = 11

FETCH = Api(
    1,
    "Fetch",
    "0-12",
    flexible=12,
    request=FetchRequest,
    response=FetchResponse,
    # The second is for followers.
    needs="READ on TOPIC or CLUSTER_ACTION on CLUSTER",
)
