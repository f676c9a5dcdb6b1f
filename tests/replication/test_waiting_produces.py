"""Which answer an append gets that waits to be safe, and when."""

from ottla.errors import NotEnoughReplicasAfterAppend, NotLeaderOrFollower, StorageError
from ottla.replication.waiting_produces import WaitingProduce, WaitingProduces

TERM = 3
NAME = "t-0"


class Appends:
    """Appends that wait, and the answers that they got: (last offset, error code)."""

    def __init__(self, *last_offsets: int, term: int = TERM) -> None:
        self.queue = WaitingProduces()
        self.answers: list[tuple[int, int]] = []
        for last_offset in last_offsets:
            self.wait(last_offset, term)

    def wait(self, last_offset: int, term: int = TERM) -> None:
        append = WaitingProduce(last_offset, term, lambda code: self.answers.append((last_offset, code)))
        self.queue.to_be_safe.append(append)


def test_an_append_is_answered_once_its_last_offset_is_safe() -> None:
    appends = Appends(1, 4, 6)
    appends.queue.settle(NAME, 1, TERM, 0)
    assert appends.answers == []
    appends.queue.settle(NAME, 5, TERM, 0)
    appends.queue.settle(NAME, 5, TERM, 0)
    assert appends.answers == [(1, 0), (4, 0)]
    appends.queue.settle(NAME, 7, TERM, NotEnoughReplicasAfterAppend.code)
    assert appends.answers[2:] == [(6, NotEnoughReplicasAfterAppend.code)]
    assert not appends.queue


def test_an_append_of_an_older_term_is_not_acknowledged() -> None:
    appends = Appends(1, term=TERM - 1)
    appends.wait(2)
    appends.queue.settle(NAME, 3, TERM, 0)
    assert appends.answers == [(1, NotLeaderOrFollower.code), (2, 0)]


def test_nothing_is_acknowledged_by_a_broker_that_does_not_lead() -> None:
    appends = Appends(1)
    appends.queue.settle(NAME, 2, None, 0)
    assert appends.answers == [(1, NotLeaderOrFollower.code)]


def test_a_duplicate_behind_a_younger_append_waits_no_longer_than_that() -> None:
    appends = Appends(4, 1)
    appends.queue.settle(NAME, 3, TERM, 0)
    assert appends.answers == []
    appends.queue.settle(NAME, 5, TERM, 0)
    assert appends.answers == [(4, 0), (1, 0)]


def test_at_the_end_all_are_answered_those_that_are_safe_too() -> None:
    appends = Appends(4, 1, 5)
    appends.queue.end(NAME, StorageError.code, 4, 0)
    assert appends.answers == [(4, StorageError.code), (1, 0), (5, StorageError.code)]
    appends = Appends(0)
    appends.queue.end(NAME, NotLeaderOrFollower.code)
    assert appends.answers == [(0, NotLeaderOrFollower.code)], "nothing is safe unless that is said"


def test_an_append_that_begins_to_wait_while_others_are_answered() -> None:
    """The records of a coordinator: the answer to one lets it append the next."""
    appends = Appends()
    appends.queue.to_be_safe.append(WaitingProduce(1, TERM, lambda code: appends.wait(3)))
    appends.wait(2)
    appends.queue.settle(NAME, 3, TERM, 0)
    assert appends.answers == [(2, 0)]
    appends.queue.settle(NAME, 4, TERM, 0)
    assert appends.answers == [(2, 0), (3, 0)]


def test_an_append_that_waits_for_a_flush_alone() -> None:
    appends, told = Appends(4), list[int]()
    for offset in (4, 6):
        appends.queue.to_be_flushed.append(WaitingProduce(offset, TERM, told.append))
    appends.queue.settle(NAME, 0, TERM, NotEnoughReplicasAfterAppend.code, 5)
    assert (told, appends.answers) == ([0], [])
    appends.queue.end(NAME, StorageError.code, 9, 0)
    assert (told, appends.answers) == ([0, StorageError.code], [(4, 0)])
