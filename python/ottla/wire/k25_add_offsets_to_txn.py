"""AddOffsetsToTxn: a transaction is about to commit offsets of this group. Version 2 answers PRODUCER_FENCED."""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Int64, Message


class AddOffsetsToTxnRequest(Message):
    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: str = ""


class AddOffsetsToTxnResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


ADD_OFFSETS_TO_TXN = Api(
    25,
    "AddOffsetsToTxn",
    "0-2",
    flexible=3,
    request=AddOffsetsToTxnRequest,
    response=AddOffsetsToTxnResponse,
    has_small_answers=True,
    needs="WRITE on TRANSACTIONAL_ID, READ on GROUP",
)
