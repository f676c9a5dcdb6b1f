"""`spark.read`: one DataFrame's read, and the tasks that batches and streams have in common."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ottla.spark.filters import Wanted
from ottla.spark.options import ReadOptions
from ottla.spark.places import place
from ottla.spark.planning import Range, plan, plan_whole
from ottla.spark.sentences import plain_errors

if TYPE_CHECKING:
    import pyarrow as pa


class Task(InputPartition):
    """The ranges that one Spark task reads, in order."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)


def tasks(options: ReadOptions, ranges: Iterable[Range]) -> list[InputPartition]:
    """How Spark is to read these ranges."""
    planned = (
        plan(ranges, options.partitions_min, options.records_per_partition_max)
        if options.splits_partitions
        else plan_whole(ranges)
    )
    return [Task(each) for each in planned]


def read(options: ReadOptions, names: Sequence[str], partition: InputPartition) -> Iterator["pa.RecordBatch"]:
    """The records of one task; of none if Spark had nothing to plan and calls all the same."""
    if isinstance(partition, Task):
        yield from place(options).read(options, partition.ranges, names)


@plain_errors
class BatchReader(DataSourceReader):
    """One DataFrame's read. Picklable: it is planned in one process and runs in others."""

    def __init__(self, options: ReadOptions, names: tuple[str, ...]) -> None:
        self.options = options
        self.names = names
        self.wanted = Wanted()

    def partitions(self) -> list[InputPartition]:
        """Decides which offsets are read, and by how many tasks."""
        return tasks(self.options, place(self.options).resolve(self.options, self.wanted))

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The records of one task's ranges."""
        yield from read(self.options, self.names, partition)


class FilteringReader(BatchReader):
    """The same with filters from Spark. A class of its own, because Spark refuses readers that have `pushFilters` while
    `spark.sql.python.filterPushdown.enabled` is off, as it is unless somebody sets it.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Takes filters before `partitions` is called; gives those that Spark applies itself."""
        return self.wanted.push(filters)
