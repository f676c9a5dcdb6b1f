"""Leases: what is served without Python (rust/py/net/direct.rs)."""

from typing import Self, final

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
    ) -> Self: ...

@final
class Lease:
    def end(self) -> None: ...  # Fetches that wait under it are answered
    def advanced(self) -> None: ...  # the high watermark moved
    def watch(self, is_watched: bool) -> None: ...  # somebody waits for the high watermark: Python ends such turns
