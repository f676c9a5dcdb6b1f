"""The wall clock of a broker inside a program, which may jump."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.embedded.disk import Disk

#: A clock may be so many seconds ahead or behind: 50 years.
AHEAD_S_MAX: Final = 50 * 365 * 86_400


class Clock:
    """The wall clock of one broker, in all of its lives. Logs have it (times of appends, the check of timestamps,
    retention, compaction, producers that are forgotten), groups (committed offsets and their retention) and
    transactions (timeouts).

    The clock that goes on evenly is another one, and does not jump: sessions of members and connections, delays and
    quotas go by that. So it is on a machine.
    """

    def __init__(self, disk: Disk, check: Callable[[], None]) -> None:
        self._disk = disk
        self._check = check
        self._lock = threading.Lock()
        self._ahead_ms = 0

    def __repr__(self) -> str:
        return f"<clock, {self.ahead:g} s ahead>"

    @property
    def ahead(self) -> float:
        """How far it is ahead of this process's clock, in seconds; negative if it is behind."""
        return self._ahead_ms / 1000

    @property
    def now(self) -> float:
        """Seconds since 1970, as the broker knows them."""
        return time.time() + self.ahead

    def jump(self, seconds: float) -> None:
        """Has it jump, forwards or, with a negative number, backwards. What is due is seen when the broker looks the
        next time: `log.retention.check.interval.ms` and its like say when.

        Raises:
            ValueError: no number, or more than 50 years from this process's clock. NotRunning: in a forked process.
        """
        self._check()
        with self._lock:
            ahead = self.ahead + seconds
            if not math.isfinite(ahead) or abs(ahead) > AHEAD_S_MAX:
                raise ValueError(f"a jump of {seconds} s: a clock is at most 50 years from that of this process")
            self._set(round(ahead * 1000))

    def reset(self) -> None:
        """It is this process's clock again."""
        with self._lock:
            self._set(0)

    def now_ms(self) -> int:
        """Milliseconds since 1970, for the parts of the broker that are not logs."""
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def _set(self, ahead_ms: int) -> None:
        self._ahead_ms = ahead_ms
        self._disk.set_clock_ahead_ms(ahead_ms)
