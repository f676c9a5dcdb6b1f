"""Produces that were appended under a lease and wait for what the hub does not know.

Under a lease an append with acks=1 is acknowledged when it is written, and one with acks=all when other replicas have
it: the hub waits for them (`rust/direct/others.rs`). If the append makes a flush due (`flush.messages`), the answer
waits for the disk. Where the lease ends before the answer, the append waits on here: this broker may lead no more, or
have too few replicas in sync, or a follower has come into the ISR that has to have the append, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import RequestTimedOut
from ottla.kafka import ACKS_ALL
from ottla.replication.appends import when_flushed, when_safe

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
        wait = when_safe if append.acks == ACKS_ALL else when_flushed
        wait(replicas, append.owner, append.info, self._answer)
        if not self.done:
            deadlines.add(append.timeout_ms, self)

    def expire(self) -> None:
        self._answer(RequestTimedOut.code)

    def _answer(self, error: int) -> None:
        if not self.done:
            self.done = True
            self._unacknowledged.answer(error)
