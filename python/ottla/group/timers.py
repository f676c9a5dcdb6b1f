"""A heap of timers. One that is not wanted any more is not searched for: it is dropped when it comes up, or when half
of the heap is like it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from ottla.group.members import NEVER

Subject = TypeVar("Subject")

#: Fewer are not worth a look.
SWEEP_MIN = 64


class Timers(Generic[Subject]):
    """When what is due, in milliseconds of the owner's clock; those of one moment in the order of their start.

    `is_wanted(at_ms, subject)` is the owner's word on whether a timer still means anything.
    """

    def __init__(self, is_wanted: Callable[[int, Subject], bool]) -> None:
        self._heap: list[tuple[int, int, Subject]] = []
        self._count = 0
        self._is_wanted = is_wanted
        self._sweep_at = SWEEP_MIN

    def __len__(self) -> int:
        return len(self._heap)

    def start(self, at_ms: int, subject: Subject) -> None:
        self._count += 1
        heapq.heappush(self._heap, (at_ms, self._count, subject))
        if len(self._heap) > self._sweep_at:
            self._sweep()

    def _sweep(self) -> None:
        """A rebalance may be given weeks, and be over in a second: its timer must not stay for weeks."""
        self._heap = [timer for timer in self._heap if self._is_wanted(timer[0], timer[2])]
        heapq.heapify(self._heap)
        self._sweep_at = max(SWEEP_MIN, 2 * len(self._heap))

    @property
    def next_ms(self) -> int:
        return self._heap[0][0] if self._heap else NEVER

    def due(self, now_ms: int) -> Iterator[Subject]:
        """Takes out what is due and wanted. More may be started, and all cleared, meanwhile."""
        while self._heap and self._heap[0][0] <= now_ms:
            at_ms, _, subject = heapq.heappop(self._heap)
            if self._is_wanted(at_ms, subject):
                yield subject

    def clear(self) -> None:
        self._heap.clear()
