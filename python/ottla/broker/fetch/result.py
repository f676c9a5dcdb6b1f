"""The rows that a Fetch has read."""

from __future__ import annotations

from typing import Final

from ottla._core import FetchRow
from ottla.errors import NotLeaderOrFollower, StorageError

#: About what an answer holds beside records: as a whole, and for each partition with records.
HEAD_BYTES: Final = 20
PARTITION_BYTES: Final = 60


class FetchResult:
    """The rows of all partitions that were asked for, in that order."""

    __slots__ = ("filled", "is_due", "moved", "rows", "size", "throttled")

    def __init__(self) -> None:
        self.rows: list[FetchRow] = []
        #: Bytes of records, and how many rows have any.
        self.size = 0
        self.filled = 0
        #: Bytes of throttled partitions among them, for a follower.
        self.throttled = 0
        #: Bytes for a follower that a reassignment adds.
        self.moved = 0
        #: Waiting makes the answer no better: a row has an error, a diverging epoch or another broker to read from, its
        #: records end with a segment that is not the last, or no more bytes may be added.
        self.is_due = False

    @property
    def answer_bytes(self) -> int:
        """About what the answer takes on the wire, as quotas count it."""
        return HEAD_BYTES + PARTITION_BYTES * self.filled + self.size


def failed(version: int, error: int) -> FetchRow:
    """The row of a partition that cannot be read. Clients before version 6 have not heard of failed directories;
    another error makes them ask elsewhere.
    """
    return FetchRow(NotLeaderOrFollower.code if version < 6 and error == StorageError.code else error)
