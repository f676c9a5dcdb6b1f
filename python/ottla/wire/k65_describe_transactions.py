"""DescribeTransactions: the state of transactional ids, from their coordinator (KIP-664). Later than 2.7; for tools."""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Int64, Message


class DescribeTransactionsRequest(Message):
    """Transactional ids that are asked about."""

    #: Empty asks for none.
    transactional_ids: list[str] = []


class TopicData(Message):
    """Partitions of one topic."""

    topic: str = ""
    partitions: list[Int32] = []


class TransactionState(Message):
    """A transactional id, and its last or its open transaction."""

    #: TRANSACTIONAL_ID_NOT_FOUND for one that was never used, or is forgotten.
    error_code: Int16 = 0
    #: As in the request.
    transactional_id: str = ""
    #: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort or PrepareEpochFence.
    transaction_state: str = ""
    #: As the producer asked for in InitProducerId.
    transaction_timeout_ms: Int32 = 0
    #: Milliseconds since 1970. -1 if no transaction was ever begun, or none since the last producer came.
    transaction_start_time_ms: Int64 = 0
    #: The id that belongs to it now.
    producer_id: Int64 = 0
    #: The epoch that belongs to it now.
    producer_epoch: Int16 = 0
    #: Of a prepared transaction only those whose marker is still to be written.
    topics: list[TopicData] = []


class DescribeTransactionsResponse(Message):
    """The transactional ids."""

    throttle_time_ms: Int32 = 0
    #: A row for each id, with its own error.
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
