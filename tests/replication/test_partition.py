"""A partition's roles, its high watermark and who waits for it, on a real log."""

from typing import Any

import pytest

from ottla import _core
from ottla.errors import FencedLeaderEpoch, NotLeaderOrFollower, StorageError, UnknownLeaderEpoch
from ottla.replication import leading
from ottla.replication.partition import Partition
from ottla.replication.roles import Role
from tests.replication.one_partition import ME, Fetching, append, state


def test_only_a_newer_epoch_changes_the_role(partition: Partition) -> None:
    assert partition.leader_error(-1) == NotLeaderOrFollower.code
    assert partition.apply(state(3)) is Role.LEADS
    assert partition.apply(state(3, leader=2)) is Role.STALE
    assert partition.apply(state(2, leader=2)) is Role.STALE
    assert partition.is_leader
    assert partition.leader_error(-1) == partition.leader_error(3) == 0
    assert partition.leader_error(2) == FencedLeaderEpoch.code
    assert partition.leader_error(4) == UnknownLeaderEpoch.code


def test_a_new_leader_enters_its_epoch_even_without_a_record(partition: Partition) -> None:
    partition.apply(state(0))
    append(partition)
    partition.apply(state(5))
    assert partition.log.epoch_end_offset(5) == (5, 1)
    assert partition.log.epoch_end_offset(4) == (0, 1)


def test_acks_all_on_one_replica_waits_for_the_disk(partition: Partition) -> None:
    partition.apply(state(0))
    answers: list[int] = []
    last = append(partition)
    partition.advance_high_watermark()
    assert partition.wait_durable(last, answers.append), "a flush must be started"
    assert answers == []
    partition.log.flush()
    partition.flushed()
    assert answers == [0]


class FlushedMeanwhile:
    """A log that another thread flushes between any two looks at how far it is flushed, from the second on."""

    def __init__(self, log: _core.Log) -> None:
        self._log = log
        self._looks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    @property
    def flushed_offset(self) -> int:
        self._looks += 1
        return self._log.flushed_offset if self._looks == 1 else self._log.end_offset


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_flush_that_ends_meanwhile_leaves_nobody_waiting(partition: Partition, is_committed: bool) -> None:
    """The flush was another's: a timer's, or one that covers an append by chance."""
    partition.apply(state(0))
    last = append(partition)
    if is_committed:
        partition.advance_high_watermark()
    partition.change(log=FlushedMeanwhile(partition.log))
    answers: list[int] = []
    if partition.wait_durable(last, answers.append):
        # The caller starts a flush, and that ends.
        partition.flushed()
    partition.advance_high_watermark()
    assert answers == [0]


def test_acks_all_without_the_flush_waits_for_the_high_watermark_only(partition: Partition) -> None:
    partition.apply(state(0))
    partition.change(flush_on_acks_all=False)
    answers: list[int] = []
    last = append(partition)
    assert not partition.wait_durable(last, answers.append)
    assert answers == []
    partition.advance_high_watermark()
    assert answers == [0]


def test_a_role_change_fails_whoever_waits(partition: Partition) -> None:
    partition.apply(state(0))
    answers: list[int] = []
    last = append(partition)
    partition.wait_durable(last, answers.append)
    partition.apply(state(1, leader=2))
    assert answers == [NotLeaderOrFollower.code]
    partition.log.flush()
    partition.flushed()
    assert answers == [NotLeaderOrFollower.code], "answered once"


def test_a_fetch_is_woken_by_the_high_watermark_and_by_a_role_change(partition: Partition) -> None:
    woken: list[int] = []

    class Fetch:
        def advanced(self, partition: Partition) -> None:
            woken.append(partition.log.high_watermark)

        def expire(self) -> None:
            woken.append(-1)

    partition.apply(state(0))
    partition.park(Fetch())
    append(partition)
    assert woken == []
    partition.advance_high_watermark()
    partition.advance_high_watermark()
    assert woken == [1]
    partition.resign()
    assert woken == [1, 1]
    partition.release_fetches()
    assert woken == [1, 1, -1]


def test_with_followers_the_high_watermark_waits_for_them(partition: Partition) -> None:
    partition.apply(state(0, replicas=(ME, 2)))
    append(partition)
    partition.advance_high_watermark()
    assert partition.log.high_watermark == 0


def test_a_failed_directory_fails_whoever_waits_and_says_so_from_then_on(partition: Partition) -> None:
    partition.apply(state(0))
    answers: list[int] = []
    partition.wait_durable(append(partition), answers.append)
    partition.go_offline()
    assert answers == [StorageError.code]
    assert partition.leader_error(-1) == partition.leader_error(0) == StorageError.code


def test_the_high_watermark_is_what_all_in_sync_have(led: Partition) -> None:
    answers: list[int] = []
    assert not led.wait_durable(1, answers.append), "other replicas have it: the disk is not waited for"
    assert leading.followed(led, 2, 3, 0, 3, 0)
    assert led.log.high_watermark == 0, "the other follower has not fetched in this epoch"
    assert leading.followed(led, 3, 1, 0, 3, 0)
    assert (led.log.high_watermark, answers) == (1, [])
    assert leading.followed(led, 3, 2, 0, 3, 0)
    assert (led.log.high_watermark, answers) == (2, [0])


def test_each_kind_of_reader_has_its_bound(led: Partition) -> None:
    open_one = _core.BatchBuilder(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    open_one.append(1, None, b"of an open transaction")
    led.log.append_bytes(open_one.finish(), led.leader_epoch)
    append(led)
    for follower in (2, 3):
        leading.followed(led, follower, 4, 0, 5, 0)
    readers = _core.Reader.REPLICA, _core.Reader.CONSUMER, _core.Reader.COMMITTED
    assert [led.log.bound(reader) for reader in readers] == [5, 4, 3]


def test_a_leader_that_leads_on_keeps_who_waits_and_forgets_what_followers_have(led: Partition) -> None:
    answers: list[int] = []
    led.wait_durable(2, answers.append)
    leading.followed(led, 2, 3, 0, 3, 0)
    leading.followed(led, 3, 2, 0, 3, 0)
    fetches = [Fetching(led, is_follower=is_follower) for is_follower in (True, False)]
    assert led.apply(state(1, replicas=(ME, 2, 3))) is Role.LEADS_ON
    assert (led.term, led.leader_epoch, answers) == (0, 1, [])
    assert [fetch.woken for fetch in fetches] == [1, 1], "they may name the older epoch"
    leading.followed(led, 3, 3, 0, 3, 0)
    assert led.log.high_watermark == 2, "broker 2 may have truncated for a leader that this one never heard of"
    leading.followed(led, 2, 3, 0, 3, 0)
    assert answers == [0]


def test_a_gap_in_the_epochs_is_a_new_term(led: Partition) -> None:
    answers: list[int] = []
    led.wait_durable(2, answers.append)
    assert led.apply(state(2, replicas=(ME, 2, 3))) is Role.LEADS
    assert (led.term, answers) == (2, [NotLeaderOrFollower.code])


def test_followers_wait_for_the_end_of_the_log_and_consumers_for_the_high_watermark(led: Partition) -> None:
    follower, consumer = Fetching(led, is_follower=True), Fetching(led, is_follower=False)
    append(led)
    led.appended()
    assert (follower.woken, consumer.woken) == (1, 0)
    leading.followed(led, 2, 4, 0, 4, 0)
    leading.followed(led, 3, 4, 0, 4, 0)
    assert (follower.woken, consumer.woken) == (1, 1)
    led.waiting_fetches.unpark(follower)
    led.resign()
    assert (follower.woken, consumer.woken) == (1, 2)
