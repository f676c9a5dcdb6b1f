"""Produces with acks=all whose lease ended between the append and the answer.

Under a lease an append is acknowledged when it is written, since no other replica is in sync. A follower that comes
into the ISR in that moment has to have the append, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import RequestTimedOut
from ottla.replication.appends import when_safe

if TYPE_CHECKING:
    from ottla._core import Unacknowledged
    from ottla.replication.delayed import Deadlines
    from ottla.replication.replicas import Replicas


class LeasedProduce:
    """One of them. The hub's request is answered once: when its append is safe, or at its deadline."""

    __slots__ = ("_unacknowledged", "done")
    purgatory = "Produce"

    def __init__(self, unacknowledged: Unacknowledged) -> None:
        self._unacknowledged = unacknowledged
        self.done = False

    def begin(self, replicas: Replicas, deadlines: Deadlines) -> None:
        """Waits until the append is safe. It is in the log."""
        append = self._unacknowledged
        when_safe(replicas, append.owner, append.info, self._answer)
        if not self.done:
            deadlines.add(append.timeout_ms, self)

    def expire(self) -> None:
        self._answer(RequestTimedOut.code)

    def _answer(self, error: int) -> None:
        if not self.done:
            self.done = True
            self._unacknowledged.answer(error)
