"""TxnOffsetCommit (key 28): offsets that count when the producer's transaction commits (KIP-98).

Version 2: leader epochs. 3: member and generation, so that a member that was replaced is fenced (KIP-447); flexible.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.pace import reply
from ottla.broker.verification import RETRIABLE
from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    OffsetMetadataTooLarge,
    ProducerFenced,
    UnknownTopicOrPartition,
)
from ottla.group.offsets import TopicPartition
from ottla.group.records import CommittedOffset
from ottla.wire.k28_txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.broker import Broker

VERSIONS = range(4)


def handle(broker: Broker, request: Request) -> None:
    asked: TxnOffsetCommitRequest = TXN_OFFSET_COMMIT.decode_request(request.api_version, request)
    now_ms = time.time_ns() // 1_000_000
    commits: dict[TopicPartition, CommittedOffset] = {}
    refused: dict[TopicPartition, int] = {}
    for topic in asked.topics:
        partitions = broker.metadata.topics.get(topic.name, ())
        for row in topic.partitions:
            metadata = row.committed_metadata or ""
            if row.partition_index not in partitions:
                refused[topic.name, row.partition_index] = UnknownTopicOrPartition.code
            elif len(metadata) > broker.groups.settings.offset_metadata_max:
                refused[topic.name, row.partition_index] = OffsetMetadataTooLarge.code
            else:
                commits[topic.name, row.partition_index] = CommittedOffset(
                    row.committed_offset, row.committed_leader_epoch, metadata, now_ms
                )
    if not commits:
        return _answer(broker, request, asked, refused, 0)
    if error := _verify(broker, asked):
        return _answer(broker, request, asked, refused, error)
    return broker.groups.commit_in_transaction(
        asked.group_id,
        (asked.producer_id, asked.producer_epoch),
        asked.member_id,
        asked.group_instance_id,
        asked.generation_id,
        commits,
        partial(_answer, broker, request, asked, refused),
    )


def _verify(broker: Broker, asked: TxnOffsetCommitRequest) -> int:
    """Whether the transaction has the group's partition (KIP-890): otherwise nobody would ever end what begins here.

    Nothing can come between this and the append, so that no guard is needed as it is for a Produce.
    """
    place = (broker.groups.topic.name, broker.groups.topic.partition_for(asked.group_id))
    verify = broker.transactions.verify
    error = verify(asked.transactional_id, asked.producer_id, asked.producer_epoch, [place])[place]
    if error == ProducerFenced.code:
        return InvalidProducerEpoch.code
    return CoordinatorLoadInProgress.code if error in RETRIABLE else error


def _answer(
    broker: Broker, request: Request, asked: TxnOffsetCommitRequest, refused: dict[TopicPartition, int], error: int
) -> None:
    version = request.api_version
    if version < 2 and error == CoordinatorLoadInProgress.code:
        error = CoordinatorNotAvailable.code  # producers before 2.0 crash at the other (KAFKA-7296)
    # What is named twice is committed once, with the last offset, and answered once, as in Kafka.
    named = dict.fromkeys((topic.name, row.partition_index) for topic in asked.topics for row in topic.partitions)
    topics: dict[str, TxnOffsetCommitResponseTopic] = {}
    for name, index in named:
        row = TxnOffsetCommitResponsePartition(index, refused.get((name, index), error))
        topics.setdefault(name, TxnOffsetCommitResponseTopic(name, [])).partitions.append(row)
    response = TxnOffsetCommitResponse(0, list(topics.values()))
    reply(broker, request, TXN_OFFSET_COMMIT, response)
