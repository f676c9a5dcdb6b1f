"""`Log`: a partition's folder as an object."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from ottla import _core
from ottla._core import AppendInfo, BatchBuilder, ColumnDecoder, OneAtATime, RecordReader
from ottla.errors import InvalidTimestamp, LogNotFound, OffsetOutOfRange, StorageError
from ottla.log.committed import aborted_transactions, last_stable_offset, visible
from ottla.log.config import LogConfig
from ottla.log.foreign import foreign_file
from ottla.log.given import Headers, NewRecord, Text, parts
from ottla.log.verify import Report, verify

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla._core import BatchInfo, Record

__all__ = ["IsolationLevel", "Log"]

READ_BYTES = 4 << 20
LONG = 1 << 63
"""How much of a segment is read at once."""

IsolationLevel: TypeAlias = Literal["read_uncommitted", "read_committed"]


class Log:
    """The records of one partition, by offset: 0, 1, 2, ... in the order of their appends, never changed.

    The folder's name says the topic and the number, as in `orders-0`; its files are Apache Kafka's, so that a broker
    (ours or Kafka's) serves what is written here, and this reads what a broker wrote. A log is opened

    * with `mode="r"` to read. It takes no lock and writes nothing, so it works beside a running broker: what is there
      at that moment is read, up to the last whole batch. `refresh()` looks again.
    * with `mode="a"` to read and append. It locks the folder's parent as a broker does, repairs what a crash left
      (a batch that was half written is cut off), and creates the folder if there is none.

    Keys and values are bytes; `str` is taken as UTF-8 on the way in, and anything else is a TypeError. Times are
    milliseconds since 1970, or `datetime` (without a time zone: local time).
    Errors are those of `ottla.errors`: `StorageError` for a disk that fails or a folder that is in use,
    `OffsetOutOfRange`, `InvalidRecord`, `MessageTooLarge`, `CorruptMessage`.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp() + "/orders-0"
    >>> with Log.open(folder, mode="a") as log:
    ...     log.append("three apples", key="alice", timestamp_ms=1_700_000_000_000)
    ...     log.append_many([("bob", "a pear"), ("alice", "no more")], timestamp_ms=1_700_000_060_000)
    0
    range(1, 3)
    >>> log = Log.open(folder)
    >>> [record.value for record in log.records(start=1)]
    [b'a pear', b'no more']
    >>> log.find(1_700_000_030_000)
    1
    >>> log.verify().damage
    []
    >>> log.close()
    """

    def __init__(
        self,
        native: _core.Log,
        path: str,
        mode: Literal["r", "a"],
        config: LogConfig,
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> None:
        self._is_committed = isolation_level == "read_committed"
        #: The last stable offset as of a log end offset.
        self._stable: tuple[int, int] | None = None
        self._native: _core.Log | None = native
        self._path = path
        self._mode = mode
        self._config = config

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        mode: Literal["r", "a"] = "r",
        *,
        config: LogConfig | None = None,
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> Self:
        """Opens the partition in the folder `path`.

        `config` (for appends): sizes and ages of segments, retention, and so on; Kafka's defaults without it.
        `isolation_level`: with `read_committed`, `records` and `columns` end before the first transaction that is still
        open (`last_stable_offset`), and leave out those that were aborted.

        Raises:
            LogNotFound: mode "r" and there is no such folder, or mode "a" and its parent is not there. It is a
                StorageError and a FileNotFoundError.
            StorageError: mode "a" and the parent folder is locked by a broker or another program, or the folder has a
                file of another program under a segment's name, or the disk fails.
            InvalidRequest: the folder's name is not TOPIC-NUMBER; it says why.
        """
        path = _check_path(path)
        config = config or LogConfig()
        if isolation_level not in ("read_uncommitted", "read_committed"):
            raise ValueError(f"isolation_level {isolation_level!r}: 'read_uncommitted' or 'read_committed'")
        if mode not in ("r", "a"):
            raise ValueError(f"mode {mode!r}: 'r' to read, 'a' to read and append")
        needed = os.path.abspath(path) if mode == "r" else os.path.dirname(os.path.abspath(path))
        if mode == "a" and os.path.isdir(path) and (foreign := foreign_file(path)) is not None:
            raise StorageError(f"{foreign}; nothing was changed")
        try:
            native = _core.Log.open_to_read(path) if mode == "r" else _core.Log.open_to_append(path, config.native)
        except StorageError as problem:
            if not os.path.exists(needed):
                raise LogNotFound(f"there is no folder {needed}") from problem
            raise
        return cls(native, path, mode, config, isolation_level)

    @property
    def _log(self) -> _core.Log:
        if self._native is None:
            raise StorageError(f"{self._path}: the log is closed")
        return self._native

    # --- what there is ---

    @property
    def path(self) -> str:
        return self._path

    @property
    def topic(self) -> str:
        return self._log.topic

    @property
    def partition(self) -> int:
        return self._log.partition

    @property
    def start_offset(self) -> int:
        """The first offset that can be read; earlier ones were deleted."""
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._log.end_offset

    @property
    def last_stable_offset(self) -> int:
        """Where readers of committed records stop: the first offset of the oldest transaction that is open, or
        `end_offset`. Reads the batches since the last snapshot of the producers (at most about a segment).
        """
        end = self.end_offset
        if self._stable is None or self._stable[0] != end:
            first_base = self.segments[0][0] if self.segments else self.start_offset
            stable = last_stable_offset(Path(self._path), first_base, end, self._batches)
            self._stable = end, max(stable, self.start_offset)
        return self._stable[1]

    def _batches(self, offset: int) -> Iterator[BatchInfo]:
        for _, data in self._read(max(offset, self.start_offset), self.end_offset):
            yield from _core.read_batches(data, check_crc=False)

    @property
    def size_bytes(self) -> int:
        """Bytes of all record batches, as stored."""
        return self._log.size_bytes

    @property
    def segments(self) -> list[tuple[int, int]]:
        """(first offset, bytes) of each `.log` file."""
        return self._log.segments

    @property
    def flushed_offset(self) -> int:
        """Everything before it survives a power cut; what comes after it survives only a crash of the process."""
        return self._log.flushed_offset

    @property
    def leader_epochs(self) -> list[tuple[int, int]]:
        """(leader epoch, its first offset), for logs that a broker wrote."""
        return self._log.leader_epochs

    def refresh(self) -> None:
        """Mode "r": looks again at what is there. Offsets that were read before keep their records."""
        if self._mode == "r":
            self._native, old = _core.Log.open_to_read(self._path), self._log
            old.close()
            self._stable = None

    # --- reading ---

    def records(self, start: int | None = None, end: int | None = None) -> Iterator[Record]:
        """The records with `start` <= offset < `end`; by default all that are there now.

        A record has `offset`, `timestamp_ms`, `key`, `value` (bytes or None) and `headers` ((name, value) pairs). For
        millions of records `columns` is many times faster.

        Records that are deleted meanwhile are given or left out: the iterator goes on with the first that is there. It
        ends where the log ended when it began, or before that where the log was truncated. The same holds for both
        modes. An iterator is for one thread at a time.

        Raises:
            OffsetOutOfRange: `start` is before `start_offset` or beyond `end_offset`.
            CorruptMessage: a batch's checksum is wrong.
            RuntimeError: two threads use one iterator at once.
        """
        return OneAtATime(self._records(start, end), f"records of {self._path}")

    def _records(self, start: int | None, end: int | None) -> Iterator[Record]:
        _check_offsets(start=start, end=end)
        end = self._end(end)
        for offset, data in self._read(start, end):
            if self._is_committed:
                yield from self._committed(offset, data, end)
                continue
            for record in RecordReader(data, start_offset=offset):
                if record.offset >= end:
                    return
                yield record

    def _end(self, end: int | None) -> int:
        last = self.last_stable_offset if self._is_committed else self.end_offset
        return last if end is None else min(end, last)

    def _committed(self, offset: int, data: bytes, end: int) -> Iterator[Record]:
        batches = _core.read_batches(data, check_crc=False)
        aborted = aborted_transactions(Path(self._path), offset, batches[-1].last_offset + 1)
        for batch in visible(batches, aborted):
            for record in RecordReader(data[batch.position : batch.position + batch.size_bytes], start_offset=offset):
                if record.offset < end:
                    yield record

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    def columns(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        columns: Sequence[str] = ("offset", "timestamp", "key", "value", "headers"),
        rows_max: int = 50_000,
        timestamps: Literal["error", "null"] = "error",
    ) -> Iterator[pa.RecordBatch]:
        """The same records as `pyarrow.RecordBatch`es of at most `rows_max` rows (needs the extra `arrow`).

        Types: offset int64, timestamp `timestamp[us, UTC]`, timestamp_type int32, key and value binary (nullable),
        headers list<struct<name: string, value: binary>>. `pa.Table.from_batches(log.columns())` is a table.

        `timestamps` says what becomes of those that are too large for microseconds, such as nanoseconds where
        milliseconds belong: with "null" they are null.

        Otherwise as `records`.

        Raises:
            InvalidTimestamp: there is one, and `timestamps` is "error". It names the offset.
        """
        return OneAtATime(self._columns(start, end, columns, rows_max, timestamps), f"columns of {self._path}")

    def _columns(
        self,
        start: int | None,
        end: int | None,
        columns: Sequence[str],
        rows_max: int,
        timestamps: Literal["error", "null"],
    ) -> Iterator[pa.RecordBatch]:
        from ottla.records import arrow_schema, decode_buffers, to_arrow

        arrow_schema(columns)  # says what to install before anything is read
        _check_offsets(start=start, end=end)
        end = self._end(end)
        first = self.start_offset if start is None else start
        decoder = ColumnDecoder(
            start_offset=first, end_offset=end, columns=columns, rows_max=rows_max, timestamps=timestamps
        )
        aborted = None
        if self._is_committed:
            found = aborted_transactions(Path(self._path), first, end)
            aborted = [(each.producer_id, each.first_offset) for each in found]
        try:
            for chunk in decode_buffers((data for _, data in self._read(start, end)), decoder, aborted):
                yield to_arrow(chunk, columns)
        except InvalidTimestamp as problem:
            raise InvalidTimestamp(f'{self._path}: {problem}. timestamps="null" makes it null') from problem

    def _read(self, start: int | None, end: int) -> Iterator[tuple[int, bytes]]:
        offset = self.start_offset if start is None else start
        while offset < end or start is not None:
            try:
                piece = self._log.read(offset, READ_BYTES).slice
            except OffsetOutOfRange:
                # A start that is out of range is an error even if there is nothing to read.
                if start is not None:
                    raise
                if offset >= self.start_offset:
                    return  # truncated meanwhile
                offset = self.start_offset  # deleted meanwhile
                continue
            start = None
            if piece is None:
                return
            data = piece.read()
            batches = _core.read_batches(data, check_crc=False)
            if not batches:
                return  # truncated meanwhile
            yield offset, data
            offset = batches[-1].last_offset + 1

    def find(self, when: int | datetime) -> int | None:
        """The offset of the first record that is at least as young as `when`; None if all are older."""
        found = self._log.offset_for_timestamp(_milliseconds(when, "when"))
        return None if found is None else found.offset

    def verify(self) -> Report:
        """Reads every file and says what is damaged, where. Changes nothing."""
        return verify(self._path)

    # --- writing ---

    def append(
        self,
        value: Text | None,
        *,
        key: Text | None = None,
        headers: Headers = (),
        timestamp_ms: int | datetime | None = None,
    ) -> int:
        """Appends one record and returns its offset. `value=None` is a tombstone: compaction removes its key.

        One call is one batch of 70 bytes and more around the record: for many records use `append_many`.

        Raises:
            TypeError: key, value or a header's value is neither bytes nor str nor None.
        """
        record = (key, value, headers)
        return self.append_many([record], timestamp_ms=timestamp_ms).start

    def append_many(
        self,
        records: Iterable[NewRecord],
        *,
        timestamp_ms: int | datetime | None = None,
        compression: str = "none",
        batch_bytes: int = 256 * 1024,
    ) -> range:
        """Appends records, each a value, a (key, value) pair or a (key, value, headers) triple; returns their offsets.

        They are packed into batches of about `batch_bytes`, compressed with `none`, `gzip`, `snappy`, `lz4` or `zstd`.
        All get the same timestamp, the current time by default. A batch is appended whole or not at all; batches before
        one that is refused stay.

        Raises:
            MessageTooLarge: a batch is larger than `max_message_bytes` of the config.
            InvalidRecord: a record without key, and the config says `compact`.
            TypeError: a record is no value, pair or triple of bytes, str or None; batches before it stay.
        """
        first, end = self.end_offset, self.end_offset
        builder = BatchBuilder(compression=compression)
        now_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else _milliseconds(timestamp_ms)
        for record in records:
            key, value, headers = parts(record)
            builder.append(now_ms, key, value, headers)
            if builder.size_bytes >= batch_bytes:
                end = self._append(builder)
        if builder.record_count:
            end = self._append(builder)
        return range(first, end)

    def _append(self, builder: BatchBuilder) -> int:
        info = self.append_batch(builder.finish())
        builder.clear()
        return info.last_offset + 1

    def append_batch(self, batch: bytes) -> AppendInfo:
        """Appends one batch as a producer would send it (see `ottla.records.encode_batch`). It is checked, its offsets
        are set.

        A batch of an idempotent producer that is one of its last five is recognised: nothing is written, and the answer
        has the first append's offsets and `is_duplicate`.
        """
        info = self._log.append_bytes(batch, max(0, self._log.leader_epoch))
        if info.flush_due:
            self.flush()
        return info

    def flush(self) -> int:
        """Returns when everything appended so far would survive a power cut; the offset up to which it would."""
        return self._log.flush()

    def roll(self) -> None:
        """Closes the active segment; the next append starts a new one."""
        self._log.roll()

    def truncate(self, offset: int) -> None:
        """Removes the records at and after `offset`, by whole batches: the log may end a little before it."""
        _check_offsets(offset=offset)
        self._log.truncate_to(offset)

    def delete_before(self, offset: int) -> None:
        """Removes the records before `offset`; the space of whole segments before it is given back.

        Raises:
            OffsetOutOfRange: `offset` is beyond the end.
        """
        _check_offsets(offset=offset)
        self._log.high_watermark = self._log.end_offset
        self._log.set_start_offset(offset)
        self._log.delete_old_segments(time.time_ns() // 1_000_000)

    # --- the end ---

    def close(self) -> None:
        """Flushes, and leaves the folder as after a clean stop. A closed log answers every call with StorageError."""
        if self._native is not None:
            native, self._native = self._native, None
            native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._native is None:
            return f"<Log {self._path} closed>"
        return f"<Log {self.topic}-{self.partition} offsets {self.start_offset}..{self.end_offset} mode={self._mode!r}>"


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _check_offsets(**offsets: int | None) -> None:
    for name, offset in offsets.items():
        if offset is not None and (
            not isinstance(offset, int) or isinstance(offset, bool) or not -LONG <= offset < LONG
        ):
            raise TypeError(f"{name} is an offset, a number in 64 bits, not {offset!r}")


def _check_path(path: object) -> str:
    found = path if isinstance(path, str) else os.fspath(path) if isinstance(path, os.PathLike) else None
    if not isinstance(found, str):
        raise TypeError(f"path is a str or an os.PathLike of one, not {path!r}")
    return found


def _milliseconds(when: int | datetime, name: str = "timestamp_ms") -> int:
    if isinstance(when, datetime):
        return (when.astimezone(UTC) - EPOCH) // timedelta(milliseconds=1)
    if not isinstance(when, int) or isinstance(when, bool) or not -LONG <= when < LONG:
        raise TypeError(f"{name} is a number of milliseconds in 64 bits, or a datetime, not {when!r}")
    return when
