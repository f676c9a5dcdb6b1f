"""A heap of timers. One that is not wanted any more stays in it until it comes up: its owner tells by what it knows."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

from ottla.group.members import NEVER

Subject = TypeVar("Subject")


class Timers(Generic[Subject]):
    """When what is due, in milliseconds of the owner's clock; those of one moment in the order of their start."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Subject]] = []
        self._count = 0

    def start(self, at_ms: int, subject: Subject) -> None:
        self._count += 1
        heapq.heappush(self._heap, (at_ms, self._count, subject))

    @property
    def next_ms(self) -> int:
        return self._heap[0][0] if self._heap else NEVER

    def due(self, now_ms: int) -> Iterator[tuple[int, Subject]]:
        """Takes out what is due, with its time. More may be started, and all cleared, meanwhile."""
        while self._heap and self._heap[0][0] <= now_ms:
            at_ms, _, subject = heapq.heappop(self._heap)
            yield at_ms, subject

    def clear(self) -> None:
        self._heap.clear()
