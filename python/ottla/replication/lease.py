"""One lease: what the hub knows of a partition that it serves, what Python tells it, and what ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import msgspec

if TYPE_CHECKING:
    from ottla import _core
    from ottla._core import Follower, Log, Unacknowledged


class Terms(msgspec.Struct, frozen=True, gc=False):
    """All that a lease knows of its partition."""

    log: Log
    leader_epoch: int
    #: The high watermark is the end of the log.
    is_alone: bool
    #: acks=all may append: enough replicas are in sync, and no flush is waited for.
    accepts_all: bool
    #: `compression.type` is zstd: consumers that cannot read that are told so.
    is_zstd: bool
    #: Clients are served in Python.
    is_internal: bool
    #: The followers whose Fetches are served while they are in sync.
    followers: dict[int, Follower]


class Lease:
    """What the hub may do with a partition of a topic without asking, until `end`."""

    __slots__ = ("_ended", "_native", "_wait", "allow", "is_watched", "terms", "topic")

    def __init__(
        self,
        topic: str,
        terms: Terms,
        native: _core.Lease,
        ended: Callable[[Lease], object],
        wait: Callable[[Unacknowledged], object],
    ) -> None:
        """`ended` is called at the end, and then `wait` with each append that the hub had wait for other replicas."""
        self.topic = topic
        self.terms = terms
        #: Says to the hub that the client of a request may do this, where not everybody may (`_core.Lease.allow`).
        self.allow = native.allow
        self.is_watched = False
        self._native = native
        self._ended = ended
        self._wait = wait

    def end(self) -> None:
        """The hub serves nothing under it any more. Fetches that wait in the hub are answered; Produces wait on, as
        what the partition has become decides.
        """
        self._ended(self)
        for unacknowledged in self._native.end():
            self._wait(unacknowledged)

    def advanced(self) -> None:
        """The high watermark moved, or the log was flushed: what waits in the hub is looked at."""
        self._native.advanced()

    def grown(self) -> None:
        """The log has grown: Fetches of followers that wait in the hub are looked at."""
        self._native.grown()

    def watch(self, is_watched: bool) -> None:
        """Whether requests wait in Python for the high watermark: turns that move it are ended there."""
        if self.is_watched != is_watched:
            self.is_watched = is_watched
            self._native.watch(is_watched)


class Leased:
    """A partition, as far as the hub may serve it under a lease.

    The attributes that the terms depend on (`GUARDED`) change through `change` alone, which ends a lease whose terms
    are no longer true. Any other assignment to them raises AttributeError. After a change inside of what such an
    attribute holds, `check_lease` does the same.
    """

    __slots__ = ("lease",)

    GUARDED: ClassVar[frozenset[str]]

    def __init__(self) -> None:
        #: While the hub may append and read without asking.
        self.lease: Lease | None = None

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.GUARDED:
            raise AttributeError(
                f"`{name}` of a partition changes through Partition.change, which looks after its lease"
            )
        object.__setattr__(self, name, value)

    def change(self, **changes: object) -> None:
        """Changes attributes of `GUARDED`, all at once, and ends the lease if the terms are others now.

        Raises AttributeError for an attribute that no lease depends on.
        """
        for name, value in changes.items():
            if name not in self.GUARDED:
                raise AttributeError(f"`{name}` of a partition is simply assigned: no lease depends on it")
            object.__setattr__(self, name, value)
        self.check_lease()

    def terms(self) -> Terms | None:
        """Returns all that a lease would know now. None if there may be no lease."""
        raise NotImplementedError

    def check_lease(self) -> None:
        """Ends the lease if the terms are others now."""
        if self.lease is not None and self.terms() != self.lease.terms:
            self.end_lease()

    def leased(self, lease: Lease) -> None:
        """The hub may serve the partition until the terms change."""
        self.end_lease()
        self.lease = lease

    def end_lease(self) -> None:
        """From now on every Produce and Fetch is decided upon one by one."""
        if self.lease is not None:
            lease, self.lease = self.lease, None
            lease.end()
