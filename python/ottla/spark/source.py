"""`format("ottla")`: what Spark calls, and when. `ottla.spark.batch` and `ottla.spark.stream` do it.

| Spark calls            | where and how often                              | so here                                 |
|------------------------|--------------------------------------------------|-----------------------------------------|
| `schema`               | once per load(), in a short-lived Python process | options are checked; no broker is asked |
| `reader`, `partitions` | once per DataFrame that is run, in another       | offsets are resolved, and stay so       |
| `streamReader`         | once per run of a query, in a process of its own | that process remembers between batches  |
| `read`                 | once per task, again when a task is repeated     | only what the task was given; no state  |

`read` yields Arrow record batches and nothing else: tuples cost ten times as much. Spark compares the first batch's
schema exactly. When `partitions` returns an empty list, Spark calls `read` all the same, with a partition that holds
None.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, DataSourceWriter

from ottla.spark import catalog
from ottla.spark import schema as columns
from ottla.spark.batch import BatchReader, FilteringReader
from ottla.spark.limits import Use
from ottla.spark.options import ReadOptions, parse
from ottla.spark.sentences import plain_errors
from ottla.spark.stream import StreamReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@plain_errors
class OttlaDataSource(DataSource):
    """Records of topics, from brokers or from a data directory. The options are in `ottla.spark.options`."""

    @classmethod
    def name(cls) -> str:
        """The name that `format` takes."""
        return "ottla"

    def schema(self) -> "StructType":
        """All columns; a user's schema takes some of them (`ottla.spark.schema`)."""
        options = parse(self.options, Use.EITHER)
        names = columns.names(options.include_headers, self.options.get("columns"))
        if catalog.is_table(self.options):
            return catalog.schema(self.options, names)
        return columns.struct(names)

    def _options(self, schema: "StructType", use: Use) -> ReadOptions:
        """The options, checked; the schema is the one that `schema()` gave, unless the user gave one."""
        given = catalog.options_of(schema, self.options)
        options = parse(given, use)
        chosen = given.get("columns")
        if chosen is not None and tuple(schema.fieldNames()) != columns.names(options.include_headers, chosen):
            raise ValueError("the option columns and the schema contradict each other: one of them is enough")
        return options

    def reader(self, schema: "StructType") -> "BatchReader":
        """A batch read of the columns of `schema`."""
        options = self._options(schema, Use.BATCH)
        kind = FilteringReader if options.pushdown else BatchReader
        return kind(options, columns.check(schema, options.include_headers))

    def streamReader(self, schema: "StructType") -> "StreamReader":
        """A stream of the columns of `schema`."""
        options = self._options(schema, Use.STREAM)
        return StreamReader(options, columns.check(schema, options.include_headers))

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        """A batch write; see `ottla.spark.sink`."""
        from ottla.spark.sink.writer import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> DataSourceStreamWriter:
        """A streaming write; see `ottla.spark.sink`."""
        from ottla.spark.sink.writer import stream_writer

        return stream_writer(self.options, schema)
