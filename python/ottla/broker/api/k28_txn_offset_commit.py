"""TxnOffsetCommit (key 28): offsets that count when the producer's transaction commits (KIP-98).

Version 2: leader epochs. 3: member and generation, so that a member that was replaced is fenced (KIP-447); flexible.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.call import count_of
from ottla.broker.freeing import Freed
from ottla.broker.verification import RETRIABLE
from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    OffsetMetadataTooLarge,
    ProducerFenced,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from ottla.group.records import CommittedOffset
from ottla.kafka import TopicPartition
from ottla.wire.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import TransactionRooms

    TxnOffsetCommit: TypeAlias = "Call[TxnOffsetCommitRequest, TxnOffsetCommitResponse]"


def handle(call: TxnOffsetCommit, rooms: TransactionRooms) -> None:
    asked = call.message
    rows = count_of(topic.partitions for topic in asked.topics)
    call.in_slices(rows, _commit(call, rooms, asked, rows))


def _commit(call: TxnOffsetCommit, rooms: TransactionRooms, asked: TxnOffsetCommitRequest, rows: int) -> Iterator[None]:
    """The rows that are taken are committed together. The answer goes through all `rows` again, however few partitions
    they name.
    """
    now_ms = rooms.groups.wall_ms()
    mine = Freed()
    commits: dict[TopicPartition, CommittedOffset] = mine.add({})
    refused: dict[TopicPartition, int] = mine.add({})
    rights = call.rights
    for topic in asked.topics:
        yield
        partitions = rooms.metadata.topics.get(topic.name, ())
        is_forbidden = rights is not None and not rights.may(Operation.READ, Resource.TOPIC, topic.name)
        for row in topic.partitions:
            yield
            partition = TopicPartition(topic.name, row.partition_index)
            metadata = row.committed_metadata or ""
            if is_forbidden:
                refused[partition] = TopicAuthorizationFailed.code
            elif row.partition_index not in partitions:
                refused[partition] = UnknownTopicOrPartition.code
            elif len(metadata) > rooms.groups.settings.offset_metadata_max:
                refused[partition] = OffsetMetadataTooLarge.code
            else:
                commits[partition] = CommittedOffset(row.committed_offset, row.committed_leader_epoch, metadata, now_ms)
    error = 0
    if commits:
        # A broker that does not coordinate the group says that first, whatever it knows of the transaction: producers
        # look for the coordinator then. After another error they ask this broker again.
        error = rooms.groups.missing(asked.group_id) or _verify(rooms, asked)
    if error or not commits:
        yield from _answer(call, rooms, asked, refused, error, mine)
        return
    rooms.groups.commit_in_transaction(
        asked.group_id,
        (asked.producer_id, asked.producer_epoch),
        asked.member_id,
        asked.group_instance_id,
        asked.generation_id,
        commits,
        lambda error: call.in_slices(rows, _answer(call, rooms, asked, refused, error, mine)),
    )


def _verify(rooms: TransactionRooms, asked: TxnOffsetCommitRequest) -> int:
    """The error code if the transaction does not have the group's partition (KIP-890), else 0: without the partition in
    it, nobody would ever end what begins here.

    Nothing can come between this and the append, so that no guard is needed as it is for a Produce.
    """
    topic = rooms.groups.topic
    place = TopicPartition(topic.name, topic.partition_for(asked.group_id))
    verify = rooms.transactions.verify
    error = verify(asked.transactional_id, asked.producer_id, asked.producer_epoch, [place])[place]
    if error == ProducerFenced.code:
        return InvalidProducerEpoch.code
    return CoordinatorLoadInProgress.code if error in RETRIABLE else error


def _answer(
    call: TxnOffsetCommit,
    rooms: TransactionRooms,
    asked: TxnOffsetCommitRequest,
    refused: dict[TopicPartition, int],
    error: int,
    mine: Freed,
) -> Iterator[None]:
    version = call.version
    if version < 2 and error == CoordinatorLoadInProgress.code:
        error = CoordinatorNotAvailable.code  # producers before 2.0 crash at the other (KAFKA-7296)
    # What is named twice is committed once, with the last offset, and answered once, as in Kafka.
    named: dict[TopicPartition, None] = mine.add({})
    for topic in asked.topics:
        yield
        for asked_row in topic.partitions:
            yield
            named[TopicPartition(topic.name, asked_row.partition_index)] = None
    topics: dict[str, TxnOffsetCommitResponseTopic] = mine.add({})
    for partition in named:
        yield
        row = TxnOffsetCommitResponsePartition(partition.partition, refused.get(partition, error))
        topics.setdefault(partition.topic, TxnOffsetCommitResponseTopic(partition.topic, [])).partitions.append(row)
    response = TxnOffsetCommitResponse(0, list(topics.values()))
    call.reply(response)
