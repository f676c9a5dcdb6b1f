"""ListTransactions (key 66): the transactional ids that this broker coordinates, filtered (KIP-664, KIP-994). Later
than 2.7.

A state that is no state is named in the answer and matches nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ottla.broker.answer_memory import large_answer
from ottla.broker.replies import reply_here
from ottla.errors import CoordinatorLoadInProgress
from ottla.slices import Slices
from ottla.transaction.transaction import BY_LABEL
from ottla.wire.k66_list_transactions import (
    LIST_TRANSACTIONS,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import TransactionContext


#: A transactional id in an answer, about.
ROW_BYTES = 64


async def handle(broker: TransactionContext, request: Request) -> None:
    """Each id is listed as of its own moment."""
    version = request.api_version
    asked: ListTransactionsRequest = LIST_TRANSACTIONS.decode_request(version, request)
    rows = sum(len(shard.transactions) for shard in broker.transactions.coordinator.shards.values())
    async with large_answer(broker, request, rows, rows * ROW_BYTES):
        await reply_here(broker, request, LIST_TRANSACTIONS, await _answer(broker, asked))


async def _answer(broker: TransactionContext, asked: ListTransactionsRequest) -> ListTransactionsResponse:
    shards = list(broker.transactions.coordinator.shards.values())
    answer = ListTransactionsResponse()
    if any(shard.loading for shard in shards):
        answer.error_code = CoordinatorLoadInProgress.code
        return answer
    answer.unknown_state_filters = [name for name in asked.state_filters if name not in BY_LABEL]
    states = {BY_LABEL[name] for name in asked.state_filters if name in BY_LABEL}
    producers = set(asked.producer_id_filters)
    started_before_ms = time.time_ns() // 1_000_000 - asked.duration_filter
    slices = Slices()
    for shard in shards:
        for transaction in list(shard.transactions.values()):
            await slices.row()
            if (
                (not asked.state_filters or transaction.state in states)
                and (not producers or transaction.producer_id in producers)
                and (asked.duration_filter < 0 or transaction.started_ms < started_before_ms)
            ):
                row = TransactionState(
                    transactional_id=transaction.transactional_id,
                    producer_id=transaction.producer_id,
                    transaction_state=transaction.state.label,
                )
                answer.transaction_states.append(row)
    return answer
