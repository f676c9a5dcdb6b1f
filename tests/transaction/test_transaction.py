"""One transactional id: the rules that no interleaving shows by itself."""

import pytest

from ottla.errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
)
from ottla.transaction.transaction import EPOCH_MAX, State, Transaction, Transition

A, B = ("a", 0), ("b", 3)


def begun(*partitions: tuple[str, int], epoch: int = 0) -> Transaction:
    """Producer 7 with a timeout of 1,000 ms, whose transaction began at 100 ms."""
    transaction = Transaction("id", 7, 1_000, 0)
    transaction.epoch = epoch - 1
    done(transaction, transaction.initialize(1_000, None, 0))
    if partitions:
        done(transaction, transaction.add_partitions(7, epoch, partitions, 100))
    return transaction


def done(transaction: Transaction, transition: Transition | None) -> None:
    assert transition is not None
    transaction.committed(transition)


def test_a_life() -> None:
    transaction = begun(A)
    done(transaction, transaction.add_partitions(7, 0, [A, B], 200))
    assert (transaction.state, transaction.partitions) == (State.ONGOING, {A, B})
    assert (transaction.started_ms, transaction.updated_ms) == (100, 200)
    assert transaction.add_partitions(7, 0, [B], 300) is None
    done(transaction, transaction.end(7, 0, True, 400))
    complete = transaction.complete(500)
    transaction.markers_written([A])
    assert transaction.partitions == {B}
    transaction.markers_written([B])
    transaction.committed(complete)
    assert (transaction.state, transaction.started_ms, transaction.updated_ms) == (State.COMPLETE_COMMIT, 100, 500)
    done(transaction, transaction.add_partitions(7, 0, [A], 600))
    assert (transaction.partitions, transaction.started_ms) == ({A}, 600)


def test_only_the_producer_itself_may_go_on() -> None:
    transaction = begun(A, epoch=3)
    for producer_id, epoch, error in (
        (8, 3, InvalidProducerIdMapping),
        (7, 2, ProducerFenced),
        (7, 4, ProducerFenced),
    ):
        with pytest.raises(error):
            transaction.add_partitions(producer_id, epoch, [B], 200)
        with pytest.raises(error):
            transaction.end(producer_id, epoch, True, 200)
    assert transaction.state is State.ONGOING


def test_what_was_decided_stays_decided() -> None:
    transaction = begun(A)
    done(transaction, transaction.end(7, 0, True, 200))
    with pytest.raises(ConcurrentTransactions):
        transaction.end(7, 0, True, 300)
    with pytest.raises(InvalidTxnState):
        transaction.end(7, 0, False, 300)
    with pytest.raises(ConcurrentTransactions):
        transaction.initialize(1_000, None, 300)
    with pytest.raises(ConcurrentTransactions):
        transaction.add_partitions(7, 0, [B], 300)
    complete = transaction.complete(400)
    transaction.markers_written([A])
    transaction.committed(complete)
    assert transaction.end(7, 0, True, 500) is None
    with pytest.raises(InvalidTxnState):
        transaction.end(7, 0, False, 500)


def test_nothing_to_end() -> None:
    with pytest.raises(InvalidTxnState):
        begun().end(7, 0, False, 100)


def test_an_append_that_fails_changes_nothing() -> None:
    transaction = begun(A)
    transition = transaction.end(7, 0, True, 200)
    assert transition is not None
    with pytest.raises(ConcurrentTransactions):
        transaction.add_partitions(7, 0, [B], 200)
    transaction.failed(transition)
    done(transaction, transaction.end(7, 0, False, 300))
    assert transaction.state is State.PREPARE_ABORT


def test_a_newer_producer_aborts_and_fences() -> None:
    transaction = begun(A)
    abort = transaction.initialize(1_000, None, 200)
    assert (abort.state, abort.epoch, abort.partitions) == (State.PREPARE_ABORT, 1, {A})
    with pytest.raises(ProducerFenced):
        transaction.end(7, 0, True, 200)
    transaction.committed(abort)
    complete = transaction.complete(300)
    transaction.markers_written([A])
    transaction.committed(complete)
    assert transaction.initialize(1_000, None, 400).epoch == 2


def test_a_fence_that_fails_uses_up_one_epoch_only() -> None:
    transaction = begun(A)
    for _ in range(5):
        abort = transaction.abort_timed_out(2_000)
        assert abort.epoch == 1
        transaction.failed(abort)
        with pytest.raises(ProducerFenced):
            transaction.end(7, 0, True, 2_000)
    done(transaction, transaction.abort_timed_out(2_000))
    complete = transaction.complete(2_000)
    transaction.markers_written([A])
    transaction.committed(complete)
    done(transaction, transaction.initialize(1_000, None, 2_000))
    done(transaction, transaction.add_partitions(7, 2, [A], 2_000))
    assert transaction.abort_timed_out(4_000).epoch == 3


def test_timeouts() -> None:
    transaction = begun(A)
    assert not transaction.times_out(1_100)
    assert transaction.times_out(1_101)
    transaction.end(7, 0, True, 1_050)
    assert not transaction.times_out(1_101), "its end is being written"


def test_expiry() -> None:
    transaction = begun()
    assert transaction.expires(0)
    assert not transaction.expires(-1)
    tombstone = transaction.expire()
    assert tombstone.state is State.DEAD
    assert not transaction.expires(0)
    with pytest.raises(ConcurrentTransactions):
        transaction.initialize(1_000, None, 10)
    transaction.failed(tombstone)
    done(transaction, transaction.add_partitions(7, 0, [A], 10))
    assert not transaction.expires(10), "a transaction is open"


def test_a_producer_that_goes_on_after_an_error() -> None:
    """KIP-360: it names what it has; a repetition gets the same answer, and someone who came in between fences it."""
    transaction = begun(epoch=5)
    done(transaction, transaction.initialize(1_000, (7, 5), 100))
    assert (transaction.epoch, transaction.last_epoch) == (6, 5)
    done(transaction, transaction.initialize(1_000, (7, 5), 200))
    assert transaction.epoch == 6
    done(transaction, transaction.initialize(1_000, None, 300))
    assert (transaction.epoch, transaction.last_epoch) == (7, -1)
    for late in ((7, 5), (7, 6), (8, 7)):
        with pytest.raises(ProducerFenced):
            transaction.initialize(1_000, late, 400)


def test_an_id_nobody_knows_any_more_is_made_anew() -> None:
    """Its ids were forgotten, so whatever the producer names is of no use, and harms nobody."""
    transaction = Transaction("id", 9, 1_000, 0)
    done(transaction, transaction.initialize(1_000, (7, 5), 0))
    assert (transaction.producer_id, transaction.epoch) == (9, 0)


def test_the_last_epoch_is_never_given_out() -> None:
    transaction = begun(A, epoch=EPOCH_MAX - 1)
    abort = transaction.initialize(1_000, None, 200)
    assert abort.epoch == EPOCH_MAX
    transaction.committed(abort)
    complete = transaction.complete(300)
    transaction.markers_written([A])
    transaction.committed(complete)
    assert transaction.exhausted
    done(transaction, transaction.initialize(1_000, None, 400, new_producer_id=8))
    assert (transaction.producer_id, transaction.epoch) == (8, 0)
    assert transaction.last_producer_id == 7


def test_rotation_asked_for_twice() -> None:
    transaction = begun(epoch=EPOCH_MAX - 1)
    for _ in range(2):
        done(transaction, transaction.initialize(1_000, (7, EPOCH_MAX - 1), 100, new_producer_id=8))
        assert (transaction.producer_id, transaction.epoch) == (8, 0)


def test_verification() -> None:
    transaction = begun(A)
    assert transaction.verify(7, 0, [A, B]) == {A: 0, B: InvalidTxnState.code}
    assert transaction.verify(8, 0, [A]) == {A: InvalidProducerIdMapping.code}
    assert transaction.verify(7, 1, [A]) == {A: InvalidProducerEpoch.code}
    end = transaction.end(7, 0, True, 200)
    assert transaction.verify(7, 0, [A]) == {A: 0}, "not decided yet"
    done(transaction, end)
    assert transaction.verify(7, 0, [A]) == {A: ConcurrentTransactions.code}
