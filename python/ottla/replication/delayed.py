"""The purgatory: requests that wait (fetches for enough bytes, produces for the high watermark or the disk), and the
deadlines that they all have.

Kafka's keeps a timer wheel and watcher lists per key with their own locks. One loop needs neither: an
operation registers with the partitions it waits for, its predicate is checked once more after that (so no wake-up is
lost), and one heap with one task serves every deadline.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import trio

from ottla.net.guard import failed


class Operation(Protocol):
    """Something that completes exactly once: by its own means, or by `expire` at its deadline."""

    done: bool

    def expire(self) -> None: ...

    # It may have `purgatory`: among which waiting requests metrics count it, by Kafka's name.


class Deadlines:
    """A heap of (time, operation) and the one task that serves it. Completed operations are dropped lazily: from its
    head, and now and then from everywhere.
    """

    def __init__(self, clock: Callable[[], float] = trio.current_time) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Operation]] = []
        self._count = 0
        self._sleeper: trio.CancelScope | None = None

    def __len__(self) -> int:
        return sum(not operation.done for _, _, operation in self._heap)

    def purgatories(self) -> Counter[str]:
        """How many of each kind wait."""
        return Counter(getattr(operation, "purgatory", "other") for _, _, operation in self._heap if not operation.done)

    def add(self, timeout_ms: int, operation: Operation) -> None:
        """Calls `operation.expire()` in `timeout_ms`, unless it is done by then."""
        at = self._clock() + timeout_ms / 1000
        self._count += 1
        heap = self._heap
        # Two go for each that comes. Left to the next deadline, half a second's fetches would all go at once, in half a
        # millisecond in which nobody is served.
        for _ in range(2):
            if heap and heap[0][2].done:
                heapq.heappop(heap)
        heapq.heappush(heap, (at, self._count, operation))
        # Only an earlier head needs the sleeper's attention; deadlines mostly come in rising order.
        if self._sleeper is not None and at < self._sleeper.deadline:
            self._sleeper.deadline = at
        if self._count & 0xFFF == 0:
            self._heap = [entry for entry in self._heap if not entry[2].done]
            heapq.heapify(self._heap)

    def expire_due(self) -> float:
        """Expires what is due; returns the time of the next deadline, or infinity."""
        now = self._clock()
        while self._heap and (self._heap[0][0] <= now or self._heap[0][2].done):
            operation = heapq.heappop(self._heap)[2]
            if not operation.done:
                try:
                    operation.expire()
                except BaseException as error:
                    # One request, or the timers of one group: all others have deadlines too.
                    failed(f"the deadline of {type(operation).__name__}", error)
        return self._heap[0][0] if self._heap else float("inf")

    async def run(self) -> None:
        while True:
            with trio.CancelScope(deadline=self.expire_due()) as self._sleeper:
                await trio.sleep_forever()
