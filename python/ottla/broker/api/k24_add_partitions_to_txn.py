"""AddPartitionsToTxn (key 24): a producer names partitions before it writes to them; the first ones open its
transaction.

All or nothing: if one partition does not exist, the others are not added either (OPERATION_NOT_ATTEMPTED).
PRODUCER_FENCED is known from version 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.call import count_of
from ottla.broker.freeing import Freed
from ottla.errors import (
    InvalidProducerEpoch,
    KafkaError,
    OperationNotAttempted,
    ProducerFenced,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from ottla.kafka import INTERNAL_TOPICS, TopicPartition
from ottla.wire.k24_add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.authorization.authorizer import Rights
    from ottla.broker.call import Call
    from ottla.broker.rooms import TransactionRooms

    AddPartitionsToTxn: TypeAlias = "Call[AddPartitionsToTxnRequest, AddPartitionsToTxnResponse]"


def handle(call: AddPartitionsToTxn, rooms: TransactionRooms) -> None:
    asked = call.message
    rows = count_of(topic.partitions for topic in asked.topics)
    call.in_slices(rows, _add(call, rooms, asked))


def _add(call: AddPartitionsToTxn, rooms: TransactionRooms, asked: AddPartitionsToTxnRequest) -> Iterator[None]:
    """Adds the partitions of a request. One that is named twice is added once, and answered once."""
    topics = rooms.metadata.topics
    mine = Freed()
    partitions: set[TopicPartition] = mine.add(set())
    unknown: set[TopicPartition] = mine.add(set())
    forbidden: set[TopicPartition] = mine.add(set())
    rights = call.rights
    for topic in asked.topics:
        yield
        if rights is not None and not _may_write(rights, topic.name):
            for index in topic.partitions:
                yield
                forbidden.add(TopicPartition(topic.name, index))
            continue
        known = topics.get(topic.name, ())
        for index in topic.partitions:
            yield
            (partitions if index in known else unknown).add(TopicPartition(topic.name, index))
    if unknown or forbidden:
        yield from _answer(
            call,
            chain(
                _each(forbidden, TopicAuthorizationFailed),
                _each(unknown, UnknownTopicOrPartition),
                _each(partitions, OperationNotAttempted),
            ),
            mine,
        )
        return
    rooms.transactions.coordinator.add_partitions(
        asked.transactional_id,
        asked.producer_id,
        asked.producer_epoch,
        partitions,
        lambda code: call.in_slices(len(partitions), _answer(call, ((each, code) for each in partitions), mine)),
    )


def _may_write(rights: Rights, topic: str) -> bool:
    """As in Kafka, nobody adds partitions of internal topics."""
    return topic not in INTERNAL_TOPICS and rights.may(Operation.WRITE, Resource.TOPIC, topic)


def _each(partitions: set[TopicPartition], error: type[KafkaError]) -> Iterator[tuple[TopicPartition, int]]:
    return ((each, error.code) for each in partitions)


def _answer(call: AddPartitionsToTxn, codes: Iterable[tuple[TopicPartition, int]], mine: Freed) -> Iterator[None]:
    by_topic: dict[str, AddPartitionsToTxnTopicResult] = mine.add({})
    for (topic, index), code in codes:
        yield
        if call.version < 2 and code == ProducerFenced.code:
            code = InvalidProducerEpoch.code
        row = AddPartitionsToTxnPartitionResult(partition_index=index, error_code=code)
        by_topic.setdefault(topic, AddPartitionsToTxnTopicResult(name=topic)).results.append(row)
    call.reply(AddPartitionsToTxnResponse(results=list(by_topic.values())))
