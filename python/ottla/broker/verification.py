"""The transactional part of a Produce: who may write, and whether the coordinator knows of it (KIP-98, KIP-890).

The first batch of a transaction in a partition is appended with a guard, and only after the transaction's coordinator
has said that the partition belongs to it. A batch that was delayed until its transaction had ended, or a producer that
never announced the partition, would otherwise open a transaction that nobody ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.errors import (
    ClusterAuthorizationFailed,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    NetworkException,
    NotCoordinator,
    NotEnoughReplicas,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
)
from ottla.errors import error as kafka_error
from ottla.kafka import TopicPartition
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla._core import ProduceRequest
    from ottla.broker.authorization.authorizer import Rights
    from ottla.broker.rooms import VerificationRooms

#: The coordinator cannot say now. The producer tries again on this one, and it does not make it ask for metadata.
RETRIABLE = frozenset(
    error.code
    for error in (
        ConcurrentTransactions,
        NetworkException,
        CoordinatorLoadInProgress,
        CoordinatorNotAvailable,
        NotCoordinator,
    )
)


#: Bytes of a batch of format v2.
_MAGIC: Final = 16
_PRODUCER_ID, _PRODUCER_ID_END = 43, 51


class Verified:
    """The outcome of verifying partitions, by place: an error or a guard, neither where nothing had to be verified."""

    __slots__ = ("errors", "guards")

    def __init__(self) -> None:
        self.errors: dict[int, tuple[int, str | None]] = {}
        self.guards: dict[int, int] = {}


def lacking(rights: Rights, produce: ProduceRequest) -> int:
    """The error code of a Produce whose client lacks a right that its records need, whatever their topics; 0 if it
    lacks none. As in Kafka 2.7, who may write with a transactional id needs no right for the producer id in it.
    """
    if produce.is_transactional:
        name = produce.transactional_id
        may = name is not None and rights.may(Operation.WRITE, Resource.TRANSACTIONAL_ID, name)
        return 0 if may else TransactionalIdAuthorizationFailed.code
    if rights.might(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER) or not _has_producers(produce):
        return 0
    rights.may(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)
    return ClusterAuthorizationFailed.code


def _has_producers(produce: ProduceRequest) -> bool:
    """True if a batch has a producer id. Older formats have none."""
    heads = (produce.records_bytes(index) or b"" for index in range(len(produce)))
    return any(
        len(head) >= _PRODUCER_ID_END
        and head[_MAGIC] >= 2
        and int.from_bytes(head[_PRODUCER_ID:_PRODUCER_ID_END], "big", signed=True) >= 0
        for head in heads
    )


def may_write(produce: ProduceRequest) -> int:
    """The error code of a Produce of which nothing is appended, whatever becomes of its transaction; 0 if there is
    none.
    """
    if produce.transactional_id is None:
        return TransactionalIdAuthorizationFailed.code
    return InvalidProducerIdMapping.code if produce.has_several_producers() else 0


def verify(
    broker: VerificationRooms, produce: ProduceRequest, start: int, names: Sequence[tuple[str, int, bool]]
) -> Verified:
    """Asks the coordinator about each partition of `names` in which a transaction would begin. They are those of
    `produce` from `start` on; it `may_write`.
    """
    verified = Verified()
    asked: dict[int, TopicPartition] = {}
    batch = None
    for index, (topic, number, _) in enumerate(names):
        found = produce.transactional_producer(start + index)
        partition = broker.replicas.partitions.get((topic, number))
        if found is None or partition is None or not partition.is_leader:
            continue
        batch = found
        if guard := partition.log.begin_verification(*batch):
            asked[index] = TopicPartition(topic, number)
            verified.guards[index] = guard
    if asked and batch is not None and produce.transactional_id is not None:
        producer_id, epoch, _ = batch
        answers = broker.transactions.verify(produce.transactional_id, producer_id, epoch, asked.values())
        for index, name in asked.items():
            if error := answers[name]:
                verified.errors[index] = _as_producers_know_it(error)
                if error not in RETRIABLE:
                    log = broker.replicas.partitions[name].log
                    log.refuse_verification(producer_id, verified.guards[index])
    return verified


def _as_producers_know_it(error: int) -> tuple[int, str | None]:
    """The error code, and words where Kafka has some."""
    if error in RETRIABLE:
        words = "Unable to verify the partition has been added to the transaction. Underlying error: "
        return NotEnoughReplicas.code, words + kafka_error(error).name
    if error == InvalidTxnState.code:
        return error, "Partition was not added to the transaction"
    return InvalidProducerEpoch.code if error == ProducerFenced.code else error, None
