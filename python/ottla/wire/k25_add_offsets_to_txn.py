"""AddOffsetsToTxn: a transaction is about to commit offsets of this group.

Like AddPartitionsToTxn with one partition, the group's in __consumer_offsets. Version 2 knows PRODUCER_FENCED; older
ones get INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Int64, Message


class AddOffsetsToTxnRequest(Message):
    """A group for one transaction."""

    #: Its coordinator is asked, not the group's.
    transactional_id: str = ""
    #: As in AddPartitionsToTxn.
    producer_id: Int64 = 0
    #: As in AddPartitionsToTxn.
    producer_epoch: Int16 = 0
    group_id: str = ""


class AddOffsetsToTxnResponse(Message):
    """The result; TxnOffsetCommit follows."""

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
