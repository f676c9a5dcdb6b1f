"""The followers as their leader knows them: values and given times alone."""

import pytest

from ottla.replication.in_sync import InSync, Proposal

ME, SECOND, THIRD = 1, 2, 3
LAG_MS = 30_000


def in_sync(*isr: int, version: int = 0) -> InSync:
    return InSync(ME, 0, (ME, SECOND, THIRD), isr, version, epoch_start=0, now_ms=0)


def near(known: InSync, follower: int, at_ms: int = 1_000) -> None:
    """The follower had all that there was a moment ago, ten records, and the leader has more since."""
    known.fetched(follower, 0, 0, 10, at_ms)
    known.fetched(follower, 10, 0, 20, at_ms + 1)
    assert known.high_watermark(20) == 10


@pytest.mark.parametrize("apart_ms", [10, 520, 5_000, LAG_MS // 2])
def test_a_follower_joins_though_it_is_far_away(apart_ms: int) -> None:
    """Each Fetch asks for what came since the one before, while a record is written every five milliseconds: when a
    Fetch says that the follower has all that there was at the one before, the next is as far away.
    """
    known = in_sync(ME)
    high_watermark, proposal, its_end = 1_000, None, 0
    for now in range(0, 10 * apart_ms, 5):
        end = 1_000 + now // 5
        if now % apart_ms == 0:
            known.fetched(SECOND, its_end, 0, end, now)
            its_end = end
            proposal = known.expansion(SECOND, high_watermark)
            if proposal is not None:
                break
        if now % 100 == 0:
            known.look(now, LAG_MS)
        high_watermark = max(high_watermark, known.high_watermark(end))
    assert proposal == Proposal(0, (ME, SECOND), 0)


def test_a_follower_is_waited_for_as_long_as_it_may_lag() -> None:
    known = in_sync(ME)
    near(known, SECOND, 1_000)
    assert known.look(1_000 + LAG_MS, LAG_MS)
    assert (known.high_watermark(20), known.is_alone) == (10, False)
    assert not known.look(1_001 + LAG_MS, LAG_MS)
    assert (known.high_watermark(20), known.is_alone) == (20, True)


def test_a_follower_that_was_taken_out_does_not_count_any_more() -> None:
    """It lagged, and had all when the change was made; it may be gone since."""
    known = in_sync(ME, SECOND)
    near(known, SECOND)
    assert known.changed(0, (ME,), 1)
    assert (known.high_watermark(20), known.is_alone) == (20, True)
    assert not known.look(1_002, LAG_MS)
    known.fetched(SECOND, 20, 0, 20, 1_003)
    assert known.expansion(SECOND, 20) == Proposal(0, (ME, SECOND), 1), "it lives"
    assert known.high_watermark(30) == 20


def test_a_follower_of_a_change_that_another_overtook_does_not_count_any_more() -> None:
    known = in_sync(ME)
    known.fetched(SECOND, 10, 0, 10, 1_000)
    assert known.expansion(SECOND, 10) is not None
    assert known.high_watermark(20) == 10
    assert known.changed(0, (ME, THIRD), 1)
    assert known.high_watermark(20) == -1, "the other has not fetched yet"
    assert known.changed(0, (ME,), 2)
    assert known.high_watermark(20) == 20


def test_a_follower_that_hangs_up_is_not_waited_for_until_it_fetches_again() -> None:
    known = in_sync(ME)
    near(known, SECOND)
    assert not known.went_away(THIRD)
    assert known.went_away(SECOND)
    assert (known.high_watermark(20), known.is_alone, known.look(1_002, LAG_MS)) == (20, True, False)
    assert not known.went_away(SECOND), "that is no news"
    known.fetched(SECOND, 20, 0, 30, 1_003)
    assert (known.high_watermark(30), known.look(1_004, LAG_MS)) == (20, True)


def test_who_is_in_sync_is_waited_for_though_it_hangs_up() -> None:
    """The controller says when it is not in sync any more; until then it may be elected."""
    known = in_sync(ME, SECOND)
    near(known, SECOND)
    assert not known.went_away(SECOND)
    known.look(1_002, LAG_MS, lambda replica: False)
    assert known.high_watermark(20) == 10


def test_a_follower_whose_broker_is_not_alive_is_not_waited_for() -> None:
    known = in_sync(ME)
    near(known, SECOND)
    assert known.look(1_002, LAG_MS, lambda replica: replica == SECOND)
    assert known.high_watermark(20) == 10
    assert not known.look(1_002, LAG_MS, lambda replica: replica != SECOND)
    assert known.high_watermark(20) == 20
    assert not known.look(1_003, LAG_MS), "it has to fetch again"


def test_a_follower_that_is_refused_counts_when_it_may_be_proposed_anew() -> None:
    """It is about to stop: whatever it fetches until then, writes do not wait for it."""
    known = in_sync(ME)
    known.fetched(SECOND, 10, 0, 10, 1_000)
    proposal = known.expansion(SECOND, 10)
    assert proposal is not None
    assert known.refused(proposal)
    near(known, THIRD)
    known.fetched(SECOND, 10, 0, 10, 1_002)
    assert (known.followers[SECOND].is_near, known.followers[THIRD].is_near) == (False, True)
    assert known.expansion(SECOND, 10) is None
    known.allow()
    assert not known.followers[SECOND].is_near, "it may have stopped meanwhile"
    known.fetched(SECOND, 10, 0, 10, 2_003)
    assert known.expansion(SECOND, 10) == proposal
