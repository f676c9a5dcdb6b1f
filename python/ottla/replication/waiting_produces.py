"""The appends to one partition whose answers wait until the records are safe (Kafka's DelayedProduce, as a partition
sees it).

Nothing here knows the partition: it says how far its log is safe, and which answer that is worth.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ottla.errors import NotLeaderOrFollower
from ottla.net.guard import failed


@dataclass(slots=True)
class WaitingProduce:
    """An append whose answer waits for its last offset to be safe, and the term in which the append was made."""

    last_offset: int
    term: int
    done: Callable[[int], None]

    def answer(self, error_code: int, partition: object) -> None:
        """Calls `done`. If that raises, the mistake is logged with the partition's name, and others are served on."""
        try:
            self.done(error_code)
        except BaseException as error:
            failed(f"an acks=all that waited for {partition}", error)


class WaitingProduces:
    """The appends of one partition, in the order in which they began to wait.

    That is the order of their offsets, but for duplicates: a recognised duplicate waits for the last offset of the
    original, so it can stand behind a younger append. It never waits for longer than that.

    to_be_safe: Appends with acks=all.
    to_be_flushed: Appends that wait for a flush that is due, and for nothing else.
    """

    __slots__ = ("to_be_flushed", "to_be_safe")

    def __init__(self) -> None:
        self.to_be_safe: deque[WaitingProduce] = deque()
        self.to_be_flushed: deque[WaitingProduce] = deque()

    def __bool__(self) -> bool:
        return bool(self.to_be_safe) or bool(self.to_be_flushed)

    def settle(self, partition: object, safe_end: int, term: int | None, error_code: int, settled_end: int = 0) -> None:
        """Answers the appends whose last offset is below `safe_end`, and those to be flushed below `settled_end`.

        Those of `term`, in which this broker leads now, are answered with `error_code` (0: no error), or without an
        error if nothing but the flush counts; all others with NotLeaderOrFollower. None: this broker does not lead.
        """
        for queue, end, code in (self.to_be_safe, safe_end, error_code), (self.to_be_flushed, settled_end, 0):
            while queue and queue[0].last_offset < end:
                append = queue.popleft()
                append.answer(code if append.term == term else NotLeaderOrFollower.code, partition)

    def end(self, partition: object, error_code: int, safe_end: int = 0, safe_code: int = 0) -> None:
        """Answers all appends with `error_code`; those to be safe whose last offset is below `safe_end` with
        `safe_code`.

        The partition does not hold this object any more: an answer may let another append begin to wait.
        """
        for append in self.to_be_safe:
            append.answer(safe_code if append.last_offset < safe_end else error_code, partition)
        for append in self.to_be_flushed:
            append.answer(error_code, partition)
