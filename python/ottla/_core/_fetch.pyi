"""A Fetch in the broker, and its conversion (rust/py/net/fetch.rs, fetch_row.rs, rust/py/conversion.rs)."""

from collections.abc import Sequence
from typing import final

from ottla._core._log import FileSlice, Log, Reader, ReadInfo
from ottla._core._net import Completions

@final
class FetchRequest:
    @property
    def replica_id(self) -> int: ...
    # whether it is another broker's: what it says of itself is believed only on listeners that brokers use
    @property
    def is_follower(self) -> bool: ...
    @property
    def max_wait_ms(self) -> int: ...
    @property
    def min_bytes(self) -> int: ...
    @property
    def max_bytes(self) -> int: ...
    @property
    def isolation_level(self) -> int: ...
    @property
    def reader(self) -> Reader: ...  # the kind of reader that it is of
    @property
    def session_id(self) -> int: ...
    @property
    def session_epoch(self) -> int: ...
    @property
    def rack_id(self) -> str: ...
    @property
    def cluster_id(self) -> str | None: ...
    # Each partition is there once: where the request names it first, with what it asks of it last.
    def __len__(self) -> int: ...
    @property
    def partitions(self) -> tuple[PartitionToRead, ...]: ...  # kept; of many, `piece` makes a few at a time
    def piece(self, start: int, stop: int) -> list[PartitionToRead]: ...
    # (topic, partition)
    @property
    def forgotten(self) -> tuple[tuple[str, int], ...]: ...
    def read(
        self, log: Log, partition: PartitionToRead, bytes_left: int, at_least_one: bool, token: int
    ) -> FetchRow | None:
        """What the asker gets of a partition now. None if the disk would have to be waited for: then an I/O thread
        reads, and a Completion(token) with a FetchRow follows.
        """

@final
class PartitionToRead:
    """One partition of a Fetch: where it is to be read, and what the asker knows of it."""

    def __new__(
        cls,
        key: tuple[str, int],
        offset: int,
        bytes_max: int,
        *,
        leader_epoch: int = ...,
        last_fetched_epoch: int = ...,
        log_start_offset: int = ...,
    ) -> PartitionToRead: ...
    @property
    def key(self) -> tuple[str, int]: ...  # (topic, partition)
    @property
    def offset(self) -> int: ...
    @property
    def bytes_max(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...  # -1: not told, as the next two
    @property
    def last_fetched_epoch(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...

@final
class FetchRow:
    """One partition's part of the answer to a Fetch. On error there is nothing but the error code."""

    def __new__(
        cls,
        error_code: int = 0,
        *,
        high_watermark: int = ...,
        last_stable_offset: int = ...,
        log_start_offset: int = ...,
        aborted_transactions: list[tuple[int, int]] | None = None,
        records: ReadInfo | FileSlice | bytes | None = None,
        diverging_epoch: tuple[int, int] | None = None,
        preferred_read_replica: int = ...,
    ) -> FetchRow: ...
    @property
    def error_code(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def aborted_transactions(self) -> list[tuple[int, int]] | None: ...  # producer id, first offset
    @property
    def diverging_epoch(self) -> tuple[int, int] | None: ...  # epoch, end offset
    @property
    def preferred_read_replica(self) -> int: ...  # the broker to read from; -1: this one
    @property
    def length(self) -> int: ...  # bytes of records
    @property
    def goes_on(self) -> bool: ...  # as of a ReadInfo
    @property
    def has_more(self) -> bool: ...  # records, or a diverging epoch
    def converted(self, records: ConvertedRecords) -> FetchRow: ...  # the same row with these records

@final
class ConvertedRecords:
    @property
    def length(self) -> int: ...

@final
class RowToConvert:
    """A row with records, as it was read from `log` for what was `asked`. The reader stops at `upper_bound`."""

    def __new__(
        cls, row: FetchRow, asked: PartitionToRead, log: Log, *, upper_bound: int, may_convert: bool
    ) -> RowToConvert: ...
    @property
    def row(self) -> FetchRow: ...
    @property
    def asked(self) -> PartitionToRead: ...
    @property
    def log(self) -> Log: ...
    @property
    def upper_bound(self) -> int: ...
    @property
    def may_convert(self) -> bool: ...

# bytes_left: what may yet be read for the answer, where a row has nothing that its reader can have
# value: per row None (as it is), records, False (has to be converted and may not be), or an error code
def convert_fetched(
    completions: Completions, token: int, rows: Sequence[RowToConvert], magic: int, bytes_left: int
) -> None: ...
