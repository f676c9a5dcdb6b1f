"""`ottla.scan`: a stretch of a topic as a table, for whatever takes an Arrow stream."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal, TypeAlias

import trio

from ottla.reading import options as reading
from ottla.reading.given import Side, sides, topics
from ottla.reading.json_values import OnError, json_columns
from ottla.reading.layout import Layout
from ottla.reading.ranges import Range
from ottla.reading.rows import COLUMNS, VALUE, Rows
from ottla.reading.wanted import Wanted

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from ottla.client import Security

Place: TypeAlias = str | os.PathLike[str]

BATCH_ROWS = 50_000
TIMEOUT_MS = 60_000
OF_BROKERS = "meta.properties"
"""The file that every broker writes into its data directories, and `Log` into none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions(reading.ReadOptions):
    """The options of one scan, checked and typed."""

    topic: str
    rows: Rows

    latest_if_no_timestamp: bool = True
    fail_on_data_loss: bool = True
    fetch_bytes_max: int | None = None
    fetch_wait_ms_max: int | None = None
    offset_attempts: int = 3
    offset_retry_ms: int = 1000
    skip_corrupt: bool = False
    corrupt_report: str | None = None
    verify_crc: bool = True
    timestamps: str = "error"

    def layout(self, names: Sequence[str]) -> Layout:
        return self.rows.layout()


class Scan:
    """A stretch of a topic as a table, whose ends were fixed when it was made.

    It has `__arrow_c_stream__`, Arrow's interface for streams, so that polars, DuckDB, pyarrow and others take it as
    it is. Nothing is read before the first batch is asked for. A reader's memory holds a batch or two from a
    directory, and from brokers the records of one answer, of at most 4 MiB before they are unpacked. Each reader
    reads anew, the same offsets; records that were deleted meanwhile are an error then.

    Rows come partition by partition, and in the order of their offsets. A scan may be read by several threads, each
    with a reader of its own.
    """

    def __init__(self, options: ScanOptions, ranges: Sequence[Range]) -> None:
        """`ranges` are all that is read. Made by `scan`."""
        self._options = options
        self._ranges = tuple(sorted(ranges, key=lambda each: each.partition))

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self._options.rows.schema

    @property
    def offsets(self) -> dict[int, tuple[int, int]]:
        """First and end offset of each partition that has any to be read. There may be fewer records: compaction and
        transactions leave gaps.
        """
        return {each.partition.partition: (each.start, each.end) for each in self._ranges}

    def reader(self) -> pa.RecordBatchReader:
        """The rows from the beginning, batch by batch.

        Reading raises:
            OffsetOutOfRange: records were deleted, or the topic was, since the scan was made.
            InvalidRecord: a value cannot be read with the schema.
            ottla.reading.damage.DamagedBatch: bytes are not what a producer sent.
            KafkaError, OSError: a broker or the disk does not answer, or refuses.
        """
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches of a `reader`."""
        rows = self._options.rows
        for batch in _place(self._options).read(self._options, self._ranges, rows.names):
            yield batch if rows.json is None else _with_json(batch, rows, self._options.topic)

    def select(self, *names: str) -> Scan:
        """The same stretch with those of its columns that are named. Of the others nothing is decoded.

        Raises:
            ValueError: it has no such column.
        """
        if (wrong := next((name for name in names if name not in self.schema.names), None)) is not None:
            raise ValueError(f"there is no column {wrong!r}; there are {', '.join(self.schema.names)}")
        if not names:
            raise ValueError("a scan has at least one column")
        return Scan(replace(self._options, rows=self._options.rows.only(names)), self._ranges)

    def lazy(self) -> pl.LazyFrame:
        """A lazy frame of polars: it decodes only the columns that a query uses, and reads no further than it needs.

        Raises:
            ModuleNotFoundError: polars is not installed.
        """
        from ottla.reading.lazy import lazy

        return lazy(self.schema, lambda names: iter(self if names is None else self.select(*names)))

    def __repr__(self) -> str:
        return f"<Scan of {self._options.topic} {self.offsets}>"


def scan(
    topic: str,
    *,
    servers: str | None = None,
    path: Place | Sequence[Place] | None = None,
    start: Side = None,
    end: Side = None,
    partitions: Iterable[int] | int | None = None,
    isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
    columns: Sequence[str] = COLUMNS,
    schema: pa.Schema | None = None,
    on_error: OnError = "error",
    batch_rows: int = BATCH_ROWS,
    up_to: Literal["high_watermark", "log_end"] | None = None,
    security: Security | None = None,
    client_id: str = "ottla-scan",
    timeout_ms: int = TIMEOUT_MS,
) -> Scan:
    """A stretch of a topic as a table, from brokers (`servers`) or from a data directory (`path`), or all of a broker.

    `start` and `end` are offsets, times, or `earliest` and `latest`. The record at `end` is not in it. A time means the
    first offset whose record has it or a later one; a `timedelta` is that long before now. Offsets are fixed by this
    call, and what comes later is not read. By default everything is, and of transactions also those that are open or
    were aborted, unless `isolation` is `read_committed`.

    `columns` are some of `partition` (int32), `offset` (int64), `timestamp` (ms, UTC), `timestamp_type` (int32: 0 the
    producer's, 1 the broker's, -1 none), `topic` (string), `key` and `value` (binary, null where there is none) and
    `headers` (a list of key and value, null where there are none). With `schema` values are JSON objects, whose fields
    stand in the place of `value`; where one cannot be read, `on_error` says whether that is an error or a row of nulls.
    A batch has at most `batch_rows` rows.

    From the directory of a broker, which may run or not, records are read as far as consumers may see them by the
    checkpoint of high watermarks; `up_to="log_end"` reads all that is written. One that no broker had, but only
    `ottla.log.Log`, is read to its end. `security` is for brokers, as in `ottla.client.Cluster`; one that does
    not answer is an error after about `timeout_ms`.

    Needs the extra `arrow`.

    Raises:
        TypeError, ValueError: an argument that makes no sense, or `start` after `end`.
        OffsetOutOfRange: an offset that a partition does not have; it names those that it has.
        UnknownTopicOrPartition, FileNotFoundError: there is no such topic or partition, or no such directory.
        KafkaError, OSError: brokers do not answer, or refuse.
    """
    paths = _paths(path)
    _check_place(servers, paths, up_to)
    starting, ending = sides(topic, start, end, datetime.now(UTC))
    options = ScanOptions(
        topic=topic,
        rows=Rows.of(columns, batch_rows, schema, on_error),
        topics=topics(topic, partitions),
        starting=starting,
        ending=ending,
        bootstrap_servers=servers,
        security=security,
        paths=paths,
        up_to_log_end=_up_to_log_end(paths, up_to),
        read_committed=_is_committed(isolation),
        client_id=client_id,
        poll_timeout_ms=timeout_ms,
        api_timeout_ms=timeout_ms,
    )
    return Scan(options, _place(options).resolve(options, Wanted()))


def _place(options: ScanOptions) -> ModuleType:
    """`ottla.reading.brokers` or `ottla.reading.directory`."""
    from ottla.reading import brokers, directory

    return directory if options.paths else brokers


def _paths(path: Place | Sequence[Place] | None) -> tuple[str, ...]:
    if path is None:
        return ()
    return tuple(os.fspath(each) for each in ([path] if isinstance(path, str | os.PathLike) else path))


def _check_place(servers: str | None, paths: Sequence[str], up_to: str | None) -> None:
    if (servers is None) == (not paths):
        raise TypeError("a scan needs either servers or path")
    if not paths and up_to is not None:
        raise TypeError("up_to is for a scan of a path; brokers give what consumers may see")
    if servers is not None and trio.lowlevel.in_trio_run():
        raise RuntimeError("ottla.scan waits for brokers, and trio runs in this thread: use trio.to_thread.run_sync")


def _up_to_log_end(paths: Sequence[str], up_to: str | None) -> bool:
    if up_to not in (None, "high_watermark", "log_end"):
        raise ValueError(f"up_to {up_to!r}: 'high_watermark' or 'log_end'")
    return up_to == "log_end" or (up_to is None and not any((Path(each) / OF_BROKERS).exists() for each in paths))


def _is_committed(isolation: str) -> bool:
    if isolation not in ("read_uncommitted", "read_committed"):
        raise ValueError(f"isolation {isolation!r}: 'read_uncommitted' or 'read_committed'")
    return isolation == "read_committed"


def _with_json(batch: pa.RecordBatch, rows: Rows, topic: str) -> pa.RecordBatch:
    """The rows with the fields of their values."""
    import pyarrow as pa

    assert rows.json is not None
    partition = batch["partition"][0].as_py()
    fields = json_columns(batch["value"], batch["offset"], rows.json, rows.on_error, f"{topic}-{partition}")
    arrays: list[pa.Array] = []
    for name in rows.names:
        arrays += fields if name == VALUE else [batch[name]]
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)
