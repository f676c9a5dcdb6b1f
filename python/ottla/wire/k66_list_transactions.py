"""ListTransactions: the transactional ids that a broker coordinates (KIP-664). Later than 2.7; for tools.

Version 1 can ask for those that have been open for some time (KIP-994).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int16, Int32, Int64, Message, V


class ListTransactionsRequest(Message):
    state_filters: list[str] = []
    """By the names of Kafka's tools, such as `Ongoing`; empty for all."""
    producer_id_filters: list[Int64] = []
    duration_filter: Annotated[Int64, V("1+")] = -1
    """Milliseconds; negative for all."""


class TransactionState(Message):
    transactional_id: str = ""
    producer_id: Int64 = 0
    transaction_state: str = ""


class ListTransactionsResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[str] = []
    transaction_states: list[TransactionState] = []


LIST_TRANSACTIONS = Api(
    66,
    "ListTransactions",
    "0-1",
    flexible=0,
    request=ListTransactionsRequest,
    response=ListTransactionsResponse,
    items_max=FEW_ITEMS_MAX,
    # Only transactions of such ids are listed.
    needs="DESCRIBE on TRANSACTIONAL_ID",
)
