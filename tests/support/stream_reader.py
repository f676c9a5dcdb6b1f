"""Spark's stream reader without Spark."""

from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from ottla.spark.limits import Use
from ottla.spark.options import parse
from ottla.spark.stream import StreamReader
from tests.spark.topics import Topics

EVERYTHING = ReadAllAvailable()


def reader(topics: Topics, side: str = "brokers", **options: object) -> StreamReader:
    here = {"kafka.bootstrap.servers": topics.bootstrap} if side == "brokers" else {"path": str(topics.data)}
    given = {**here, "fetchOffset.retryIntervalMs": 1, **options}
    return StreamReader(parse({name: str(value) for name, value in given.items()}, Use.STREAM), ("topic", "offset"))


def offsets(source: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    return [
        offset
        for task in source.partitions(start, end)
        for batch in source.read(task)
        for offset in batch["offset"].to_pylist()
    ]
