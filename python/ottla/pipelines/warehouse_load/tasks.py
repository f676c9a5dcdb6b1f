"""Spark's tasks: they read offset ranges, write files, and tell the driver which.

The records never pass through the JVM: the task decodes them into Arrow and writes Parquet itself, and only a row per
file goes back. For Spark this is a data source whose rows are the files. A batch costs one Spark job.
"""

import base64
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ottla.pipelines.tables.table import DataFile
from ottla.pipelines.warehouse_load.files import Files
from ottla.spark.options import parse
from ottla.spark.places import place
from ottla.spark.planning import Range, plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

NAME = "ottla_warehouse_load"
RECORD_COLUMNS = ("key", "value", "partition", "offset", "timestamp")
ROWS = pa.schema([("file", pa.string()), ("schema", pa.binary())])


class Job(msgspec.Struct, frozen=True):
    """One batch. `reading` are options of the source, `columns` the serialized schema of the table in base64."""

    reading: dict[str, str]
    ranges: list[Range]
    location: str
    prefix: str
    epoch: int
    has_json: bool
    has_topic: bool
    compression: str
    columns: str

    def schema(self) -> pa.Schema:
        """The columns of the table so far."""
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.columns)))


def run(spark: "SparkSession", job: Job) -> list[tuple[DataFile, pa.Schema]]:
    """Runs a batch's tasks and returns their files, each with its columns."""
    spark.dataSource.register(Loading)
    rows = spark.read.format(NAME).option("job", msgspec.json.encode(job).decode()).load().collect()
    return [
        (msgspec.json.decode(row["file"], type=DataFile), pa.ipc.read_schema(pa.py_buffer(bytes(row["schema"]))))
        for row in rows
    ]


class Loading(DataSource):
    """The data source behind `run`."""

    @classmethod
    def name(cls) -> str:
        """Its name for Spark."""
        return NAME

    def schema(self) -> str:
        """A row per file."""
        return "file string, schema binary"

    def reader(self, schema: "StructType") -> "Reader":
        """The batch's tasks."""
        return Reader(self.options["job"])


class Task(InputPartition):
    """Its number, and what it reads."""

    def __init__(self, number: int, ranges: Sequence[Range]) -> None:
        super().__init__(number)
        self.ranges = ranges


class Reader(DataSourceReader):
    """Plans the tasks and runs one."""

    def __init__(self, job: str) -> None:
        self.job = job

    def partitions(self) -> list[InputPartition]:
        """By bytes, as the source does."""
        job = msgspec.json.decode(self.job, type=Job)
        options = parse(job.reading)
        tasks = plan(job.ranges, options.partitions_min, options.records_per_partition_max)
        return [Task(number, ranges) for number, ranges in enumerate(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads and writes; yields a row per finished file."""
        if not isinstance(partition, Task):
            return
        rows = list(write(msgspec.json.decode(self.job, type=Job), partition.value, partition.ranges))
        files = [msgspec.json.encode(file).decode() for file, _ in rows]
        schemas = [schema.serialize().to_pybytes() for _, schema in rows]
        yield pa.RecordBatch.from_arrays([pa.array(files, pa.string()), pa.array(schemas, pa.binary())], schema=ROWS)


def write(job: Job, number: int, ranges: Sequence[Range]) -> Iterator[tuple[DataFile, pa.Schema]]:
    """The work of one task: all of it, in order."""
    options = parse(job.reading)
    known = job.schema()
    files = Files(Path(job.location), prefix=job.prefix, epoch=job.epoch, task=number, compression=job.compression)
    for topic, of in groupby(ranges, key=lambda each: each.partition.topic):
        for batch in place(options).read(options, list(of), RECORD_COLUMNS):
            if not batch.num_rows:
                continue
            shaped = batch
            if job.has_json:
                shaped = _json(batch, known)
                known = shaped.schema
            if job.has_topic:
                constant = pa.repeat(pa.scalar(topic, pa.string()), batch.num_rows)
                shaped = shaped.append_column("topic", constant) if "topic" not in shaped.schema.names else shaped
            yield from files.add(topic, shaped, batch["timestamp"])
    yield from files.finish()


def _json(batch: pa.RecordBatch, known: pa.Schema) -> pa.RecordBatch:
    """The record's own columns, then those of its value. Columns that have been seen stay, in the same order."""
    from ottla.pipelines.warehouse_load.json_columns import columns

    inner = columns(batch["value"], known)
    own = {f"_{name}": batch[name] for name in RECORD_COLUMNS if name != "value"}
    fields = [pa.field(name, array.type) for name, array in own.items()]
    return pa.RecordBatch.from_arrays([*own.values(), *inner.columns], schema=pa.schema([*fields, *inner.schema]))
