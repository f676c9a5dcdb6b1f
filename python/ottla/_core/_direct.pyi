"""Leases: what is served without Python (rust/py/net/direct.rs)."""

from typing import Any, Self, final

from ottla._core._log import AppendInfo

@final
class Terms:
    """What was decided about a partition: `ottla.replication.lease.Terms` has the meanings."""

    def __new__(
        cls,
        *,
        leader_epoch: int,
        is_alone: bool,
        acknowledges_all: bool,
        everyone_may_read: bool,
        everyone_may_write: bool,
        is_zstd: bool,
    ) -> Self: ...

@final
class Lease:
    def end(self) -> None: ...  # Fetches that wait under it are answered
    def advanced(self) -> None: ...  # the high watermark moved
    def watch(self, is_watched: bool) -> None: ...  # somebody waits for the high watermark: Python ends such turns

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
