"""Records: batches, messages, columns, rows (rust/py/records)."""

from collections.abc import Iterable, Sequence
from typing import Self, TypeAlias, TypeVar, final

from typing_extensions import Buffer

_Row = TypeVar("_Row")

def crc32c(data: Buffer) -> int: ...
def validate(batch: Buffer, *, batch_bytes_max: int = ..., decompressed_bytes_max: int = ...) -> BatchInfo: ...
def stamp(batch: Buffer, base_offset: int, leader_epoch: int, append_time_ms: int | None = None) -> bytes: ...
def marker_batch(
    producer_id: int, producer_epoch: int, commit: bool, coordinator_epoch: int, timestamp_ms: int
) -> bytes: ...
def encode_batch(
    records: Iterable[tuple[int, Buffer | None, Buffer | None, Sequence[tuple[str | Buffer, Buffer | None]]]],
    *,
    compression: str = "none",
    level: int | None = None,
    base_offset: int = 0,
) -> bytes: ...
def encode_messages(
    records: Iterable[tuple[int, Buffer | None, Buffer | None]],
    *,
    magic: int,
    compression: str = "none",
    base_offset: int = 0,
    append_time_ms: int | None = None,
) -> bytes: ...
def down_convert(data: Buffer, *, magic: int, first_offset: int = 0, bytes_max: int = ...) -> bytes: ...

# payloads, where they end, and what is wrong there: (it is only cut off, position, problem)
def decode_07(data: Buffer, *, message_bytes_max: int) -> tuple[list[bytes], int, tuple[bool, int, str] | None]: ...
def find_07(data: Buffer, start: int, *, message_bytes_max: int) -> int | None: ...
def read_batches(data: Buffer, *, check_crc: bool = True) -> list[BatchInfo]: ...
def decode_columns(
    data: Buffer,
    *,
    aborted: Sequence[tuple[int, int]] | None = None,
    start_offset: int = 0,
    end_offset: int = ...,
    columns: Sequence[str] | None = None,
    rows_max: int = 50_000,
    bytes_max: int = ...,
    timestamp_unit: str = "us",
    timestamps: str = "error",
    check_crc: bool = True,
    decompressed_bytes_max: int = ...,
) -> list[Columns]: ...

@final
class BatchBuilder:
    def __new__(
        cls,
        *,
        compression: str = "none",
        level: int | None = None,
        base_offset: int = 0,
        leader_epoch: int = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        base_sequence: int = ...,
        transactional: bool = False,
        control: bool = False,
        append_time_ms: int | None = None,
    ) -> Self: ...
    def append(
        self,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[tuple[str | Buffer, Buffer | None]] = ...,
    ) -> int: ...
    @property
    def record_count(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    def finish(self, *, base_offset: int | None = None, base_sequence: int | None = None) -> bytes: ...
    def clear(self) -> None: ...

_Binary: TypeAlias = tuple[Buffer | None, Buffer | None, Buffer | None, int]
_Fixed: TypeAlias = tuple[Buffer | None, Buffer | None, int]
_Lists: TypeAlias = tuple[Buffer | None, Buffer | None, int, _Binary, _Binary, int]

@final
class RowEncoder:
    def __new__(
        cls,
        *,
        compression: str = "none",
        level: int | None = None,
        producer_id: int = ...,
        producer_epoch: int = ...,
        transactional: bool = False,
        batch_bytes: int,
        record_bytes_max: int,
        memory_bytes: int,
        seed: int = 0,
    ) -> Self: ...
    def add_topic(self, name: str, partition_count: int) -> None: ...
    def append(
        self,
        rows: int,
        start: int,
        *,
        now_ms: int,
        topic: str | _Binary,
        value: _Binary,
        key: _Binary | None = None,
        partition: _Fixed | None = None,
        headers: _Lists | None = None,
        timestamp: _Fixed | None = None,
    ) -> tuple[int, str | None]: ...
    def flush(self) -> None: ...
    def take(self) -> list[tuple[str, int, int, bytes]]: ...

@final
class BatchInfo:
    @property
    def position(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def magic(self) -> int: ...
    @property
    def crc(self) -> int: ...
    @property
    def compression(self) -> str: ...
    @property
    def is_transactional(self) -> bool: ...
    @property
    def is_control(self) -> bool: ...
    @property
    def is_log_append_time(self) -> bool: ...
    @property
    def base_timestamp_ms(self) -> int: ...
    @property
    def max_timestamp_ms(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def last_sequence(self) -> int: ...
    @property
    def record_count(self) -> int: ...

@final
class Record:
    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> list[tuple[str, bytes | None]]: ...

@final
class CopiedBatch:
    """A batch for the other cluster. Its offsets are those of its records where they come from."""

    @property
    def data(self) -> bytes: ...
    @property
    def records(self) -> int: ...
    @property
    def first_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def is_unopened(self) -> bool: ...  # only its header was written anew

@final
class Copied:
    """The batches that a Mirror made of what was fetched."""

    @property
    def batches(self) -> list[CopiedBatch]: ...  # made anew at each look
    @property
    def next_offset(self) -> int: ...  # after all that was looked at

@final
class Mirror:
    """Makes batches for a partition of another cluster of what was fetched (rust/records/mirror.rs)."""

    def __new__(
        cls,
        *,
        transactional: bool = False,
        join_bytes: int = ...,
        header: tuple[bytes, bytes] | None = None,
        stops: Sequence[bytes] = ...,
    ) -> Self: ...
    def copy(self, data: Buffer, offset: int, aborted: Sequence[tuple[int, int]] = ...) -> Copied:
        """Copies the whole batches of `data` that have records from `offset` on, but no transaction of `aborted`:
        (producer id, first offset) of each. Stops before what is damaged; raises CorruptMessage if that comes first.
        """

@final
class RecordReader:
    def __new__(
        cls,
        data: Buffer,
        *,
        start_offset: int = ...,
        with_control: bool = False,
        check_crc: bool = True,
        decompressed_bytes_max: int = ...,
    ) -> Self: ...
    @property
    def position(self) -> int: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Record: ...
    def rows(self, kind: type[_Row], topic: str, partition: int) -> list[_Row]: ...

@final
class ColumnBuffer(Buffer):
    def __len__(self) -> int: ...

@final
class Columns:
    @property
    def rows(self) -> int: ...
    @property
    def offset(self) -> ColumnBuffer | None: ...
    @property
    def timestamp(self) -> ColumnBuffer | None: ...
    @property
    def timestamp_type(self) -> ColumnBuffer | None: ...
    @property
    def header_count(self) -> int: ...
    def __len__(self) -> int: ...
    def buffers(self, name: str) -> list[ColumnBuffer | None]: ...
    def null_count(self, name: str) -> int: ...

@final
class ColumnDecoder:
    def __new__(
        cls,
        *,
        start_offset: int = 0,
        end_offset: int = ...,
        columns: Sequence[str] | None = None,
        rows_max: int = 50_000,
        bytes_max: int = ...,
        timestamp_unit: str = "us",
        timestamps: str = "error",
        check_crc: bool = True,
        decompressed_bytes_max: int = ...,
    ) -> Self: ...
    def feed(self, data: Buffer, aborted: Sequence[tuple[int, int]] | None = None) -> None: ...
    def next(self) -> Columns | None: ...
    def finish(self) -> Columns | None: ...
    def seek(self, offset: int) -> None: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def done(self) -> bool: ...
