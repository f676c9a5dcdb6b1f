"""A leader that is left alone in sync: the high watermark waits for the disk."""

import pytest

from ottla.errors import NotLeaderOrFollower
from ottla.replication import leading
from ottla.replication.in_sync import DISK_HAS_IT, Proposal, left_alone
from ottla.replication.partition import Partition
from ottla.replication.roles import PartitionState
from tests.replication.one_partition import LAG_MS, ME, Fetching, append, is_flushed, leave_alone, state


def test_who_is_left_alone_waits_for_what_the_log_held_then() -> None:
    assert left_alone(None, end_offset=5, flushed_offset=3) == 5
    assert left_alone(5, end_offset=9, flushed_offset=4) == 5
    assert left_alone(5, end_offset=9, flushed_offset=5) == DISK_HAS_IT
    assert left_alone(None, end_offset=5, flushed_offset=5) == DISK_HAS_IT


def test_a_leader_that_is_left_alone_goes_on_when_the_disk_has_its_log(
    led: Partition, flushes: list[Partition]
) -> None:
    """Only the memory of this one has what the others had, and they may be gone for good."""
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


def test_what_is_appended_where_this_broker_leads_no_more_fails_at_once(led: Partition) -> None:
    answers: list[int] = []
    led.resign()
    assert not led.wait_durable(2, answers.append)
    assert answers == [NotLeaderOrFollower.code]
