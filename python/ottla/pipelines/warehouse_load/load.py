"""The batches of a load, on the driver."""

import base64
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import pyarrow as pa

from ottla.client import TopicPartition
from ottla.errors import counted
from ottla.pipelines.frame.config import PipelineError, Positive, Source
from ottla.pipelines.frame.progress import Progress
from ottla.pipelines.tables import Position, Table, only_loader, open_table
from ottla.pipelines.tables.arrow import merged
from ottla.pipelines.tables.table import Format
from ottla.pipelines.warehouse_load import tasks
from ottla.spark.filters import Wanted
from ottla.spark.options import parse
from ottla.spark.places import place
from ottla.spark.planning import Range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = """\
picture = "warehouse.png"       # may be left out

[source]
bootstrap = "127.0.0.1:9092"    # or path = "DATA_DIRECTORY" to read log files
topics = ["activity"]

[table]
location = "warehouse/activity"
format = "parquet"              # parquet (with a manifest), delta or iceberg
values = "json"                 # json: fields become columns; binary: as they are
compression = "zstd"            # zstd, lz4, snappy or none

[load]
records_per_batch = 2_000_000
every_s = 0                     # look again after so many seconds; 0: end when all is loaded
on_data_loss = "fail"           # fail, or continue with the first record that is still there
"""


class TableConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the records go to."""

    location: str
    format: Format = "parquet"
    values: Literal["json", "binary"] = "json"
    compression: Literal["zstd", "lz4", "snappy", "none"] = "zstd"


class LoadConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How they go there."""

    records_per_batch: Positive = 2_000_000
    every_s: Annotated[float, msgspec.Meta(ge=0)] = 0
    on_data_loss: Literal["fail", "continue"] = "fail"


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See `EXAMPLE`."""

    source: Source
    table: TableConfig
    load: LoadConfig = LoadConfig()
    picture: str | None = None


@dataclass(slots=True)
class Loaded:
    """The work of a run; `hours` are records by (topic, date, hour)."""

    batches: int = 0
    records: int = 0
    files: int = 0
    size_bytes: int = 0
    hours: dict[tuple[str, str, int], int] = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"{counted(self.records, 'record')} in {counted(self.batches, 'batch', 'batches')}, "
            f"{counted(self.files, 'file')}, {counted(self.size_bytes, 'byte')}"
        )


def run(spark: "SparkSession", config: Config, progress: Progress | None = None) -> Loaded:
    """Loads what is there and not yet in the table; with `every_s`, goes on until interrupted.

    Raises:
        PipelineError: records are lost, another loader is at work, or a package is missing.
        KafkaError, OSError: brokers or files cannot be read.
    """
    progress = progress or Progress("warehouse_load")
    location = Path(config.table.location)
    loaded = Loaded()
    with only_loader(location):
        table = open_table(config.table.format, location)
        if removed := table.recover():
            progress.note(f"removed {counted(removed, 'file')} of a batch that was not committed")
        while True:
            while _batch(spark, config, table, loaded, progress):
                pass
            if not config.load.every_s:
                break
            time.sleep(config.load.every_s)
    if config.picture is not None and loaded.hours:
        from ottla.pipelines.warehouse_load.picture import draw

        draw(loaded.hours, config.table.location, Path(config.picture))
    return loaded


def _batch(spark: "SparkSession", config: Config, table: Table, loaded: Loaded, progress: Progress) -> bool:
    """Loads the next batch; False if there is nothing left."""
    there = _there(config)
    position = table.position(each.partition for each in there)
    todo = remaining(there, position.offsets, must_be_complete=config.load.on_data_loss == "fail")
    ranges = first_of(todo, config.load.records_per_batch)
    if not ranges:
        return False
    records = sum(each.offsets for each in ranges)
    epoch = position.epoch + 1
    progress.begins(epoch, records, sum(each.offsets for each in todo) - records)
    known = table.schema()
    found = tasks.run(spark, _job(config, table, epoch, ranges, known))
    schema = merged(known, [each for _, each in found])
    if any(each.field(name).type != schema.field(name).type for _, each in found for name in each.names):
        # Tasks saw a new column differently: once more, with what it shall be.
        for file, _ in found:
            (Path(config.table.location) / file.path).unlink()
        found = tasks.run(spark, _job(config, table, epoch, ranges, schema))
        schema = merged(schema, [each for _, each in found])
    files = [file for file, _ in found]
    ends = {each.partition: each.end for each in ranges}
    table.commit(Position(epoch, {**position.offsets, **ends}), files, schema)
    rows = sum(file.rows for file in files)
    loaded.batches += 1
    loaded.records += rows
    loaded.files += len(files)
    loaded.size_bytes += sum(file.size_bytes for file in files)
    for file in files:
        hour = (file.topic, file.date, file.hour)
        loaded.hours[hour] = loaded.hours.get(hour, 0) + file.rows
    progress.done(epoch, rows, counted(len(files), "file"))
    return True


def _there(config: Config) -> list[Range]:
    """All that the topics have now."""
    options = parse(config.source.reading())
    return place(options).resolve(options, Wanted())


def remaining(there: Sequence[Range], offsets: Mapping[TopicPartition, int], *, must_be_complete: bool) -> list[Range]:
    """The parts of the ranges in `there` that lie behind these offsets.

    Raises:
        PipelineError: records behind the offsets are gone, or the offsets lie behind the end: another topic, or one
            that was deleted and made anew.
    """
    todo = []
    for each in there:
        start = offsets.get(each.partition, each.start)
        if start > each.end:
            raise PipelineError(
                f"{each.partition} ends at offset {each.end}, but the table has its records up to {start}: this is "
                "another topic of the same name. Load it into another table"
            )
        if start < each.start:
            if must_be_complete:
                raise PipelineError(
                    f"{each.partition} begins at offset {each.start} by now, and {start} is the next to load: "
                    'records were deleted before. load.on_data_loss = "continue" goes on without them'
                )
            start = each.start
        if start < each.end:
            share = (each.end - start) / each.offsets
            todo.append(replace(each, start=start, size_bytes=max(1, round(each.size_bytes * share))))
    return todo


def first_of(todo: Sequence[Range], records_max: int) -> list[Range]:
    """About `records_max` offsets from the beginning of the ranges, of each in proportion; at least one of each."""
    total = sum(each.offsets for each in todo)
    if total <= records_max:
        return list(todo)
    parts = []
    for each in todo:
        offsets = min(each.offsets, max(1, each.offsets * records_max // total))
        size_bytes = max(1, each.size_bytes * offsets // each.offsets)
        parts.append(replace(each, end=each.start + offsets, size_bytes=size_bytes))
    return parts


def _job(config: Config, table: Table, epoch: int, ranges: Sequence[Range], known: pa.Schema | None) -> tasks.Job:
    columns = pa.schema([]) if known is None else known
    return tasks.Job(
        reading=config.source.reading(),
        ranges=list(ranges),
        location=str(Path(config.table.location).resolve()),
        prefix=table.staged_prefix,
        epoch=epoch,
        has_json=config.table.values == "json",
        has_topic=table.has_topic_column,
        compression=config.table.compression,
        columns=base64.b64encode(columns.serialize().to_pybytes()).decode(),
    )
