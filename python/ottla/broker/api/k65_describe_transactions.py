"""DescribeTransactions (key 65): the state of transactional ids that this broker coordinates (KIP-664). Later than
2.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.freeing import Freed
from ottla.errors import InvalidRequest, KafkaError, TransactionalIdAuthorizationFailed, TransactionalIdNotFound
from ottla.slices import Slices
from ottla.transaction.coordinator import Coordinator
from ottla.wire.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import TransactionRooms

    DescribeTransactions: TypeAlias = "Call[DescribeTransactionsRequest, DescribeTransactionsResponse]"

#: An id and a partition in an answer; and what a partition takes in memory before, in lists.
ROW_BYTES, PARTITION_BYTES, PARTITION_OBJECTS_BYTES = 64, 4, 48


async def handle(call: DescribeTransactions, rooms: TransactionRooms) -> None:
    asked = call.message
    coordinator = rooms.transactions.coordinator
    answer = DescribeTransactionsResponse()
    memory, slices, mine = call.memory, Slices(), Freed()
    rights = call.rights
    told: set[str] = mine.add(set())
    for each in asked.transactional_ids:
        await slices.row()
        if each in told:
            continue
        told.add(each)
        if rights is not None and not rights.may(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, each):
            denied = TransactionalIdAuthorizationFailed.code
            answer.transaction_states.append(TransactionState(transactional_id=each, error_code=denied))
            continue
        await memory.add(*_size_bytes(coordinator, each))
        answer.transaction_states.append(_describe(coordinator, each))
    call.reply(answer)


def _size_bytes(coordinator: Coordinator, transactional_id: str) -> tuple[int, int]:
    """About what an id takes in an answer, and what its partitions take in memory before."""
    row_bytes = ROW_BYTES + 3 * len(transactional_id)
    try:
        _, transaction = coordinator.find(transactional_id)
    except KafkaError:
        transaction = None
    partitions = 0 if transaction is None else len(transaction.partitions)
    return row_bytes + PARTITION_BYTES * partitions, PARTITION_OBJECTS_BYTES * partitions


def _describe(coordinator: Coordinator, transactional_id: str) -> TransactionState:
    row = TransactionState(transactional_id=transactional_id)
    try:
        if not transactional_id:
            raise InvalidRequest
        _, transaction = coordinator.find(transactional_id)
        if transaction is None:
            raise TransactionalIdNotFound
    except KafkaError as error:
        row.error_code = error.code
        return row
    row.transaction_state = transaction.state.label
    row.transaction_timeout_ms = transaction.timeout_ms
    row.transaction_start_time_ms = transaction.started_ms
    row.producer_id, row.producer_epoch = transaction.producer_id, transaction.epoch
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(index)
    row.topics = [TopicData(topic=topic, partitions=indexes) for topic, indexes in topics.items()]
    return row
