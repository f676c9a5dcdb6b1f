"""A coordinator that may have been replaced says nothing for good that others do not confirm by taking a write."""

from collections.abc import Callable

import pytest

from ottla.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidProducerIdMapping,
    InvalidTxnState,
    NotCoordinator,
    ProducerFenced,
    RequestTimedOut,
)
from ottla.kafka import TopicPartition
from ottla.transaction.coordinator import Coordinator

NAME, PLACE, OTHER = "mover", TopicPartition("t", 0), TopicPartition("t", 1)


class StateLog:
    """Takes each record at once, or answers with `code`."""

    def __init__(self) -> None:
        self.code = 0
        self.records = 0

    def partition_for(self, key: str) -> int:
        return 0

    def append_then(
        self, index: int, leader_epoch: int, records: list[tuple[bytes, bytes | None]], done: Callable[[int, int], None]
    ) -> None:
        self.records += not self.code
        done(self.code, self.records)


class World:
    """A coordinator of one id, whose producer is 7 in epoch 0."""

    def __init__(self) -> None:
        self.is_in_doubt = False
        self.log = StateLog()
        self.coordinator = Coordinator(self.log, lambda: 0, 60_000, may_be_replaced=lambda: self.is_in_doubt)
        self.coordinator.loaded(self.coordinator.elected(0, 0))
        assert self.initialize() == 0

    def initialize(self, expected: tuple[int, int] | None = None) -> int:
        codes: list[int] = []
        self.coordinator.initialize(NAME, 1000, expected, 7, lambda code, *_: codes.append(code))
        return codes[0]

    def add(self, place: TopicPartition = PLACE, producer_id: int = 7, epoch: int = 0) -> int:
        codes: list[int] = []
        self.coordinator.add_partitions(NAME, producer_id, epoch, [place], codes.append)
        return codes[0]

    def end(self, commit: bool, epoch: int = 0) -> int:
        codes: list[int] = []
        self.coordinator.end(NAME, 7, epoch, commit, codes.append)
        return codes[0]

    def verify(self, place: TopicPartition, epoch: int = 0) -> int:
        return self.coordinator.verify(NAME, 7, epoch, [place])[place]

    def complete(self) -> None:
        """Its markers are written."""
        transaction = self.coordinator.shards[0].transactions[NAME]
        transaction.pending = None
        transaction.committed(transaction.complete(0))


def test_what_would_end_a_producer_is_refused_for_now() -> None:
    world = World()
    assert world.add() == 0
    asked: dict[type[Exception], Callable[[], int]] = {
        InvalidProducerIdMapping: lambda: world.add(producer_id=8),
        ProducerFenced: lambda: world.add(epoch=1),
        InvalidTxnState: lambda: world.verify(OTHER),
    }
    for error, ask in asked.items():
        assert ask() == error.code  # type: ignore[attr-defined]
    assert world.end(True, epoch=1) == ProducerFenced.code
    assert world.initialize((8, 0)) == ProducerFenced.code
    world.is_in_doubt = True
    for ask in asked.values():
        assert ask() == NotCoordinator.code
    assert world.end(True, epoch=1) == NotCoordinator.code
    assert world.initialize((8, 0)) == NotCoordinator.code
    assert world.verify(PLACE) == 0
    # What passes is told as it is.
    assert world.end(True) == 0
    assert world.end(True) == ConcurrentTransactions.code


def test_a_decision_that_was_made_is_told_again_if_others_confirm_it() -> None:
    """It may be that of the transaction before the one that another coordinator has open."""
    world = World()
    assert world.add() == 0
    assert world.end(True) == 0
    world.complete()
    written = world.log.records
    assert world.end(True) == 0
    assert world.log.records == written, "it is known"
    world.is_in_doubt = True
    assert world.end(True) == 0
    assert world.log.records == written + 1
    world.log.code = RequestTimedOut.code
    assert world.end(True) == CoordinatorNotAvailable.code
    assert world.end(False) == NotCoordinator.code
    world.log.code = 0
    assert world.end(True) == 0


@pytest.mark.parametrize("code", [0, RequestTimedOut.code])
def test_partitions_that_a_transaction_has_are_confirmed(code: int) -> None:
    world = World()
    assert world.add() == 0
    world.is_in_doubt = True
    world.log.code = code
    assert world.add() == (CoordinatorNotAvailable.code if code else 0)
    world.log.code = 0
    assert world.add(OTHER) == 0
    assert world.end(True) == 0
