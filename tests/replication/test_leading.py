"""The side of a leader: the ISR, and the high watermark that followers which come near hold back. On a real log."""

from typing import cast

import msgspec

from ottla import _core
from ottla.replication import leading
from ottla.replication.in_sync import InSync, Proposal
from ottla.replication.lease import Lease
from ottla.replication.partition import Partition
from ottla.replication.roles import PartitionState
from tests.replication.one_partition import LAG_MS, ME, Fetching, append, leave_alone, state


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


def test_a_broker_without_the_partition_is_no_follower(led: Partition) -> None:
    assert not leading.followed(led, 9, 3, 0, 3, 0)


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

    def allow(self, *_: object, **__: bool) -> None: ...

    def end(self) -> list[_core.Unacknowledged]:
        return []

    def advanced(self) -> None: ...

    def grown(self) -> None: ...

    def watch(self, is_watched: bool) -> None: ...


def test_a_lease_ends_before_a_follower_is_looked_at(partition: Partition) -> None:
    """Else the hub moves the high watermark between the look at what a follower has and the proposal."""
    partition.apply(state(0, replicas=(ME, 2, 3)))
    append(partition)
    assert leading.isr_changed(partition, 0, (ME, 2), 1)
    in_sync, terms = partition.in_sync, partition.terms()
    assert in_sync is not None
    assert terms is not None
    assert not terms.is_alone
    partition.leased(Lease("t", terms, cast("_core.Lease", NativeLease()), lambda lease: None, [].append))
    leading.followed(partition, 2, 1, 0, 1, 1_000)
    assert partition.lease is not None, "it is in sync already"
    seen: list[bool] = []

    class Looks(InSync):
        __slots__ = ()

        def expansion(self, follower: int, high_watermark: int) -> Proposal | None:
            seen.append(partition.lease is None)
            return super().expansion(follower, high_watermark)

    in_sync.__class__ = Looks
    leading.followed(partition, 3, 1, 0, 1, 1_001)
    assert seen == [True]


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
    led.leased(Lease(led.topic, terms, cast("_core.Lease", NativeLease()), lambda lease: None, [].append))
    seen: list[bool] = []
    led.owner.propose = lambda partition, proposal: seen.append(partition.lease is None)
    leading.want(led, led.in_sync.expansion(2, led.log.high_watermark))
    assert seen == [True]


def test_a_follower_that_is_near_is_waited_for_as_long_as_it_may_lag(led: Partition, proposals: list[Proposal]) -> None:
    """Else a leader that is written to all the time is always ahead of it."""
    leave_alone(led)
    append(led)
    led.appended()
    assert led.log.high_watermark == 4
    near: list[Partition] = []
    led.owner.came_near = near.append
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
    led.owner.came_near = near.append
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
    led.owner.came_near = near.append
    led.apply(msgspec.structs.replace(state(1, replicas=(ME, 2, 3)), isr=(ME, 2)), 2_000)
    leading.caught_up(led, 3, 1_900)
    append(led)
    led.appended()
    leading.followed(led, 2, 4, 0, 4, 2_100)
    assert (near, led.log.high_watermark) == ([], 4)


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
