"""Produce: record batches to append.

The broker and the clients use the hand-written code of rust/wire/produce.rs; this declaration is its independent
check, and serves tools. Version 2 brings the append time, 3 record format v2 and transactional ids, 5 the log start
offset, 8 errors of single records (KIP-467).
"""

from __future__ import annotations

from typing import Annotated, Final

from ottla.wire.schema import Api, Int16, Int32, Int64, Message, V


class PartitionProduceData(Message):
    partition_index: Int32 = 0
    records: Annotated[bytes | None, V(nullable="0+")] = b""


class TopicProduceData(Message):
    name: str = ""
    partitions: list[PartitionProduceData] = []


class ProduceRequest(Message):
    transactional_id: Annotated[str | None, V("3+", nullable="0+")] = ""
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topics: list[TopicProduceData] = []


class BatchIndexAndErrorMessage(Message):
    batch_index: Annotated[Int32, V("8+")] = 0
    batch_index_error_message: Annotated[str | None, V("8+", nullable="8+")] = None


class PartitionProduceResponse(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Annotated[Int64, V("2+", ignorable=True)] = -1
    log_start_offset: Annotated[Int64, V("5+", ignorable=True)] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], V("8+", ignorable=True)] = []
    error_message: Annotated[str | None, V("8+", nullable="8+", ignorable=True)] = None


class TopicProduceResponse(Message):
    name: str = ""
    partitions: list[PartitionProduceResponse] = []


class ProduceResponse(Message):
    responses: list[TopicProduceResponse] = []
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0


#: The first version that carries record batches (format v2), and no other format.
BATCHES_SINCE: Final = 3
#: The first version whose record batches may be compressed with zstd.
ZSTD_SINCE: Final = 7

PRODUCE = Api(
    0,
    "Produce",
    "0-8",
    flexible=9,
    request=ProduceRequest,
    response=ProduceResponse,
    has_small_answers=True,
    # The second is for transactions, the third for records of an idempotent producer without one.
    needs="WRITE on TOPIC, WRITE on TRANSACTIONAL_ID, IDEMPOTENT_WRITE on CLUSTER",
)
