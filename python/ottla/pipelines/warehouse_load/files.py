"""One task's records into Parquet files, one for each topic and hour (more if the columns grow meanwhile)."""

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
# A row group is written when so many rows or bytes of an hour are there, and all when all hours together have more.
GROUP_ROWS = 512 * 1024
GROUP_BYTES = 24 * 1024 * 1024
WAITING_BYTES = 64 * 1024 * 1024
OPEN_FILES_MAX = 64


@dataclass(slots=True)
class Writer:
    """An open file, and what waits to be written to it."""

    topic: str
    hour: int
    path: str
    parquet: parquet.ParquetWriter
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_rows: int = 0
    waiting_bytes: int = 0
    rows: int = 0

    def write(self) -> None:
        """What waits becomes a row group."""
        if self.waiting:
            self.parquet.write_table(pa.Table.from_batches(self.waiting), row_group_size=GROUP_ROWS)
            self.waiting, self.waiting_rows, self.waiting_bytes = [], 0, 0


class Files:
    """Files of one task. Names have the batch, the task, and something random: an attempt never meets another's."""

    def __init__(self, location: Path, *, prefix: str, epoch: int, task: int, compression: str) -> None:
        self._location = location
        self._name = f"{prefix}ottla-{epoch:08}-{task:04}"
        self._compression = compression
        self._open: dict[tuple[str, int, pa.Schema], Writer] = {}
        self._waiting_bytes = 0

    def add(self, topic: str, batch: pa.RecordBatch, times: pa.TimestampArray) -> Iterator[tuple[DataFile, pa.Schema]]:
        """Takes records of one topic with their times. Gives files that had to be closed to make room."""
        # Arrow's division would take the hour before 1970 for the one behind it.
        since_1970 = times.cast(pa.int64()).to_numpy(zero_copy_only=False) // HOUR_US
        # A producer may send any time. What no calendar has is in the first or the last hour that one has.
        hours = pa.array(since_1970.clip(FIRST_HOUR, LAST_HOUR))
        for hour in pc.unique(hours).to_pylist():
            part = (
                batch
                if hours[0] == hours[-1] and pc.all(pc.equal(hours, hour)).as_py()
                else batch.filter(pc.equal(hours, hour))
            )
            key = (topic, hour, batch.schema)
            writer = self._open.get(key)
            if writer is None:
                if len(self._open) >= OPEN_FILES_MAX:
                    yield self._close(next(iter(self._open)))
                writer = self._open[key] = self._create(topic, hour, batch.schema)
            writer.waiting.append(part)
            writer.rows += part.num_rows
            writer.waiting_rows += part.num_rows
            writer.waiting_bytes += part.nbytes
            self._waiting_bytes += part.nbytes
            if writer.waiting_rows >= GROUP_ROWS or writer.waiting_bytes >= GROUP_BYTES:
                self._waiting_bytes -= writer.waiting_bytes
                writer.write()
        if self._waiting_bytes > WAITING_BYTES:
            for writer in self._open.values():
                writer.write()
            self._waiting_bytes = 0

    def finish(self) -> Iterator[tuple[DataFile, pa.Schema]]:
        """Completes all files: they are on disk when they are given."""
        for key in list(self._open):
            yield self._close(key)

    def _create(self, topic: str, hour: int, schema: pa.Schema) -> Writer:
        start = datetime.fromtimestamp(hour * 3600, UTC)
        place = folder(topic, start.date().isoformat(), start.hour)
        (self._location / place).mkdir(parents=True, exist_ok=True)
        path = f"{place}/{self._name}-{uuid.uuid4().hex[:8]}.parquet"
        # Keys and values hardly ever repeat; where they do, compression finds it.
        file = parquet.ParquetWriter(self._location / path, schema, compression=self._compression, use_dictionary=False)
        return Writer(topic, hour, path, file)

    def _close(self, key: tuple[str, int, pa.Schema]) -> tuple[DataFile, pa.Schema]:
        writer = self._open.pop(key)
        self._waiting_bytes -= writer.waiting_bytes
        writer.write()
        writer.parquet.close()
        descriptor = os.open(self._location / writer.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            size_bytes = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        start = datetime.fromtimestamp(writer.hour * 3600, UTC)
        file = DataFile(writer.path, writer.topic, start.date().isoformat(), start.hour, writer.rows, size_bytes)
        return file, key[2]
