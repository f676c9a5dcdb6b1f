"""Timers of groups: what is due comes in order, and what is not wanted any more does not stay."""

import random

from ottla.group.members import NEVER
from ottla.group.timers import SWEEP_MIN, Timers


def test_what_is_due_comes_in_the_order_of_time_and_start() -> None:
    timers: Timers[str] = Timers(lambda at_ms, subject: subject != "unwanted")
    for at_ms, subject in ((5, "c"), (3, "a"), (4, "unwanted"), (3, "b"), (9, "d")):
        timers.start(at_ms, subject)
    assert (timers.next_ms, list(timers.due(2))) == (3, [])
    assert list(timers.due(5)) == ["a", "b", "c"]
    assert timers.next_ms == 9
    timers.clear()
    assert (timers.next_ms, len(timers)) == (NEVER, 0)


def test_one_that_is_started_or_given_up_meanwhile() -> None:
    unwanted: set[int] = set()
    timers: Timers[int] = Timers(lambda at_ms, subject: subject not in unwanted)
    for number in (1, 2, 3):
        timers.start(number, number)
    came = []
    for number in timers.due(3):
        came.append(number)
        if number == 1:
            timers.start(2, 20)
            unwanted.add(3)
    assert came == [1, 2, 20]


def test_what_nobody_wants_does_not_stay_until_its_time() -> None:
    wanted = list(range(100))
    timers: Timers[int] = Timers(lambda at_ms, subject: subject in wanted)
    chance = random.Random(1)
    for number in range(20_000):
        if number >= 100:
            wanted[chance.randrange(100)] = number
        timers.start(NEVER - number, number)
        assert len(timers) <= max(SWEEP_MIN, 2 * 100) + 1
    assert sorted(timers.due(NEVER)) == sorted(wanted)
