"""Who is woken of the requests that wait for a partition."""

import pytest

from ottla.replication.waiting_fetches import NOBODY, WaitingFetches

NAME = "t-0"


class Request:
    """A request that waits, and what it heard."""

    def __init__(self, waiting: WaitingFetches[str], *, stops: bool = False) -> None:
        self.heard: list[str] = []
        self._waiting = waiting
        self._stops = stops

    def advanced(self, partition: str) -> None:
        self.heard.append(partition)
        if self._stops:
            self._waiting.unpark(self)

    def expire(self) -> None:
        self.heard.append("expired")


class Broken(Request):
    def advanced(self, partition: str) -> None:
        super().advanced(partition)
        raise ValueError("a mistake")

    def expire(self) -> None:
        super().expire()
        raise ValueError("a mistake")


@pytest.fixture
def waiting() -> WaitingFetches[str]:
    return WaitingFetches()


def test_each_kind_is_woken_by_what_it_waits_for(waiting: WaitingFetches[str]) -> None:
    consumer, follower, deletion = Request(waiting), Request(waiting), Request(waiting)
    assert not waiting.has_fetches
    waiting.park_deletion(deletion)
    assert not waiting.has_fetches
    waiting.park(consumer, is_follower=False)
    waiting.park(follower, is_follower=True)
    assert waiting.has_fetches
    waiting.wake_consumers(NAME)
    assert (consumer.heard, follower.heard, deletion.heard) == ([NAME], [], [])
    waiting.wake_followers(NAME)
    assert (consumer.heard, follower.heard, deletion.heard) == ([NAME], [NAME], [])
    waiting.wake_deletions(NAME)
    assert (consumer.heard, follower.heard, deletion.heard) == ([NAME], [NAME], [NAME])
    for request in (consumer, follower, deletion, deletion):
        waiting.unpark(request)
    waiting.release(NAME)
    assert (consumer.heard, follower.heard, deletion.heard) == ([NAME], [NAME], [NAME])


def test_one_that_stops_or_fails_keeps_nobody_from_being_woken(waiting: WaitingFetches[str]) -> None:
    requests = [Request(waiting, stops=True), Broken(waiting), Request(waiting)]
    for request in requests:
        waiting.park(request, is_follower=False)
    waiting.wake_consumers(NAME)
    waiting.wake_consumers(NAME)
    assert [request.heard for request in requests] == [[NAME], [NAME, NAME], [NAME, NAME]]


def test_all_are_released(waiting: WaitingFetches[str]) -> None:
    requests = [Broken(waiting), Request(waiting), Request(waiting)]
    waiting.park(requests[0], is_follower=False)
    waiting.park(requests[1], is_follower=True)
    waiting.park_deletion(requests[2])
    waiting.release(NAME)
    assert [request.heard for request in requests] == [["expired"]] * 3


def test_nobody_waits_in_what_all_partitions_share(waiting: WaitingFetches[str]) -> None:
    request = Request(waiting)
    with pytest.raises(TypeError):
        NOBODY.park(request, is_follower=False)
    with pytest.raises(TypeError):
        NOBODY.park_deletion(request)
    NOBODY.unpark(request)
    NOBODY.release(NAME)
    assert (NOBODY.has_fetches, request.heard) == (False, [])
