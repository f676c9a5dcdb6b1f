"""One task's records into Parquet files, as few as there is memory for.

An hour's records wait in memory, whichever partitions they come from, and its file is opened when there are enough for
a row group. So a task that has less than `WAITING_BYTES` writes one file for each topic and hour, however many hours
its records are of. One that has more, of more hours than may have open files, writes several for some of them.
"""

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from ottla.pipelines.tables.table import DataFile, folder

HOUR_US = 3_600_000_000
# Of the year 1 and of the year 9999, which is what dates of Python, Delta and Iceberg can say.
FIRST_HOUR = int(datetime.min.replace(tzinfo=UTC).timestamp()) // 3600
LAST_HOUR = int(datetime(9999, 12, 31, 23, tzinfo=UTC).timestamp()) // 3600
# A row group is written when so many rows or bytes of an hour are there. When all hours together have more bytes than
# may wait, the largest are written until half of that is left.
GROUP_ROWS = 512 * 1024
GROUP_BYTES = 24 * 1024 * 1024
WAITING_BYTES = 64 * 1024 * 1024
OPEN_FILES_MAX = 64
# What a column of a few rows takes beside its bytes: Arrow's and Python's objects, and buffers of 64 bytes at least.
COLUMN_BYTES = 512


@dataclass(slots=True)
class Hour:
    """The rows that wait of a topic's hour, and its file if one is open."""

    topic: str
    hour: int
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    file: "Open | None" = None

    def take(self) -> pa.Table:
        """Takes all rows that wait, as one table. Columns that were new to some of it are null in the rest."""
        table = pa.concat_tables(map(_table, self.waiting), promote_options="default")
        self.waiting, self.rows, self.bytes = [], 0, 0
        return table


@dataclass(slots=True)
class Open:
    """An open file."""

    path: str
    parquet: parquet.ParquetWriter
    schema: pa.Schema
    rows: int = 0


class Files:
    """Files of one task. Names have the batch, the task, and something random: an attempt never meets another's."""

    def __init__(self, location: Path, *, prefix: str, epoch: int, task: int, compression: str) -> None:
        self._location = location
        self._name = f"{prefix}ottla-{epoch:08}-{task:04}"
        self._compression = compression
        self._hours: dict[tuple[str, int], Hour] = {}
        self._open: dict[tuple[str, int], Hour] = {}
        """Those of them that have an open file, the one that was written to last at the end."""
        self._waiting_bytes = 0

    def add(self, topic: str, batch: pa.RecordBatch, times: pa.TimestampArray) -> Iterator[tuple[DataFile, pa.Schema]]:
        """Takes records of one topic with their times. Gives files that had to be closed to make room."""
        # Arrow's division would take the hour before 1970 for the one behind it.
        since_1970 = times.cast(pa.int64()).to_numpy(zero_copy_only=False) // HOUR_US
        # A producer may send any time. What no calendar has is in the first or the last hour that one has.
        hours = pa.array(since_1970.clip(FIRST_HOUR, LAST_HOUR))
        for number in pc.unique(hours).to_pylist():
            part = (
                batch
                if hours[0] == hours[-1] and pc.all(pc.equal(hours, number)).as_py()
                else batch.filter(pc.equal(hours, number))
            )
            hour = self._hours.setdefault((topic, number), Hour(topic, number))
            size_bytes = part.nbytes + COLUMN_BYTES * part.num_columns
            hour.waiting.append(part)
            hour.rows += part.num_rows
            hour.bytes += size_bytes
            self._waiting_bytes += size_bytes
            if hour.rows >= GROUP_ROWS or hour.bytes >= GROUP_BYTES:
                yield from self._write(hour)
        if self._waiting_bytes > WAITING_BYTES:
            for hour in sorted(self._hours.values(), key=lambda each: -each.bytes):
                if self._waiting_bytes <= WAITING_BYTES // 2:
                    break
                yield from self._write(hour)

    def finish(self) -> Iterator[tuple[DataFile, pa.Schema]]:
        """Completes all files: they are on disk when they are given."""
        for hour in list(self._hours.values()):
            if hour.waiting:
                yield from self._write(hour)
            if hour.file is not None:
                yield self._close(hour)

    def _write(self, hour: Hour) -> Iterator[tuple[DataFile, pa.Schema]]:
        """Writes the rows that wait of an hour as a row group. Yields files that had to be closed."""
        self._waiting_bytes -= hour.bytes
        table = hour.take()
        if hour.file is not None and hour.file.schema != table.schema:
            yield self._close(hour)
        if hour.file is None:
            if len(self._open) >= OPEN_FILES_MAX:
                yield self._close(next(iter(self._open.values())))
            hour.file = self._create(hour, table.schema)
        hour.file.parquet.write_table(table, row_group_size=GROUP_ROWS)
        hour.file.rows += table.num_rows
        self._open.pop((hour.topic, hour.hour), None)
        self._open[hour.topic, hour.hour] = hour

    def _create(self, hour: Hour, schema: pa.Schema) -> Open:
        start = _start(hour)
        place = folder(hour.topic, start.date().isoformat(), start.hour)
        (self._location / place).mkdir(parents=True, exist_ok=True)
        path = f"{place}/{self._name}-{uuid.uuid4().hex[:8]}.parquet"
        # Keys and values hardly ever repeat; where they do, compression finds it.
        file = parquet.ParquetWriter(self._location / path, schema, compression=self._compression, use_dictionary=False)
        return Open(path, file, schema)

    def _close(self, hour: Hour) -> tuple[DataFile, pa.Schema]:
        """The file of an hour that has one. What waits of the hour comes into another."""
        file = hour.file
        assert file is not None
        del self._open[hour.topic, hour.hour]
        hour.file = None
        file.parquet.close()
        descriptor = os.open(self._location / file.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            size_bytes = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        start = _start(hour)
        done = DataFile(file.path, hour.topic, start.date().isoformat(), start.hour, file.rows, size_bytes)
        return done, file.schema


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


def _start(hour: Hour) -> datetime:
    return datetime.fromtimestamp(hour.hour * 3600, UTC)
