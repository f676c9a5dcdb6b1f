"""ListTransactions: the transactional ids that a broker coordinates (KIP-664). Later than 2.7; for tools, which ask all
brokers.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int16, Int32, Int64, Message, V


class ListTransactionsRequest(Message):
    """A filter. An id has to pass all of its parts."""

    #: By the names of DescribeTransactions, such as `Ongoing`; empty for all.
    state_filters: list[str] = []
    #: Empty for all.
    producer_id_filters: list[Int64] = []
    #: Only ids whose transaction began more than so many milliseconds ago (KIP-994). Negative for all.
    duration_filter: Annotated[Int64, V("1+")] = -1


class TransactionState(Message):
    """A transactional id."""

    #: Its name.
    transactional_id: str = ""
    #: The id that belongs to it now.
    producer_id: Int64 = 0
    #: As in DescribeTransactions.
    transaction_state: str = ""


class ListTransactionsResponse(Message):
    """The transactional ids."""

    throttle_time_ms: Int32 = 0
    #: COORDINATOR_LOAD_IN_PROGRESS while some are being loaded: then none is listed.
    error_code: Int16 = 0
    #: Names in `state_filters` that no state has. They match nothing.
    unknown_state_filters: list[str] = []
    #: The ids that pass. Kafka leaves out those that it is about to forget (Dead).
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
