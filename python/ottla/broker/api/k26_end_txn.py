"""EndTxn (key 26): a producer commits or aborts its transaction.

Answered when the decision is in the coordinator's log, from where nothing can change it; readers see the end when the
markers are written, a moment later. PRODUCER_FENCED is known from version 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replies import reply
from ottla.errors import InvalidProducerEpoch, ProducerFenced
from ottla.wire.k26_end_txn import END_TXN, EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import TransactionContext


def handle(broker: TransactionContext, request: Request) -> None:
    version = request.api_version
    asked: EndTxnRequest = END_TXN.decode_request(version, request)

    def answer(code: int) -> None:
        if version < 2 and code == ProducerFenced.code:
            code = InvalidProducerEpoch.code
        reply(broker, request, END_TXN, EndTxnResponse(error_code=code))

    broker.transactions.coordinator.end(
        asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.committed, answer
    )
