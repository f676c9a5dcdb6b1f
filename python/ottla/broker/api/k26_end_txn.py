"""EndTxn (key 26): a producer commits or aborts its transaction.

Answered when the decision is in the coordinator's log, from where nothing can change it; readers see the end when the
markers are written, a moment later. PRODUCER_FENCED is known from version 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import InvalidProducerEpoch, ProducerFenced
from ottla.wire.k26_end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import TransactionRooms

    EndTxn: TypeAlias = "Call[EndTxnRequest, EndTxnResponse]"


def handle(call: EndTxn, rooms: TransactionRooms) -> None:
    version = call.version
    asked = call.message

    def answer(code: int) -> None:
        if version < 2 and code == ProducerFenced.code:
            code = InvalidProducerEpoch.code
        call.reply(EndTxnResponse(error_code=code))

    rooms.transactions.coordinator.end(
        asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.committed, answer
    )
