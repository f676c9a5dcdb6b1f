"""The counts of one span of windows, in Spark: what was produced, what is in the log, what is in the table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ottla.client import TopicPartition
from ottla.pipelines.frame.config import PipelineError, Source
from ottla.spark.planning import Range

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

MESSAGE = "producer string, instance string, number long, topic string, start long, end long, count long, checksum long"
LOG_COLUMNS = "value binary, topic string, partition int, offset long, timestamp timestamp"
# The table's columns, by what warehouse_load made of the values.
JSON_COLUMNS = {"partition": "_partition", "offset": "_offset", "timestamp": "_timestamp"}
BINARY_COLUMNS = {"partition": "partition", "offset": "offset", "timestamp": "timestamp"}

Key = tuple[str, str, int]
"""Topic, producer ("" where nobody asks for it) and start of a window in ms."""


def produced(
    spark: SparkSession, reading: Mapping[str, str], window_ms: int, per_producer: bool
) -> dict[Key, tuple[int, int]]:
    """Count and checksum of each window that producers have reported.

    Raises:
        PipelineError: a message's window is in none of the audit's.
    """
    from pyspark.sql import functions as f

    message = f.from_json(f.col("value").cast("string"), MESSAGE)
    messages = (
        spark.read.format("ottla")
        .options(**reading)
        .schema("value binary")
        .load()
        .select(message.alias("message"))
        .select("message.*")
        .where("topic is not null and start is not null and count is not null")
        .dropDuplicates(["producer", "instance", "number"])
        .withColumn("window", f.floor(f.col("start") / window_ms).cast("long") * window_ms)
        .withColumn("who", f.coalesce("producer", f.lit("")) if per_producer else f.lit(""))
    )
    rows = (
        messages.groupBy("topic", "who", "window")
        .agg(
            f.sum("count").alias("count"),
            f.sum("checksum").alias("checksum"),
            f.max(f.col("end") - f.col("window")).alias("length"),
        )
        .toArrow()
        .to_pylist()
    )
    for row in rows:
        if row["length"] is not None and row["length"] > window_ms:
            raise PipelineError(
                f"window_s is {window_ms // 1000}, but a producer of {row['topic']} counts in windows that reach over "
                f"the end of the one that begins at {shown(row['window'])}: let window_s be a multiple of theirs"
            )
    return {(row["topic"], row["who"], row["window"]): (row["count"], row["checksum"] or 0) for row in rows}


def shown(time_ms: int) -> str:
    """A time for people, such as 2026-01-05 13:10 (UTC)."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def in_log(
    spark: SparkSession, source: Source, ranges: Sequence[Range], id_field: str, producer_field: str | None
) -> DataFrame:
    """The records of these ranges: `topic`, `partition`, `offset`, `timestamp`, `who` and `id`."""
    from pyspark.sql import functions as f

    assigned: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for each in ranges:
        topic, number = each.partition
        assigned.setdefault(topic, []).append(number)
        starts.setdefault(topic, {})[str(number)] = each.start
        ends.setdefault(topic, {})[str(number)] = each.end
    reading = {name: value for name, value in source.reading().items() if name != "subscribe"}
    reading |= {
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
    }
    records = spark.read.format("ottla").options(**reading).schema(LOG_COLUMNS).load()
    place = {name: f.col(name) for name in ("topic", *BINARY_COLUMNS)}
    return _named(records, place, *_of_value(id_field, producer_field))


def in_table(
    spark: SparkSession, topic: str, files: Sequence[str], schema: pa.Schema, id_field: str, producer_field: str | None
) -> DataFrame:
    """The same columns of a topic's files; `schema` is the table's.

    Raises:
        PipelineError: the table does not have what is compared.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructType

    is_json = "_offset" in schema.names
    given = JSON_COLUMNS if is_json else BINARY_COLUMNS
    if is_json and not id_field:
        raise PipelineError(
            'id is "", the whole value, which a table of JSON columns does not have: name a field that tells records '
            'apart, or load the table with table.values = "binary"'
        )
    fields = [each for each in (id_field, producer_field) if each] if is_json else ["value"]
    wanted = StructType()
    for name in (*given.values(), *fields):
        if name not in schema.names:
            raise PipelineError(f"the table has no column {name!r}; it has {', '.join(sorted(schema.names))}")
        wanted.add(name, from_arrow_type(schema.field(name).type, prefer_timestamp_ntz=False))
    # Files that are older than a column lack it, and have nulls there.
    records = spark.read.schema(wanted).parquet(*files)
    if is_json:
        own = f.col(id_field).cast("string")
        who = f.col(producer_field).cast("string") if producer_field else f.lit("")
    else:
        own, who = _of_value(id_field, producer_field)
    place = {"topic": f.lit(topic), **{name: f.col(column) for name, column in given.items()}}
    return _named(records, place, own, who)


def _of_value(id_field: str, producer_field: str | None) -> tuple[Column, Column]:
    from pyspark.sql import functions as f

    text = f.col("value").cast("string")
    own = f.get_json_object(text, f"$.{id_field}") if id_field else text
    return own, f.get_json_object(text, f"$.{producer_field}") if producer_field else f.lit("")


def _named(records: DataFrame, place: Mapping[str, Column], own: Column, who: Column) -> DataFrame:
    """Where each record is, who produced it and what its id is. What has no id is what it is by its place alone."""
    from pyspark.sql import functions as f

    known = records.select(*(column.alias(name) for name, column in place.items()), own.alias("own"), who.alias("by"))
    return known.select(
        *place,
        f.coalesce("by", f.lit("")).alias("who"),
        f.coalesce("own", f.concat_ws(":", "partition", "offset")).alias("id"),
    )


def counted(log: DataFrame, table: DataFrame | None, start_ms: int, end_ms: int, window_ms: int) -> DataFrame:
    """Per topic, producer and window: what is in the log, and what the table makes of it."""
    from pyspark.sql import functions as f

    columns = ("topic", "who", "id")
    time = f.unix_millis("timestamp")
    window = (f.floor(time / window_ms).cast("long") * window_ms).alias("window")
    inside = (time >= start_ms) & (time < end_ms)
    both = log.where(inside).select(*columns, window, f.lit(1).alias("logged"), f.lit(0).alias("loaded"))
    if table is not None:
        both = both.unionByName(
            table.where(inside).select(*columns, window, f.lit(0).alias("logged"), f.lit(1).alias("loaded"))
        )
    logged, loaded = f.col("logged"), f.col("loaded")

    def total(value: Column) -> Column:
        return f.coalesce(f.sum(value), f.lit(0)).cast("long")

    return (
        both.groupBy(*columns, "window")
        .agg(f.sum("logged").alias("logged"), f.sum("loaded").alias("loaded"))
        .groupBy("topic", "who", "window")
        .agg(
            total(logged).alias("broker"),
            total(f.when(logged > 0, 1)).alias("different"),
            total(f.when(logged > 0, f.crc32("id"))).alias("checksum"),
            total(loaded).alias("warehouse"),
            total(f.greatest(logged - loaded, f.lit(0))).alias("warehouse_missing"),
            total(f.when(logged > 0, f.greatest(loaded - logged, f.lit(0)))).alias("warehouse_double"),
            total(f.when(logged == 0, loaded)).alias("warehouse_foreign"),
        )
    )


def before(table: DataFrame, ends: Mapping[TopicPartition, int]) -> DataFrame:
    """The rows whose records lay in the log by the end of the ranges, and those that name no record of it."""
    from pyspark.sql import functions as f

    pairs: list[Any] = []
    for partition, end in ends.items():
        pairs += [f.lit(f"{partition.topic}/{partition.partition}"), f.lit(end)]
    limit = f.create_map(*pairs)[f.concat_ws("/", "topic", "partition")]
    return table.where(limit.isNull() | f.col("offset").isNull() | (f.col("offset") < limit))
