"""One lease: what the hub knows of a partition that it serves, and what Python tells it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from ottla import _core
    from ottla._core import Log


class Terms(msgspec.Struct, frozen=True, gc=False):
    """All that a lease knows of its partition."""

    log: Log
    leader_epoch: int
    #: The high watermark is the end of the log.
    is_alone: bool
    #: An append is acknowledged when it is written, with acks=all too.
    acknowledges_all: bool
    #: Requests carry no principal, and no rule forbids anything to anybody. Once there are such rules, a partition that
    #: one of them concerns has False here: each request is then decided upon in Python.
    everyone_may_read: bool = True
    everyone_may_write: bool = True


class Lease:
    """What the hub may do with a partition without asking, until `end`."""

    __slots__ = ("_ended", "_native", "is_watched", "terms")

    def __init__(self, terms: Terms, native: _core.Lease, ended: Callable[[Lease], object]) -> None:
        self.terms = terms
        self.is_watched = False
        self._native = native
        self._ended = ended

    def end(self) -> None:
        """The hub serves nothing under it any more. Fetches that wait in the hub are answered."""
        self._ended(self)
        self._native.end()

    def advanced(self) -> None:
        """The high watermark moved: Fetches that wait in the hub are looked at."""
        self._native.advanced()

    def watch(self, is_watched: bool) -> None:
        """Whether requests wait in Python for the high watermark: turns that move it are ended there."""
        if self.is_watched != is_watched:
            self.is_watched = is_watched
            self._native.watch(is_watched)
