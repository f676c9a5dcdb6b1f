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


class WaitingProduces(deque[WaitingProduce]):
    """The appends of one partition, in the order in which they began to wait.

    That is the order of their offsets, but for duplicates: a recognised duplicate waits for the last offset of the
    original, so it can stand behind a younger append. It never waits for longer than that.
    """

    __slots__ = ()

    def settle(self, partition: object, safe_end: int, term: int | None, error_code: int) -> None:
        """Answers the appends whose last offset is below `safe_end`.

        Those of `term`, in which this broker leads now, are answered with `error_code` (0: no error), all others with
        NotLeaderOrFollower. None: this broker does not lead.
        """
        while self and self[0].last_offset < safe_end:
            append = self.popleft()
            append.answer(error_code if append.term == term else NotLeaderOrFollower.code, partition)

    def end(self, partition: object, error_code: int, safe_end: int = 0, safe_code: int = 0) -> None:
        """Answers all appends with `error_code`; those whose last offset is below `safe_end` with `safe_code`.

        The partition does not hold this queue any more: an answer may let another append begin to wait.
        """
        for append in self:
            append.answer(safe_code if append.last_offset < safe_end else error_code, partition)
