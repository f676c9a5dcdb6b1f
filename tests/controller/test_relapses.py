"""How long replicas wait that fail whenever they are used."""

from ottla.controller.relapses import LONGEST_WAIT_S, SOON_S, Relapses


def test_a_first_failure_costs_no_time() -> None:
    relapses = Relapses()
    relapses.failed(1, 0.0)
    assert relapses.restored(1, 0.1) == 0


def test_failures_that_follow_at_once_cost_more_and_more() -> None:
    relapses, now, waits = Relapses(), 0.0, []
    for _ in range(9):
        relapses.failed(1, now)
        waits.append(relapses.restored(1, now))
        now += waits[-1] + 0.001
    assert waits == [0, 1, 2, 4, 8, 16, LONGEST_WAIT_S, LONGEST_WAIT_S, LONGEST_WAIT_S]
    # Another broker has another disk, and so has the next process.
    relapses.failed(2, now)
    assert relapses.restored(2, now) == 0
    relapses.forget(1)
    relapses.failed(1, now)
    assert relapses.restored(1, now) == 0


def test_a_failure_much_later_is_another() -> None:
    relapses = Relapses()
    for now in (0.0, 0.1):
        relapses.failed(1, now)
        wait_s = relapses.restored(1, now)
    assert wait_s == 1
    later = 0.1 + wait_s + SOON_S
    relapses.failed(1, later)
    assert relapses.restored(1, later) == 0
