"""ListTransactions (key 66): the transactional ids that this broker coordinates, filtered (KIP-664, KIP-994). Later
than 2.7.

A state that is no state is named in the answer and matches nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import CoordinatorLoadInProgress
from ottla.slices import Slices
from ottla.transaction.transaction import BY_LABEL
from ottla.wire.k66_list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.authorization.authorizer import Rights
    from ottla.broker.call import Call
    from ottla.broker.rooms import TransactionRooms

    ListTransactions: TypeAlias = "Call[ListTransactionsRequest, ListTransactionsResponse]"


#: A transactional id in an answer, about.
ROW_BYTES = 64


async def handle(call: ListTransactions, rooms: TransactionRooms) -> None:
    """Each id is listed as of its own moment."""
    asked = call.message
    rows = sum(len(shard.transactions) for shard in rooms.transactions.coordinator.shards.values())
    async with call.large_answer(rows, rows * ROW_BYTES):
        await call.reply_here(await _answer(rooms, asked, call.rights))


async def _answer(
    rooms: TransactionRooms, asked: ListTransactionsRequest, rights: Rights | None
) -> ListTransactionsResponse:
    shards = list(rooms.transactions.coordinator.shards.values())
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
                and (
                    rights is None
                    or rights.might(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, transaction.transactional_id)
                )
            ):
                row = TransactionState(
                    transactional_id=transaction.transactional_id,
                    producer_id=transaction.producer_id,
                    transaction_state=transaction.state.label,
                )
                answer.transaction_states.append(row)
    return answer
