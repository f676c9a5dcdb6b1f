"""A partition's roles and who waits for it, on a real log."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from ottla import _core
from ottla.errors import FencedLeaderEpoch, NotLeaderOrFollower, StorageError, UnknownLeaderEpoch
from ottla.replication import leading
from ottla.replication.in_sync import DISK_HAS_IT, Proposal, left_alone
from ottla.replication.lease import Lease
from ottla.replication.partition import Partition
from ottla.replication.readers import Reader
from ottla.replication.roles import PartitionState, Role

ME = 1
LAG_MS = 1_000


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    directory = _core.LogDirectory.open(tmp_path)
    (log,) = directory.create("t", [0], _core.LogConfig())
    yield Partition("t", 0, ME, log)
    directory.close(clean=True)


def state(epoch: int, leader: int = ME, replicas: tuple[int, ...] = (ME,)) -> PartitionState:
    return PartitionState(1, leader, epoch, replicas, replicas, 0)


def append(partition: Partition) -> int:
    builder = _core.BatchBuilder()
    builder.append(1, None, b"v")
    return partition.log.append_bytes(builder.finish(), partition.leader_epoch).last_offset


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


class Deletion:
    def __init__(self, partition: Partition) -> None:
        self.seen: list[int] = []
        partition.park_deletion(self)

    def advanced(self, partition: Partition) -> None:
        self.seen.append(leading.low_watermark(partition, {ME, 2}))

    def expire(self) -> None:
        raise AssertionError("there is no deadline here")


def test_the_low_watermark_is_the_least_start_of_the_replicas_that_are_alive(partition: Partition) -> None:
    partition.apply(state(0, replicas=(ME, 2, 3)))
    for _ in range(5):
        append(partition)
    partition.log.high_watermark = 5
    partition.log.set_start_offset(4)
    assert leading.low_watermark(partition, {ME}) == 4
    assert leading.low_watermark(partition, {ME, 2}) == -1, "a replica that said nothing may have everything"
    deletion = Deletion(partition)
    for follower, start in ((2, 3), (3, 1), (2, 7)):
        assert leading.followed(partition, follower, 5, start, 5, 0)
    assert deletion.seen == [3, 3, 4]
    assert leading.low_watermark(partition, {ME, 2, 3}) == 1
    partition.resign()
    assert len(deletion.seen) == 4, "who waits must see that this is no leader any more"


# --- followers ---


@pytest.fixture
def proposals() -> list[Proposal]:
    return []


@pytest.fixture
def led(tmp_path: Path, proposals: list[Proposal]) -> Iterator[Partition]:
    """A partition of three replicas that are all in sync, with three records that none but the leader has."""
    directory = _core.LogDirectory.open(tmp_path)
    (log,) = directory.create("t", [0], _core.LogConfig())
    partition = Partition("t", 0, ME, log, lambda _, proposal: proposals.append(proposal))
    partition.apply(state(0, replicas=(ME, 2, 3)))
    for _ in range(3):
        append(partition)
    partition.appended()
    yield partition
    directory.close(clean=True)


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
    assert {reader: led.bound(reader) for reader in Reader} == {
        Reader.REPLICA: 5,
        Reader.CONSUMER: 4,
        Reader.COMMITTED: 3,
    }


def test_a_broker_without_the_partition_is_no_follower(led: Partition) -> None:
    assert not leading.followed(led, 9, 3, 0, 3, 0)


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


def test_a_follower_that_lags_leaves_the_isr_when_the_controller_says_so(
    led: Partition, proposals: list[Proposal]
) -> None:
    leading.followed(led, 2, 3, 0, 3, 100)
    leading.look_at_followers(led, now_ms=1_000, lag_max_ms=1_000)
    assert proposals == [], "the follower has the whole time"
    leading.look_at_followers(led, now_ms=1_001, lag_max_ms=1_000)
    assert proposals == [Proposal(0, (ME, 2), 0)]
    assert led.log.high_watermark == 0, "until the change is made, the follower counts"
    leading.look_at_followers(led, now_ms=2_000, lag_max_ms=1_000)
    assert len(proposals) == 1, "one change is under way at a time"
    assert not leading.isr_changed(led, 0, (ME, 2), 0)
    assert leading.isr_changed(led, 0, (ME, 2), 1)
    assert (led.log.high_watermark, led.isr) == (3, (ME, 2))


def is_flushed(partition: Partition) -> None:
    """The flush that was asked for has been done."""
    partition.log.flush()
    partition.flushed()


def leave_alone(led: Partition) -> None:
    """The followers lag behind, and the leader is alone in sync since; the disk has the log."""
    leading.look_at_followers(led, now_ms=1_001, lag_max_ms=1_000)
    leading.isr_changed(led, 0, (ME,), 1)
    is_flushed(led)


@pytest.fixture
def flushes(led: Partition) -> list[Partition]:
    """Who asked for a flush."""
    asked: list[Partition] = []
    led._flush = asked.append
    return asked


def test_who_is_left_alone_waits_for_what_the_log_held_then() -> None:
    assert left_alone(None, end_offset=5, flushed_offset=3) == 5
    assert left_alone(5, end_offset=9, flushed_offset=4) == 5
    assert left_alone(5, end_offset=9, flushed_offset=5) == DISK_HAS_IT
    assert left_alone(None, end_offset=5, flushed_offset=5) == DISK_HAS_IT


def test_a_leader_that_is_left_alone_goes_on_when_the_disk_has_its_log(
    led: Partition, flushes: list[Partition]
) -> None:
    """What the others had is in this one's memory only, and they may be gone for good."""
    answers: list[int] = []
    consumer = Fetching(led, is_follower=False)
    assert not led.wait_durable(2, answers.append)
    leading.look_at_followers(led, now_ms=1_001, lag_max_ms=1_000)
    assert flushes == []
    leading.isr_changed(led, 0, (ME,), 1)
    assert flushes == [led]
    append(led)
    led.appended()
    assert (led.log.high_watermark, led.is_alone, answers, consumer.woken) == (0, False, [], 0)
    terms = led.terms()
    assert terms is not None
    assert not terms.is_alone
    is_flushed(led)
    assert (led.log.high_watermark, led.is_alone, answers, consumer.woken) == (4, True, [0], 1)
    last = append(led)
    led.appended()
    assert led.log.high_watermark == 5, "from then on it is as if no other replica were assigned"
    assert flushes == [led]
    assert led.wait_durable(last, answers.append), "the caller has it flushed"
    assert answers == [0]
    is_flushed(led)
    assert answers == [0, 0]


def test_a_new_leader_that_is_alone_in_sync_begins_from_the_disk(led: Partition, flushes: list[Partition]) -> None:
    led.apply(PartitionState(1, ME, 2, (ME,), (ME, 2, 3), 1))
    assert (flushes, led.log.high_watermark) == ([led], 0)
    is_flushed(led)
    assert led.log.high_watermark == 3
    led.apply(PartitionState(1, ME, 3, (ME,), (ME, 2, 3), 1))
    append(led)
    led.appended()
    assert (flushes, led.log.high_watermark) == ([led], 4), "it was alone before"


def test_a_leader_whose_other_replicas_are_not_assigned_any_more(led: Partition, flushes: list[Partition]) -> None:
    answers: list[int] = []
    led.wait_durable(2, answers.append)
    led.apply(state(1))
    assert (flushes, led.log.high_watermark, answers) == ([led], 0, [])
    is_flushed(led)
    assert (led.log.high_watermark, answers) == (3, [0])


def test_a_leader_without_other_replicas_does_not_wait(led: Partition, flushes: list[Partition]) -> None:
    led.apply(state(2))
    assert (flushes, led.log.high_watermark, led.is_alone) == ([], 3, True)


def test_a_leader_that_is_left_alone_without_asking_the_disk(led: Partition, flushes: list[Partition]) -> None:
    led.change(flush_on_acks_all=False)
    leading.look_at_followers(led, now_ms=1_001, lag_max_ms=1_000)
    leading.isr_changed(led, 0, (ME,), 1)
    assert (flushes, led.log.high_watermark, led.is_alone) == ([], 3, True)


def test_a_follower_that_comes_before_the_disk_is_waited_for(led: Partition, flushes: list[Partition]) -> None:
    leading.look_at_followers(led, now_ms=1_001, lag_max_ms=1_000)
    leading.isr_changed(led, 0, (ME,), 1)
    leading.followed(led, 2, 2, 0, 3, 2_000)
    assert led.log.high_watermark == 2, "both have it"
    is_flushed(led)
    assert led.log.high_watermark == 2


def test_a_flush_that_fails_is_asked_for_again(led: Partition, flushes: list[Partition]) -> None:
    leading.look_at_followers(led, now_ms=1_001, lag_max_ms=1_000)
    leading.isr_changed(led, 0, (ME,), 1)
    led.flush_failed()
    assert (flushes, led.log.high_watermark) == ([led], 0)
    leading.look_at_followers(led, now_ms=2_000, lag_max_ms=1_000)
    assert (flushes, led.log.high_watermark) == ([led, led], 0)
    is_flushed(led)
    assert led.log.high_watermark == 3


@pytest.mark.parametrize("is_refused", [True, False], ids=["refused", "withdrawn"])
def test_who_waits_for_a_follower_that_does_not_join_waits_for_the_disk(
    led: Partition, proposals: list[Proposal], flushes: list[Partition], is_refused: bool
) -> None:
    leave_alone(led)
    flushes.clear()
    leading.followed(led, 2, 3, 0, 3, 2_000)
    answers: list[int] = []
    last = append(led)
    led.appended()
    assert not led.wait_durable(last, answers.append), "the follower is to have it"
    if is_refused:
        assert leading.isr_refused(led, proposals[-1]) is not None
    else:
        leading.isr_not_changed(led, proposals[-1])
    assert (flushes, led.log.high_watermark, answers) == ([led], 3, [])
    leading.look_at_near(led, 2_001 + LAG_MS, LAG_MS)
    assert led.log.high_watermark == 3
    is_flushed(led)
    assert (led.log.high_watermark, answers) == (4, [0])


def test_a_follower_joins_with_all_that_is_committed(led: Partition, proposals: list[Proposal]) -> None:
    leave_alone(led)
    proposals.clear()
    leading.followed(led, 2, 2, 0, 3, 2_000)
    assert proposals == []
    leading.followed(led, 2, 3, 0, 3, 2_001)
    assert proposals == [Proposal(0, (ME, 2), 1)]
    append(led)
    led.appended()
    assert led.log.high_watermark == 3, "the follower counts from the proposal on"
    assert not led.is_alone


def test_a_follower_that_joins_counts_from_the_proposal_on(led: Partition) -> None:
    leave_alone(led)
    leading.followed(led, 2, 3, 0, 3, 2_000)
    append(led)
    # It does not come nearer, and yet may be in the ISR by now.
    leading.look_at_followers(led, now_ms=9_000, lag_max_ms=1_000)
    assert led.log.high_watermark == 3


def test_a_follower_joins_with_all_of_the_older_epochs(led: Partition, proposals: list[Proposal]) -> None:
    """KAFKA-7128: the records below the start of a leader's epoch may be committed though it has not heard of it."""
    state_of_two = PartitionState(1, ME, 1, (ME, 2), (ME, 2, 3), 1)
    led.apply(state_of_two)
    assert (led.log.high_watermark, led.leader_epoch_start) == (0, 3)
    leading.followed(led, 3, 2, 0, 3, 0)
    assert proposals == []
    leading.followed(led, 3, 3, 0, 3, 0)
    assert proposals == [Proposal(1, (ME, 2, 3), 1)]


class NativeLease:
    """In place of the hub's side of a lease."""

    def end(self) -> None: ...

    def advanced(self) -> None: ...

    def watch(self, is_watched: bool) -> None: ...


def test_a_lease_ends_before_an_expansion_is_proposed(led: Partition) -> None:
    """Else the hub moves the high watermark past a replica that the controller is just taking in."""
    leave_alone(led)
    assert led.in_sync is not None
    # It has all for long, and a lease was granted meanwhile.
    led.in_sync.followers[2].fetched(3, 0, 3, 1_000)
    led.in_sync.look(9_000, LAG_MS)
    terms = led.terms()
    assert terms is not None
    assert terms.is_alone
    led.leased(Lease(terms, cast("_core.Lease", NativeLease()), lambda lease: None))
    seen: list[bool] = []
    led.propose = lambda partition, proposal: seen.append(partition.lease is None)
    leading.want(led, led.in_sync.expansion(2, led.log.high_watermark))
    assert seen == [True]


def test_a_follower_that_is_near_is_waited_for_as_long_as_it_may_lag(led: Partition, proposals: list[Proposal]) -> None:
    """Else a leader that is written to all the time is always ahead of it."""
    leave_alone(led)
    append(led)
    led.appended()
    assert led.log.high_watermark == 4
    near: list[Partition] = []
    led.came_near = near.append
    leading.followed(led, 2, 3, 0, 3, 2_000)  # it had all when it was read, and the leader has one more now
    assert near == [led]
    append(led)
    led.appended()
    assert (led.log.high_watermark, led.is_alone) == (4, False)
    assert leading.look_at_near(led, now_ms=2_000 + LAG_MS, lag_max_ms=LAG_MS)
    assert (led.log.high_watermark, led.is_alone) == (4, False)
    leading.isr_not_changed(led, proposals[-1])
    assert not leading.look_at_near(led, now_ms=2_001 + LAG_MS, lag_max_ms=LAG_MS)
    assert (led.log.high_watermark, led.is_alone) == (5, True)


def test_a_follower_that_rests_is_waited_for_as_one_that_fetches(led: Partition, proposals: list[Proposal]) -> None:
    leave_alone(led)
    leading.followed(led, 2, 3, 0, 3, 2_000)
    leading.isr_not_changed(led, proposals[-1])
    assert not leading.look_at_near(led, now_ms=2_001 + LAG_MS, lag_max_ms=LAG_MS)
    near: list[Partition] = []
    led.came_near = near.append
    leading.caught_up(led, 2, 9_000)
    append(led)
    led.appended()
    assert (near, led.log.high_watermark) == ([led], 3)
    assert not leading.look_at_near(led, now_ms=9_001 + LAG_MS, lag_max_ms=LAG_MS)
    assert led.log.high_watermark == 4


def test_a_follower_that_rested_in_an_older_epoch_is_not_waited_for(led: Partition) -> None:
    """It stops, and is out of the ISR with the new epoch; its session still has the partition."""
    for follower in (2, 3):
        leading.followed(led, follower, 3, 0, 3, 1_000)
    near: list[Partition] = []
    led.came_near = near.append
    led.apply(msgspec.structs.replace(state(1, replicas=(ME, 2, 3)), isr=(ME, 2)), 2_000)
    leading.caught_up(led, 3, 1_900)
    append(led)
    led.appended()
    leading.followed(led, 2, 4, 0, 4, 2_100)
    assert (near, led.log.high_watermark) == ([], 4)


class Fetching:
    def __init__(self, partition: Partition, *, is_follower: bool) -> None:
        self.woken = 0
        partition.park(self, is_follower=is_follower)

    def advanced(self, partition: Partition) -> None:
        self.woken += 1

    def expire(self) -> None: ...


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


def test_a_follower_that_rests_joins_after_another_one(led: Partition, proposals: list[Proposal]) -> None:
    """It came while the other's way into the ISR was under way, and nothing is written that would wake it."""
    leave_alone(led)
    proposals.clear()
    leading.followed(led, 2, 3, 0, 3, 2_000)
    leading.followed(led, 3, 3, 0, 3, 2_000)
    assert proposals == [Proposal(0, (ME, 2), 1)]
    leading.look_at_followers(led, now_ms=2_100, lag_max_ms=1_000)
    assert len(proposals) == 1, "a change is under way"
    leading.isr_changed(led, 0, (ME, 2), 2)
    assert proposals[1:] == [Proposal(0, (ME, 2, 3), 2)]
    leading.isr_not_changed(led, proposals[1])
    assert len(proposals) == 2, "what was refused is not tried again at once"
    leading.look_at_followers(led, now_ms=2_300, lag_max_ms=1_000)
    assert proposals[2:] == [Proposal(0, (ME, 2, 3), 2)]
    leading.isr_not_changed(led, proposals[2])
    leading.look_at_followers(led, now_ms=9_000, lag_max_ms=1_000)
    assert len(proposals) == 3, "it may be dead by now"


def test_the_session_of_a_follower_that_rests_says_that_it_is_there(led: Partition, proposals: list[Proposal]) -> None:
    leave_alone(led)
    leading.followed(led, 2, 3, 0, 3, 2_000)
    leading.isr_not_changed(led, proposals[-1])

    class Resting(Fetching):
        def advanced(self, partition: Partition) -> None:
            leading.caught_up(partition, 2, 9_000)

    Resting(led, is_follower=True)
    proposals.clear()
    leading.look_at_followers(led, now_ms=9_001, lag_max_ms=1_000)
    assert proposals == [Proposal(0, (ME, 2), 1)]
