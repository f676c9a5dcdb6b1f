"""TxnOffsetCommit: offsets that count when the transaction commits.

Version 2 brings leader epochs, 3 members and generations, so that a member that was replaced is fenced (KIP-447).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Int64, Message, V


class TxnOffsetCommitRequestPartition(Message):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, V("2+", ignorable=True)] = -1
    committed_metadata: Annotated[str | None, V(nullable="0+")] = ""


class TxnOffsetCommitRequestTopic(Message):
    name: str = ""
    partitions: list[TxnOffsetCommitRequestPartition] = []


class TxnOffsetCommitRequest(Message):
    transactional_id: str = ""
    group_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Annotated[Int32, V("3+")] = -1
    member_id: Annotated[str, V("3+")] = ""
    group_instance_id: Annotated[str | None, V("3+", nullable="3+")] = None
    topics: list[TxnOffsetCommitRequestTopic] = []


class TxnOffsetCommitResponsePartition(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(Message):
    name: str = ""
    partitions: list[TxnOffsetCommitResponsePartition] = []


class TxnOffsetCommitResponse(Message):
    throttle_time_ms: Int32 = 0
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
