"""Ottla for Spark: `spark.read.format("ottla")`, without a jar.

    from ottla.spark import session
    spark = session()
    frame = (
        spark.read.format("ottla")
        .option("kafka.bootstrap.servers", "127.0.0.1:9092")
        .option("subscribe", "requests")
        .load()
    )

The options and the columns are those of Spark's own Kafka source. With `.option("path", DATA_DIRECTORY)` instead of
brokers, Spark's tasks read the log files themselves. What "latest" is gets decided at the first action of a DataFrame
and stays so for that DataFrame; `CREATE TABLE ... USING ottla` gives a table that looks again at each query.

`df.write.format("ottla")` and `df.writeStream.format("ottla")` write, exactly once unless told otherwise
(`ottla.spark.sink`).
"""

from typing import TYPE_CHECKING

from ottla.spark.local import session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener, StreamingQueryProgress

__all__ = ["offsets_behind", "publish_offsets", "register", "session"]


def register(spark: "SparkSession") -> None:
    """Registers the source with a session that did not find it by name: one that had looked before this package was
    installed.
    """
    from ottla.spark.source import OttlaDataSource

    spark.dataSource.register(OttlaDataSource)


def publish_offsets(
    spark: "SparkSession", options: "Mapping[str, str]", *, query: str | None = None
) -> "StreamingQueryListener":
    """From now on commits the offsets of streaming queries to consumer groups, so that lag tools see the queries.

    `options` are those of the source: `kafka.bootstrap.servers`, and for the group's name `kafka.group.id` (then
    `query` must say of which query, by its name or id) or `groupIdPrefix`; without either it is `spark-kafka-source-`
    and the query's id. `spark.streams.removeListener` ends it.
    """
    from ottla.spark.lag import OffsetPublisher

    listener = OffsetPublisher(options, query)
    spark.streams.addListener(listener)
    return listener


def offsets_behind(progress: "StreamingQueryProgress") -> dict[str, float]:
    """How far a streaming query is behind the ends of the partitions, by its `lastProgress`: `minOffsetsBehindLatest`,
    `maxOffsetsBehindLatest` and `avgOffsetsBehindLatest` of a partition. Empty without a source of ours.
    """
    from ottla.spark import lag

    return lag.offsets_behind(progress)
