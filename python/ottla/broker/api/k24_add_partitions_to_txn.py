"""AddPartitionsToTxn (key 24): a producer names partitions before it writes to them; the first ones open its
transaction.

All or nothing: if one partition does not exist, the others are not added either (OPERATION_NOT_ATTEMPTED).
PRODUCER_FENCED is known from version 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.pace import reply
from ottla.errors import InvalidProducerEpoch, OperationNotAttempted, ProducerFenced, UnknownTopicOrPartition
from ottla.wire.k24_add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.broker import Broker

VERSIONS = range(3)


def handle(broker: Broker, request: Request) -> None:
    version = request.api_version
    asked: AddPartitionsToTxnRequest = ADD_PARTITIONS_TO_TXN.decode_request(version, request)
    topics = broker.metadata.topics
    partitions = {(topic.name, index) for topic in asked.topics for index in topic.partitions}
    unknown = {(topic, index) for topic, index in partitions if index not in topics.get(topic, ())}

    def answer(codes: dict[tuple[str, int], int]) -> None:
        by_topic: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
        for (topic, index), code in codes.items():
            if version < 2 and code == ProducerFenced.code:
                code = InvalidProducerEpoch.code
            row = AddPartitionsToTxnPartitionResult(partition_index=index, error_code=code)
            by_topic.setdefault(topic, []).append(row)
        results = [AddPartitionsToTxnTopicResult(name=name, results=rows) for name, rows in by_topic.items()]
        reply(broker, request, ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnResponse(results=results))

    if unknown:
        answer(
            {
                each: UnknownTopicOrPartition.code if each in unknown else OperationNotAttempted.code
                for each in partitions
            }
        )
        return
    broker.transactions.coordinator.add_partitions(
        asked.transactional_id,
        asked.producer_id,
        asked.producer_epoch,
        partitions,
        lambda code: answer(dict.fromkeys(partitions, code)),
    )
