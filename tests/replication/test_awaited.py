"""For how long Fetches of followers wait while their leader waits for them."""

from ottla.replication.awaited import AWAITED_S, WAIT_MS, Awaited


class Fetch:
    def __init__(self, awaited: Awaited) -> None:
        self.awaited = awaited
        self.is_answered = False

    def expire(self) -> None:
        self.is_answered = True
        self.awaited.unpark(2, self)


def test_those_that_are_expected_hardly_wait_for_a_while() -> None:
    now = 100.0
    awaited = Awaited(lambda: now)
    one, other, stranger = Fetch(awaited), Fetch(awaited), Fetch(awaited)
    assert [awaited.park(2, one, 500), awaited.park(2, other, 500), awaited.park(3, stranger, 500)] == [500] * 3
    awaited.unpark(2, other)
    awaited.expect([2, 4])
    assert [one.is_answered, other.is_answered, stranger.is_answered] == [True, False, False]
    assert awaited.park(2, one, 500) == WAIT_MS
    assert awaited.park(2, other, 5) == 5
    assert awaited.park(3, stranger, 500) == 500
    now += AWAITED_S
    assert awaited.park(2, one, 500) == 500
    for fetch in (one, other, one):
        awaited.unpark(2, fetch)
    awaited.unpark(3, stranger)
    awaited.expect([4])
    assert (awaited._waiting, set(awaited._until)) == ({}, {4})
