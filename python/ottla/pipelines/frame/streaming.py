"""The common part of streaming pipelines: events out of a topic, and results into a table, batch by batch."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from ottla.pipelines.frame.config import Positive, Source
from ottla.pipelines.frame.progress import Progress
from ottla.pipelines.tables.results import Results, query_id

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# What `ottla generate` writes; other fields are not looked at.
ACTIVITY = (
    "id long, type string, time long, member long, client string, service string, status int, latency_ms int, "
    "item long, position int, impression long, page string"
)
# address identity user [17/May/2015:10:05:03 +0000] "GET /path?query HTTP/1.1" 200 size "referrer" "agent"
# A line may be cut off in its agent.
REQUEST = r'^(\S+) [^\[]*\[([^\]]+)\] "\S+ ([^ "?]+)[^"]*" (\d{3}) \S+(?: "[^"]*" "([^"]*))?'
REQUEST_TIME = "dd/MMM/yyyy:HH:mm:ss Z"

# What Spark says of a Python process that was not there within ten seconds, a limit that cannot be set.
TOO_SLOW = "Python worker failed to connect back"
STARTS_MAX = 5

Format = Literal["activity", "access_log"]


@dataclass(frozen=True, slots=True)
class Batch:
    """The results of one micro-batch, which are few. Repeated after a crash it has the same number and rows."""

    spark: "SparkSession"
    query_id: str
    number: int
    rows: "pa.Table"

    def frame(self) -> "DataFrame":
        """The rows, for Spark."""
        return self.spark.createDataFrame(self.rows)


class Stream(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a stream runs. `late_s`: events may arrive so much later than later ones; results wait for so long."""

    checkpoint: str
    records_per_batch: Positive = 1_000_000
    every_s: Annotated[float, msgspec.Meta(ge=0)] = 0
    late_s: Annotated[float, msgspec.Meta(ge=0)] = 1800


STREAM_EXAMPLE = """\
[source]
bootstrap = "127.0.0.1:9092"    # or path = "DATA_DIRECTORY" to read log files
topics = ["activity"]

[stream]
checkpoint = "{name}/checkpoint"
records_per_batch = 1_000_000
every_s = 0                     # a batch every so many seconds; 0: end when all is read
late_s = 1800                   # how much later than others an event may arrive; results wait for so long
"""


def records(spark: "SparkSession", source: Source, stream: Stream, columns: str = "value binary") -> "DataFrame":
    """A stream of the topics' records, from their beginning; `columns` are those of them that are read."""
    reader = spark.readStream.format("ottla").option("maxOffsetsPerTrigger", stream.records_per_batch)
    for name, value in ({"startingOffsets": "earliest"} | source.reading()).items():
        reader = reader.option(name, value)
    return reader.schema(columns).load()


def activity(values: "DataFrame", late_s: float) -> "DataFrame":
    """Events of JSON values, each once, with `time` as a timestamp; values that are no events are left out."""
    from pyspark.sql import functions as f

    event = f.from_json(f.col("value").cast("string"), ACTIVITY)
    return (
        values.select(event.alias("event"))
        .select("event.*")
        .where("id is not null and time is not null")
        .withColumn("time", f.timestamp_millis("time"))
        .withWatermark("time", f"{late_s} seconds")
        .dropDuplicatesWithinWatermark(["id"])
    )


def requests(values: "DataFrame", late_s: float) -> "DataFrame":
    """Requests of lines of an access log: `time`, `client`, `page`, `status`, `agent`; other lines are left out."""
    from pyspark.sql import functions as f

    line = f.col("value").cast("string")
    parts = ("client", "time", "page", "status", "agent")
    columns = [f.regexp_extract(line, REQUEST, group).alias(name) for group, name in enumerate(parts, 1)]
    return (
        values.select(*columns)
        .where("client != ''")
        .withColumn("time", f.to_timestamp("time", REQUEST_TIME))
        .withColumn("status", f.col("status").cast("int"))
        .withWatermark("time", f"{late_s} seconds")
    )


def run(
    results: "DataFrame",
    stream: Stream,
    table: Path,
    progress: Progress,
    also: Callable[[Batch], object] | None = None,
) -> Results:
    """Runs a stream until all is read, or for ever with `every_s`. Each batch's rows go to the table once.

    `also` is given each batch before its rows are in the table, and again if it is repeated: what it does must bear
    that, as `Topic.write` does.
    """
    progress.unit = "results"
    checkpoint = Path(stream.checkpoint).resolve()
    written = Results(table, checkpoint)

    def each(frame: "DataFrame", batch: int) -> None:
        progress.begins(batch + 1, None)
        rows = frame.toArrow()
        if rows.num_rows and not written.has(batch):
            if also is not None:
                also(Batch(frame.sparkSession, query_id(checkpoint), batch, rows))
            written.commit(batch, rows)
        progress.done(batch + 1, rows.num_rows)

    writer = results.writeStream.foreachBatch(each).outputMode("append").option("checkpointLocation", str(checkpoint))
    trigger = {"processingTime": f"{stream.every_s} seconds"} if stream.every_s else {"availableNow": True}
    _run_to_end(writer.trigger(**trigger))  # type: ignore[arg-type, unused-ignore]
    return written


def _run_to_end(writer: "DataStreamWriter") -> None:
    """Runs a query; again, from its checkpoint, if a new Python process was too slow for Spark on a busy machine."""
    from pyspark.errors import StreamingQueryException

    for attempt in range(1, STARTS_MAX + 1):
        try:
            writer.start().awaitTermination()
            return
        except StreamingQueryException as problem:
            if attempt == STARTS_MAX or TOO_SLOW not in str(problem):
                raise
