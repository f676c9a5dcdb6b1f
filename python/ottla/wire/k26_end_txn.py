"""EndTxn: commits or aborts a transaction. Version 2 answers PRODUCER_FENCED."""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Int64, Message


class EndTxnRequest(Message):
    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: bool = False


class EndTxnResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


END_TXN = Api(
    26,
    "EndTxn",
    "0-2",
    flexible=3,
    request=EndTxnRequest,
    response=EndTxnResponse,
    has_small_answers=True,
    needs="WRITE on TRANSACTIONAL_ID",
)
