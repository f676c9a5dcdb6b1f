"""AddOffsetsToTxn (key 25): a producer is about to commit a group's offsets in its transaction.

To the coordinator that is one more partition: the group's in `__consumer_offsets`. PRODUCER_FENCED is known from
version 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import InvalidProducerEpoch, ProducerFenced
from ottla.kafka import TopicPartition
from ottla.wire.k25_add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import TransactionRooms

    AddOffsetsToTxn: TypeAlias = "Call[AddOffsetsToTxnRequest, AddOffsetsToTxnResponse]"


def handle(call: AddOffsetsToTxn, rooms: TransactionRooms) -> None:
    version = call.version
    asked = call.message
    offsets = rooms.groups.topic

    def answer(code: int) -> None:
        if version < 2 and code == ProducerFenced.code:
            code = InvalidProducerEpoch.code
        call.reply(AddOffsetsToTxnResponse(error_code=code))

    rooms.transactions.coordinator.add_partitions(
        asked.transactional_id,
        asked.producer_id,
        asked.producer_epoch,
        [TopicPartition(offsets.name, offsets.partition_for(asked.group_id))],
        answer,
    )
