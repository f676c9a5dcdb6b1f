"""Offsets of a group: what is visible when, and when it ends."""

import pytest

from ottla.group.offsets import Commits, GroupOffsets
from ottla.group.records import CommittedOffset
from ottla.kafka import TopicPartition

T0: TopicPartition = ("t", 0)


def commit(offset: int, when_ms: int = 0, expire_ms: int = -1) -> Commits:
    return {T0: CommittedOffset(offset, -1, "", when_ms, expire_ms)}


def offset(offsets: GroupOffsets) -> int | None:
    committed = offsets.get(T0)
    return committed.offset if committed is not None else None


def test_a_commit_is_visible_when_it_is_safe() -> None:
    offsets, one = GroupOffsets(), commit(1)
    offsets.prepare(one)
    assert offset(offsets) is None
    assert offsets.is_unstable(T0)
    offsets.appended(one, 10)
    assert offset(offsets) == 1
    assert not offsets.is_unstable(T0)


def test_commits_that_wait_together_end_in_their_order() -> None:
    offsets, one, two = GroupOffsets(), commit(1), commit(2)
    offsets.prepare(one)
    offsets.prepare(two)
    offsets.appended(one, 10)
    assert offset(offsets) == 1
    assert offsets.is_unstable(T0)
    offsets.appended(two, 10)  # both in one batch
    assert offset(offsets) == 2
    assert not offsets.is_unstable(T0)


def test_a_commit_that_fails_leaves_no_trace() -> None:
    offsets, one = GroupOffsets(), commit(1)
    offsets.prepare(one)
    offsets.failed(one)
    assert offsets.is_empty


def test_an_older_commit_is_visible_although_a_younger_one_failed() -> None:
    offsets, one, two = GroupOffsets(), commit(1), commit(2)
    offsets.prepare(one)
    offsets.prepare(two)
    offsets.failed(two)
    assert offsets.is_unstable(T0)
    offsets.appended(one, 10)
    assert offset(offsets) == 1
    assert not offsets.is_unstable(T0)


def test_a_commit_that_was_removed_stays_away_although_the_next_one_waits() -> None:
    """They are equal, so only their order tells them apart."""
    offsets, one, two = GroupOffsets(), commit(1), commit(1)
    offsets.prepare(one)
    assert offsets.remove([T0]) == [T0]
    offsets.prepare(two)
    offsets.appended(one, 10)
    assert offset(offsets) is None
    offsets.appended(two, 11)
    assert offset(offsets) == 1


@pytest.mark.parametrize("is_answered_before", [True, False])
def test_a_transaction_keeps_its_older_commit_when_a_younger_one_fails(is_answered_before: bool) -> None:
    offsets, one, two = GroupOffsets(), commit(1), commit(2)
    offsets.prepare_transactional(7, one)
    if is_answered_before:
        offsets.appended_transactional(7, one, 10)
    offsets.prepare_transactional(7, two)
    offsets.failed_transactional(7, two)
    if not is_answered_before:
        offsets.appended_transactional(7, one, 10)
    assert offset(offsets) is None
    assert offsets.is_unstable(T0)
    offsets.end_transaction(7, is_commit=True)
    assert offset(offsets) == 1
    assert not offsets.is_unstable(T0)


def test_a_transaction_counts_with_its_marker() -> None:
    offsets, plain, ours = GroupOffsets(), commit(1), commit(5)
    offsets.prepare(plain)
    offsets.appended(plain, 1)
    offsets.prepare_transactional(7, ours)
    offsets.appended_transactional(7, ours, 2)
    assert offset(offsets) == 1
    assert offsets.is_unstable(T0)
    offsets.end_transaction(7, is_commit=True)
    assert offset(offsets) == 5
    assert not offsets.is_unstable(T0)


def test_a_transaction_that_aborts_is_gone() -> None:
    offsets, ours = GroupOffsets(), commit(5)
    offsets.prepare_transactional(7, ours)
    offsets.end_transaction(7, is_commit=False)
    assert offsets.is_empty
    offsets.prepare_transactional(7, ours)
    offsets.failed_transactional(7, ours)
    assert offsets.is_empty


def test_the_later_record_wins_over_a_transaction() -> None:
    offsets, ours, plain = GroupOffsets(), commit(5), commit(9)
    offsets.prepare_transactional(7, ours)
    offsets.appended_transactional(7, ours, 1)
    offsets.prepare(plain)
    offsets.appended(plain, 2)
    offsets.end_transaction(7, is_commit=True)
    assert offset(offsets) == 9


def test_removal_tells_what_needs_a_tombstone() -> None:
    offsets, one, waits, ours = (
        GroupOffsets(),
        commit(1),
        {("u", 0): CommittedOffset(2)},
        {("v", 0): CommittedOffset(3)},
    )
    offsets.prepare(one)
    offsets.appended(one, 1)
    offsets.prepare(waits)
    offsets.prepare_transactional(7, ours)
    assert offsets.remove([T0, ("u", 0), ("v", 0), ("w", 0)]) == [T0, ("u", 0)]
    assert offsets.is_empty
    offsets.appended(waits, 2)
    assert offsets.is_empty


def test_offsets_expire() -> None:
    offsets, one = GroupOffsets(), commit(1, when_ms=1_000)
    offsets.prepare(one)
    offsets.appended(one, 1)
    assert offsets.expired(1_099, 100) == []
    assert offsets.expired(1_100, 100) == [T0]
    assert offsets.expired(1_100, 100, in_use={"t"}) == []
    # Of a group whose members have left, since then.
    assert offsets.expired(1_100, 100, since_ms=1_001) == []
    assert offsets.expired(1_101, 100, since_ms=1_001) == [T0]
    offsets.prepare(commit(2))
    assert offsets.expired(9_999, 100) == []


def test_an_expiry_of_its_own_is_all_that_counts() -> None:
    offsets, one = GroupOffsets(), commit(1, when_ms=0, expire_ms=5_000)
    offsets.prepare(one)
    offsets.appended(one, 1)
    assert offsets.expired(4_999, 100, since_ms=0) == []
    assert offsets.expired(5_000, 10**12) == [T0]


class Sought(TopicPartition):
    """A partition that counts how often one is looked for, in Python or in C."""

    times = 0

    def __hash__(self) -> int:
        Sought.times += 1
        return super().__hash__()


def test_many_partitions_go_from_many_transactions() -> None:
    """It looked for each partition in each transaction, for seconds."""
    offsets = GroupOffsets()
    partitions = [Sought("t", index) for index in range(2_000)]
    every: Commits = {partition: CommittedOffset(1) for partition in partitions}
    offsets.prepare(every)
    offsets.appended(every, 1)
    transactions = range(200)
    for producer_id in transactions:
        offsets.prepare_transactional(producer_id, {partitions[0]: CommittedOffset(1)})
    offsets.prepare_transactional(1_000, {TopicPartition("other", 0): CommittedOffset(1)})
    Sought.times = 0
    assert offsets.remove(partitions) == partitions
    assert len(partitions) < Sought.times < 10 * (len(partitions) + len(transactions))
    assert list(offsets.open_transactions) == [1_000]
