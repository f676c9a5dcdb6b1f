"""AddPartitionsToTxn (key 24): a producer names partitions before it writes to them; the first ones open its
transaction.

All or nothing: if one partition does not exist, the others are not added either (OPERATION_NOT_ATTEMPTED).
PRODUCER_FENCED is known from version 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from ottla.broker.freeing import Freed
from ottla.broker.replies import count_of, reply
from ottla.errors import (
    InvalidProducerEpoch,
    KafkaError,
    OperationNotAttempted,
    ProducerFenced,
    UnknownTopicOrPartition,
)
from ottla.kafka import TopicPartition
from ottla.slices import serve
from ottla.wire.k24_add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import TransactionContext


def handle(broker: TransactionContext, request: Request) -> None:
    asked: AddPartitionsToTxnRequest = ADD_PARTITIONS_TO_TXN.decode_request(request.api_version, request)
    rows = count_of(topic.partitions for topic in asked.topics)
    serve(broker, request, rows, _add(broker, request, asked))


def _add(broker: TransactionContext, request: Request, asked: AddPartitionsToTxnRequest) -> Iterator[None]:
    """What is named twice is added once, and answered once."""
    topics = broker.metadata.topics
    mine = Freed()
    partitions: set[TopicPartition] = mine.add(set())
    unknown: set[TopicPartition] = mine.add(set())
    for topic in asked.topics:
        yield
        known = topics.get(topic.name, ())
        for index in topic.partitions:
            yield
            (partitions if index in known else unknown).add(TopicPartition(topic.name, index))
    if unknown:
        yield from _answer(
            broker,
            request,
            chain(_each(unknown, UnknownTopicOrPartition), _each(partitions, OperationNotAttempted)),
            mine,
        )
        return
    broker.transactions.coordinator.add_partitions(
        asked.transactional_id,
        asked.producer_id,
        asked.producer_epoch,
        partitions,
        lambda code: serve(
            broker, request, len(partitions), _answer(broker, request, ((each, code) for each in partitions), mine)
        ),
    )


def _each(partitions: set[TopicPartition], error: type[KafkaError]) -> Iterator[tuple[TopicPartition, int]]:
    return ((each, error.code) for each in partitions)


def _answer(
    broker: TransactionContext, request: Request, codes: Iterable[tuple[TopicPartition, int]], mine: Freed
) -> Iterator[None]:
    by_topic: dict[str, AddPartitionsToTxnTopicResult] = mine.add({})
    for (topic, index), code in codes:
        yield
        if request.api_version < 2 and code == ProducerFenced.code:
            code = InvalidProducerEpoch.code
        row = AddPartitionsToTxnPartitionResult(partition_index=index, error_code=code)
        by_topic.setdefault(topic, AddPartitionsToTxnTopicResult(name=topic)).results.append(row)
    reply(broker, request, ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnResponse(results=list(by_topic.values())))
