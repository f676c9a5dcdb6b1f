"""Counting in the broker's thread what another thread waits for."""

from __future__ import annotations

import threading
from typing import Final

#: How long a wait takes at most, unless it says so.
PATIENCE_S: Final = 60.0


class Hits:
    """A number that grows, and that may be waited for."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._count = 0

    @property
    def count(self) -> int:
        return self._count

    def add(self) -> None:
        with self._condition:
            self._count += 1
            self._condition.notify_all()

    def wait(self, count: int, timeout_s: float, what: str) -> None:
        """Returns when there are `count`. Raises TimeoutError, which says `what` was waited for."""
        with self._condition:
            if not self._condition.wait_for(lambda: self._count >= count, timeout_s):
                raise TimeoutError(f"{what}: {self._count} of {count} in {timeout_s} s")
