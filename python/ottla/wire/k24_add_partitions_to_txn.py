"""AddPartitionsToTxn: a transaction is about to write to these partitions.

Asked of the transactional id's coordinator before the first record goes to a partition, so that it knows where markers
are to go. Version 2 knows PRODUCER_FENCED; older ones get INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Int64, Message


class AddPartitionsToTxnTopic(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[Int32] = []


class AddPartitionsToTxnRequest(Message):
    """Partitions for one transaction; the first ones open it."""

    #: "" is refused.
    transactional_id: str = ""
    #: The id that InitProducerId answered; another one is INVALID_PRODUCER_ID_MAPPING.
    producer_id: Int64 = 0
    #: The epoch that InitProducerId answered. After a newer producer came it is fenced.
    producer_epoch: Int16 = 0
    topics: list[AddPartitionsToTxnTopic] = []


class AddPartitionsToTxnPartitionResult(Message):
    """The result for one partition."""

    partition_index: Int32 = 0
    #: If one partition is refused none is added: the others have OPERATION_NOT_ATTEMPTED.
    error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(Message):
    """Partitions of one topic."""

    name: str = ""
    results: list[AddPartitionsToTxnPartitionResult] = []


class AddPartitionsToTxnResponse(Message):
    """The results."""

    throttle_time_ms: Int32 = 0
    results: list[AddPartitionsToTxnTopicResult] = []


ADD_PARTITIONS_TO_TXN = Api(
    24,
    "AddPartitionsToTxn",
    "0-2",
    flexible=3,
    request=AddPartitionsToTxnRequest,
    response=AddPartitionsToTxnResponse,
    has_small_answers=True,
    needs="WRITE on TRANSACTIONAL_ID, WRITE on TOPIC",
)
