"""TxnOffsetCommit: offsets that count when the transaction commits.

Asked of the group's coordinator, after AddOffsetsToTxn. Until the marker comes the offsets are pending.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Int64, Message, V


class TxnOffsetCommitRequestPartition(Message):
    """How far one partition was read."""

    partition_index: Int32 = 0
    #: As in OffsetCommit.
    committed_offset: Int64 = 0
    #: As in OffsetCommit (KIP-320).
    committed_leader_epoch: Annotated[Int32, V("2+", ignorable=True)] = -1
    #: As in OffsetCommit.
    committed_metadata: Annotated[str | None, V(nullable="0+")] = ""


class TxnOffsetCommitRequestTopic(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[TxnOffsetCommitRequestPartition] = []


class TxnOffsetCommitRequest(Message):
    """Offsets of one group in one transaction."""

    #: To Kafka 2.7 it is for the authorizer alone. Here the transaction's coordinator is asked by it if the transaction
    #: has the group (KIP-890).
    transactional_id: str = ""
    group_id: str = ""
    #: The marker of this producer decides about the offsets.
    producer_id: Int64 = 0
    #: A lower one than the group's partition has seen is INVALID_PRODUCER_EPOCH.
    producer_epoch: Int16 = 0
    #: Another one than the group's is ILLEGAL_GENERATION: whoever was replaced in the group is fenced (KIP-447). -1, as
    #: in older versions, is not checked.
    generation_id: Annotated[Int32, V("3+")] = -1
    #: One that is not in the group is UNKNOWN_MEMBER_ID (KIP-447). "", as in older versions, is not checked.
    member_id: Annotated[str, V("3+")] = ""
    #: The name of a static member, whose id is checked with it (FENCED_INSTANCE_ID); null for others.
    group_instance_id: Annotated[str | None, V("3+", nullable="3+")] = None
    topics: list[TxnOffsetCommitRequestTopic] = []


class TxnOffsetCommitResponsePartition(Message):
    """The result for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[TxnOffsetCommitResponsePartition] = []


class TxnOffsetCommitResponse(Message):
    """The result, when the group's partition of __consumer_offsets has it safely."""

    throttle_time_ms: Int32 = 0
    #: An error of the whole group stands in each row.
    topics: list[TxnOffsetCommitResponseTopic] = []


TXN_OFFSET_COMMIT = Api(
    28,
    "TxnOffsetCommit",
    "0-3",
    flexible=3,
    request=TxnOffsetCommitRequest,
    response=TxnOffsetCommitResponse,
    needs="WRITE on TRANSACTIONAL_ID, READ on GROUP, READ on TOPIC",
)
