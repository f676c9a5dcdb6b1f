"""Back-off of failing replicas: how long those that fail whenever they are used wait before they are used again.

A broker whose disk is full refuses to lead, and does not refuse to be without a leader, which needs no disk. Taken at
its word it would be elected and fail again at once, each time with a new leader epoch. So replicas of a broker that
failed soon after they were used again wait: a second, then twice as long each time.
"""

from __future__ import annotations

from typing import Final, NamedTuple

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 30.0
SOON_S: Final = 10.0
"""A failure so long after replicas were used again is one of its own."""


class _Used(NamedTuple):
    """When replicas of a broker were used again, or will be, and how long they waited for that."""

    at: float
    wait_s: float


class Relapses:
    """For each broker, when its replicas were used again and how long they had waited. Times are those of one clock, in
    seconds.
    """

    def __init__(self) -> None:
        self._used: dict[int, _Used] = {}

    def failed(self, broker: int, now: float) -> None:
        """Replicas of a broker cannot be used."""
        used = self._used.get(broker)
        if used is None:
            return
        if now - used.at < SOON_S:
            self._used[broker] = _Used(used.at, min(max(FIRST_WAIT_S, 2 * used.wait_s), LONGEST_WAIT_S))
        else:
            del self._used[broker]

    def restored(self, broker: int, now: float) -> float:
        """Replicas of a broker can be used. Returns the seconds after which they are to be."""
        used = self._used.get(broker)
        wait_s = 0.0 if used is None else used.wait_s
        self._used[broker] = _Used(now + wait_s, wait_s)
        return wait_s

    def forget(self, broker: int) -> None:
        """The broker is gone; another process knows another disk."""
        self._used.pop(broker, None)
