"""AddPartitionsToTxn: a transaction is about to write to these partitions. Version 2 answers PRODUCER_FENCED."""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Int64, Message


class AddPartitionsToTxnTopic(Message):
    name: str = ""
    partitions: list[Int32] = []


class AddPartitionsToTxnRequest(Message):
    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[AddPartitionsToTxnTopic] = []


class AddPartitionsToTxnPartitionResult(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(Message):
    name: str = ""
    results: list[AddPartitionsToTxnPartitionResult] = []


class AddPartitionsToTxnResponse(Message):
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
