"""Visits of a web site with Spark: how many each page has, and a topic of those that failed."""

from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

FAILED = "CAST(split_part(CAST(value AS STRING), ' ', 2) AS INT) >= 500"


def count(spark: SparkSession, servers: str, topic: str) -> Counter[str]:
    """How many visits each page has had until now. A visit is a record such as `/pears 200`: a page, and a status."""
    visits = spark.read.format("ottla").options(**{"kafka.bootstrap.servers": servers, "subscribe": topic}).load()
    pages = visits.selectExpr("split_part(CAST(value AS STRING), ' ', 1) AS page").groupBy("page").count()
    return Counter(dict(map(tuple, pages.collect())))


def copy_failed(spark: SparkSession, servers: str, topic: str, failed: str, checkpoint: Path) -> None:
    """Copies the visits with a status of 500 or more to another topic, each of them once: those that have come since
    the last call with the same checkpoint, even if that one was killed.
    """
    broker = {"kafka.bootstrap.servers": servers}
    options = {**broker, "subscribe": topic, "startingOffsets": "earliest"}
    visits = spark.readStream.format("ottla").options(**options).load()
    out = visits.where(FAILED).select("key", "value").writeStream.format("ottla").options(**broker, topic=failed)
    query = out.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()


def read(spark: SparkSession, servers: str, topic: str) -> list[str]:
    """The values of a topic, in the order of their offsets. Only those that were committed."""
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "isolation.level": "read_committed"}
    rows = spark.read.format("ottla").options(**options).load().orderBy("offset")
    return [str(value) for (value,) in rows.selectExpr("CAST(value AS STRING)").collect()]
