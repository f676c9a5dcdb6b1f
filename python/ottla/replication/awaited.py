"""Short waits after a leader change: a new leader hardly lets the Fetches of its followers wait.

A follower has one Fetch at a leader for all that it follows there. While that waits for something new, for up to
`replica.fetch.wait.max.ms`, the follower cannot ask for the partitions that this broker has just begun to lead; and
writes with acks=all wait for the follower. So for a while after each change of leaders, Fetches of the followers that
are concerned hardly wait. (In Kafka they wait as always, and the writes with them.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol

#: How long a follower may take to hear from the controller what its leader has heard.
AWAITED_S: Final = 1.0
#: How long its Fetches wait meanwhile.
WAIT_MS: Final = 25


class Waiting(Protocol):
    """A Fetch that waits."""

    def expire(self) -> None:
        """Answers it with what there is."""


class Awaited:
    """The Fetches of followers that wait, and the followers that are about to ask for more."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[int, float] = {}
        self._waiting: dict[int, set[Waiting]] = {}

    def expect(self, followers: Iterable[int]) -> None:
        """These are about to ask for partitions that this broker leads since a moment ago: ends their waits."""
        now = self._clock()
        self._until = {follower: until for follower, until in self._until.items() if until > now}
        for follower in followers:
            self._until[follower] = now + AWAITED_S
            for waiting in tuple(self._waiting.get(follower, ())):
                waiting.expire()

    def park(self, follower: int, waiting: Waiting, wait_ms: int) -> int:
        """Notes a Fetch that waits. Returns for how long it may: at most the `wait_ms` that it asks for."""
        self._waiting.setdefault(follower, set()).add(waiting)
        return min(wait_ms, WAIT_MS) if self.is_awaited(follower) else wait_ms

    def is_awaited(self, follower: int) -> bool:
        """Its Fetches hardly wait now."""
        return self._until.get(follower, 0.0) > self._clock()

    def unpark(self, follower: int, waiting: Waiting) -> None:
        """It waits no more."""
        several = self._waiting.get(follower)
        if several is not None:
            several.discard(waiting)
            if not several:
                del self._waiting[follower]
