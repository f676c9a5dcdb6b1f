"""Fetch: record batches from an offset on, for consumers and followers.

The broker and the clients use the hand-written code of rust/wire/fetch/mod.rs; this declaration is its independent
check, and serves tools. Version 2 means that a client reads message format v1, 4 format v2 and transactions (KIP-98),
10 zstd (KIP-110). In the sessions of version 7 (KIP-227) a request names only the partitions that are new, changed or
gone, and an answer only those that have news.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import field

from ottla.wire.schema import Api, Int8, Int16, Int32, Int64, Message, Records, V


class FetchPartition(Message):
    """A partition to read, and from where."""

    partition: Int32 = 0
    #: The leader epoch that the reader knows (KIP-320). Older than the leader's own is FENCED_LEADER_EPOCH, newer is
    #: UNKNOWN_LEADER_EPOCH; -1 is not checked.
    current_leader_epoch: Annotated[Int32, V("9+", ignorable=True)] = -1
    #: The first offset that is wanted. Records may begin before it, since batches are sent whole: clients skip those.
    fetch_offset: Int64 = 0
    #: The leader epoch of the record before `fetch_offset`. From it the leader tells where the two logs part (KIP-595);
    #: -1 is not checked.
    last_fetched_epoch: Annotated[Int32, V("12+")] = -1
    #: Where a follower's own log starts: a DeleteRecords waits for it at the leader (KIP-107). Consumers send -1.
    log_start_offset: Annotated[Int64, V("5+", ignorable=True)] = -1
    #: A limit for this partition. It does not hold for the first records of an answer, or nobody could read past a
    #: batch that is larger (KIP-74; in Kafka since version 3).
    partition_max_bytes: Int32 = 0


class FetchTopic(Message):
    """Partitions of one topic."""

    topic: str = ""
    partitions: list[FetchPartition] = []


class ForgottenTopic(Message):
    """Partitions of one topic that leave the session."""

    topic: Annotated[str, V("7+")] = ""
    partitions: Annotated[list[Int32], V("7+")] = []


class FetchRequest(Message):
    """Partitions to read, and for how much to wait how long."""

    #: Made for the quorum of KRaft (KIP-595). Brokers of 2.7 do not look at it.
    cluster_id: Annotated[str | None, V("12+", nullable="12+", tag=0)] = None
    #: A follower's broker id: it reads up to the log's end, not just to the high watermark. Consumers send -1.
    replica_id: Int32 = 0
    #: How long the answer may wait for `min_bytes`.
    max_wait_ms: Int32 = 0
    #: The bytes for which the answer waits, of all partitions together. With 0 it never waits.
    min_bytes: Int32 = 0
    #: A limit for all records of the answer. It has the same exception as `partition_max_bytes`. Since partitions are
    #: served in the request's order, those at the end may get nothing.
    max_bytes: Annotated[Int32, V("3+", ignorable=True)] = 0x7FFFFFFF
    #: 0, read uncommitted: up to the high watermark. 1, read committed: up to the last stable offset, and aborted
    #: transactions are named. For followers it means nothing.
    isolation_level: Annotated[Int8, V("4+", ignorable=True)] = 0
    #: 0 while there is no session.
    session_id: Annotated[Int32, V("7+", ignorable=True)] = 0
    #: Counts the requests of a session, so that none is lost or served twice. 0 asks for a new session; -1, as in all
    #: older versions, for none, and ends the one that is named.
    session_epoch: Annotated[Int32, V("7+", ignorable=True)] = -1
    #: In a session only the partitions that are new in it or have another offset or limit.
    topics: list[FetchTopic] = []
    #: The partitions that leave the session.
    forgotten_topics_data: Annotated[list[ForgottenTopic], V("7+")] = []
    #: The `client.rack` of a consumer, which may be sent to a follower nearer by (KIP-392); "" for none.
    rack_id: Annotated[str, V("11+", ignorable=True)] = ""


class EpochEndOffset(Message):
    """Where a leader epoch ends in the leader's log."""

    #: The largest epoch in the leader's log that is not above the reader's; -1: the logs do not part.
    epoch: Annotated[Int32, V("12+")] = -1
    #: The first offset after that epoch. Records of the reader from there on are not in the leader's log.
    end_offset: Annotated[Int64, V("12+")] = -1


class LeaderIdAndEpoch(Message):
    """Another leader than the one that was asked."""

    #: -1 if it is not known.
    leader_id: Annotated[Int32, V("12+")] = -1
    #: -1 if it is not known.
    leader_epoch: Annotated[Int32, V("12+")] = -1


class AbortedTransaction(Message):
    """A transaction whose records a reader of committed ones is to skip."""

    #: Its batches are skipped up to its next abort marker.
    producer_id: Annotated[Int64, V("4+")] = 0
    #: The offset where the transaction begins, which may be before the records of this answer.
    first_offset: Annotated[Int64, V("4+")] = 0


class FetchablePartitionResponse(Message):
    """Records of one partition, or the reason why there are none."""

    partition: Int32 = 0
    error_code: Int16 = 0
    #: All in-sync replicas have the records below it. -1 after an error.
    high_watermark: Int64 = 0
    #: Below it all transactions have ended; at most the high watermark. -1 after an error. Kafka tells it to readers of
    #: uncommitted records, too.
    last_stable_offset: Annotated[Int64, V("4+", ignorable=True)] = -1
    #: The first offset that the log has. Followers move their own start up to it (KIP-107).
    log_start_offset: Annotated[Int64, V("5+", ignorable=True)] = -1
    #: There if `last_fetched_epoch` does not fit the leader's log, and then there are no records (KIP-595).
    diverging_epoch: Annotated[EpochEndOffset, V("12+", tag=0)] = field(default_factory=EpochEndOffset)
    #: Made for the quorum of KRaft (KIP-595): brokers of 2.7 never send it.
    current_leader: Annotated[LeaderIdAndEpoch, V("12+", tag=1)] = field(default_factory=LeaderIdAndEpoch)
    #: Null unless the isolation level is 1. Consumers order it by `first_offset` themselves.
    aborted_transactions: Annotated[list[AbortedTransaction] | None, V("4+", nullable="4+", ignorable=True)] = []
    #: The broker to read from instead: then there are no records here (KIP-392). -1: go on here.
    preferred_read_replica: Annotated[Int32, V("11+")] = -1
    #: Batches as the log has them. Kafka may cut the last one off at the limit, and clients drop such a rest.
    record_set: Annotated[Records | None, V(nullable="0+")] = b""


class FetchableTopicResponse(Message):
    """Partitions of one topic."""

    topic: str = ""
    #: In a session only partitions that have records, an error, or new offsets to tell of.
    partition_responses: list[FetchablePartitionResponse] = []


class FetchResponse(Message):
    """Records, or an error of the session."""

    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    #: An error of the session: the client starts a new one with a full request.
    error_code: Annotated[Int16, V("7+", ignorable=True)] = 0
    #: 0: there is no session, perhaps for want of room among the broker's, and the next request is a full one.
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
