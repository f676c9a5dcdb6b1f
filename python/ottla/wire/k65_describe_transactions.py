"""DescribeTransactions: the state of transactional ids, from their coordinator (KIP-664). Later than 2.7; for tools."""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Int64, Message


class DescribeTransactionsRequest(Message):
    transactional_ids: list[str] = []


class TopicData(Message):
    topic: str = ""
    partitions: list[Int32] = []


class TransactionState(Message):
    error_code: Int16 = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    """-1 if no transaction was ever begun, or none since the last producer came."""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TopicData] = []
    """Of a prepared transaction only those whose marker is still to be written."""


class DescribeTransactionsResponse(Message):
    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState] = []


DESCRIBE_TRANSACTIONS = Api(
    65,
    "DescribeTransactions",
    "0",
    flexible=0,
    request=DescribeTransactionsRequest,
    response=DescribeTransactionsResponse,
    # Its partitions are told with DESCRIBE on TOPIC.
    needs="DESCRIBE on TRANSACTIONAL_ID",
)
