"""Leases: what is served without Python (rust/py/net/direct.rs)."""

from collections.abc import Sequence
from typing import Any, Self, final

from ottla._core._fetch import PartitionToRead
from ottla._core._log import AppendInfo
from ottla._core._net import Request

@final
class Terms:
    """What was decided about a partition: `ottla.replication.lease.Terms` has the meanings."""

    def __new__(
        cls,
        *,
        leader_epoch: int,
        is_alone: bool,
        accepts_all: bool,
        everyone_may: bool,
        is_zstd: bool,
        is_internal: bool,
    ) -> Self: ...

@final
class Lease:
    # The client that sent the request is known by this number (not 0), and may do this for as long as the lease lasts
    def allow(
        self,
        request: Request,
        client: int,
        *,
        reads: bool = False,
        writes: bool = False,
        writes_idempotently: bool = False,
        follows: bool = False,
    ) -> None: ...
    # Fetches that wait under it are answered. Returns the Produces that wait for other replicas
    def end(self) -> list[Unacknowledged]: ...
    def grown(self) -> None: ...  # the log has grown, of which followers have to hear
    def advanced(self) -> None: ...  # the high watermark moved, or the log was flushed
    def watch(self, is_watched: bool) -> None: ...  # somebody waits for the high watermark: Python ends such turns

@final
class Follower:
    """A follower as its leader knows it in one leader epoch, by its Fetches. Safe from any thread.

    Offsets are -1 and times None before there is one; `caught_up_ms`, when it last had all that the leader had, begins
    with what is given.
    """

    def __new__(cls, caught_up_ms: int | None) -> Self: ...
    # Where the log of the slowest one ends that the high watermark waits for (2^63-1: for none), and whether a member
    # is among them
    @staticmethod
    def end_of_all(followers: Sequence[Follower]) -> tuple[int, bool]: ...
    # Where its log ended and started at its last Fetch
    @property
    def end_offset(self) -> int: ...
    @property
    def start_offset(self) -> int: ...
    @property
    def caught_up_ms(self) -> int | None: ...
    is_member: bool  # it is in the ISR, or may be in it by now
    is_refused: bool  # the controller did not take it in a moment ago: it is not near, whatever it fetches
    @property
    def is_near(self) -> bool: ...  # it caught up within the time that followers may lag, as far as was looked
    # It asked for records from `end_offset` on, while the leader's log ended at `leader_end_offset`
    def fetched(self, end_offset: int, start_offset: int, leader_end_offset: int, now_ms: int) -> None: ...
    def caught_up(self, at_ms: int) -> None: ...
    def went_away(self) -> None: ...  # it is not near until it catches up again
    def look(self, now_ms: int, lag_max_ms: int) -> bool: ...  # Returns whether it is near, and notes that
    def has(self, offset: int) -> bool: ...  # whether its log has the offset, or ends there, as far as it has told

@final
class Unacknowledged:
    """A Produce that was appended under a lease, and waits for a flush, or with acks=all for other replicas."""

    @property
    def owner(self) -> Any: ...  # what the lease was granted with
    @property
    def info(self) -> AppendInfo: ...
    @property
    def acks(self) -> int: ...
    @property
    def timeout_ms(self) -> int: ...
    def answer(self, error_code: int) -> None: ...  # once; what comes later does nothing

@final
class SessionLoan:
    """A fetch session that is served without Python, until it is taken back."""

    # Ends it: a Fetch that waits in it is answered with what there is. Returns the next epoch, and the partitions as
    # they were lent
    def take_back(self) -> tuple[int, list[tuple[PartitionToRead, int, int]]]: ...
    # When it was used last, by the clock whose time it was when it was lent, and how many partitions it has
    @property
    def used(self) -> tuple[int, int]: ...
