"""AddOffsetsToTxn (key 25): a producer is about to commit a group's offsets in its transaction.

To the coordinator that is one more partition: the group's in `__consumer_offsets`. PRODUCER_FENCED is known from
version 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replies import reply
from ottla.errors import InvalidProducerEpoch, ProducerFenced
from ottla.kafka import TopicPartition
from ottla.wire.k25_add_offsets_to_txn import ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import TransactionContext


def handle(broker: TransactionContext, request: Request) -> None:
    version = request.api_version
    asked: AddOffsetsToTxnRequest = ADD_OFFSETS_TO_TXN.decode_request(version, request)
    offsets = broker.groups.topic

    def answer(code: int) -> None:
        if version < 2 and code == ProducerFenced.code:
            code = InvalidProducerEpoch.code
        reply(broker, request, ADD_OFFSETS_TO_TXN, AddOffsetsToTxnResponse(error_code=code))

    broker.transactions.coordinator.add_partitions(
        asked.transactional_id,
        asked.producer_id,
        asked.producer_epoch,
        [TopicPartition(offsets.name, offsets.partition_for(asked.group_id))],
        answer,
    )
