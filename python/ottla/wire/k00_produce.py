"""Produce: record batches to append.

The broker and the clients use the hand-written code of rust/wire/produce.rs; this declaration is its independent check,
and serves tools. Versions 0 to 2 carry message sets, 3 brings record format v2 and transactions (KIP-98), 7 zstd
(KIP-110), 8 errors of single records (KIP-467).
"""

from __future__ import annotations

from typing import Annotated, Final

from ottla.wire.schema import Api, Int16, Int32, Int64, Message, V


class PartitionProduceData(Message):
    """Records for one partition."""

    partition_index: Int32 = 0
    #: Since version 3 one batch of format v2, no less and no more; before that a message set of format v0 or v1. Null
    #: or nothing is INVALID_RECORD since version 3.
    records: Annotated[bytes | None, V(nullable="0+")] = b""


class TopicProduceData(Message):
    """Records for partitions of one topic."""

    name: str = ""
    partitions: list[PartitionProduceData] = []


class ProduceRequest(Message):
    """Records of one producer, for any number of partitions."""

    #: Null without transactions. To Kafka 2.7 it is for the authorizer alone, since batches name the producer by its
    #: id; here the coordinator is also asked by it if the transaction has the partitions (KIP-890).
    transactional_id: Annotated[str | None, V("3+", nullable="0+")] = ""
    #: 0: there is no answer, and an error closes the connection. 1: the leader has appended. -1: all in-sync replicas
    #: have. Another number is INVALID_REQUIRED_ACKS; Kafka 0.8 took it for a count of replicas.
    acks: Int16 = 0
    #: How long the in-sync replicas are waited for (acks=-1). After that comes REQUEST_TIMED_OUT, but the records stay
    #: in the log.
    timeout_ms: Int32 = 0
    topics: list[TopicProduceData] = []


class BatchIndexAndErrorMessage(Message):
    """A record for whose sake its whole batch was refused."""

    #: The record's position in its batch, from 0; no offset.
    batch_index: Annotated[Int32, V("8+")] = 0
    #: May be null: the partition's error code says it all then.
    batch_index_error_message: Annotated[str | None, V("8+", nullable="8+")] = None


class PartitionProduceResponse(Message):
    """The result for the records of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    #: The offset of the first record; -1 after an error. A batch of an idempotent producer that was there already has
    #: the offset of its first time.
    base_offset: Int64 = 0
    #: Milliseconds since 1970 if the topic has message.timestamp.type=LogAppendTime. -1: the records keep the
    #: producer's own times (KIP-32).
    log_append_time_ms: Annotated[Int64, V("2+", ignorable=True)] = -1
    #: The first offset that the log has; -1 if that is not told. By it a producer that the broker has forgotten tells
    #: "deleted by retention" from "lost".
    log_start_offset: Annotated[Int64, V("5+", ignorable=True)] = -1
    #: The records that spoiled their batch, so that a client can name them (KIP-467). Nothing of the batch is in the
    #: log.
    record_errors: Annotated[list[BatchIndexAndErrorMessage], V("8+", ignorable=True)] = []
    error_message: Annotated[str | None, V("8+", nullable="8+", ignorable=True)] = None


class TopicProduceResponse(Message):
    """The results for partitions of one topic."""

    name: str = ""
    partitions: list[PartitionProduceResponse] = []


class ProduceResponse(Message):
    """The results; with acks=0 there is no such message."""

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
