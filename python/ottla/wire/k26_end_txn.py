"""EndTxn: commits or aborts a transaction.

Answered when the coordinator's log has the decision; markers follow. Version 2 knows PRODUCER_FENCED; older ones get
INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Int64, Message


class EndTxnRequest(Message):
    """The end of one transaction."""

    #: Its coordinator is asked.
    transactional_id: str = ""
    #: As in AddPartitionsToTxn.
    producer_id: Int64 = 0
    #: As in AddPartitionsToTxn.
    producer_epoch: Int16 = 0
    #: True commits, False aborts. If it ended so already, that is no error: the first answer may have been lost.
    committed: bool = False


class EndTxnResponse(Message):
    """The decision is made, or why not."""

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
