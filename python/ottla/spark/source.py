"""`spark.read.format("ottla")`: what Spark calls, and when.

| Spark calls            | where and how often                              | so here                                 |
|------------------------|--------------------------------------------------|-----------------------------------------|
| `schema`               | once per load(), in a short-lived Python process | options are checked; no broker is asked |
| `reader`, `partitions` | once per DataFrame that is run, in another       | offsets are resolved, and stay so       |
| `read`                 | once per task, again when a task is repeated     | only what the task was given; no state  |

`read` yields Arrow record batches and nothing else: tuples cost ten times as much. Spark compares the first batch's
schema exactly. When `partitions` returns an empty list, Spark calls `read` all the same, with a partition that holds
None.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ottla.spark import schema as columns
from ottla.spark.options import ReadOptions, parse
from ottla.spark.planning import Range, plan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class OttlaDataSource(DataSource):
    """Records of topics, from brokers or from a data directory. The options are in `ottla.spark.options`."""

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "ottla"

    def schema(self) -> str:
        """All columns; a user's schema takes some of them (`ottla.spark.schema`)."""
        return columns.ddl(parse(self.options).include_headers)

    def reader(self, schema: "StructType") -> "BatchReader":
        """A batch read of the columns of `schema`."""
        options = parse(self.options)
        return BatchReader(options, columns.check(schema, options.include_headers))


class Task(InputPartition):
    """What one Spark task reads, in order."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)


class BatchReader(DataSourceReader):
    """One DataFrame's read. Picklable: it is planned in one process and runs in others."""

    def __init__(self, options: ReadOptions, names: tuple[str, ...]) -> None:
        self.options = options
        self.names = names

    def partitions(self) -> list[InputPartition]:
        """Decides which offsets are read, and by how many tasks."""
        if self.options.path is not None:
            from ottla.spark.directory import resolve
        else:
            from ottla.spark.brokers import resolve
        tasks = plan(resolve(self.options), self.options.partitions_min, self.options.records_per_partition_max)
        return [Task(ranges) for ranges in tasks]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The records of one task's ranges."""
        if not isinstance(partition, Task):
            return
        if self.options.path is not None:
            from ottla.spark.directory import read
        else:
            from ottla.spark.brokers import read
        yield from read(self.options, partition.ranges, self.names)
