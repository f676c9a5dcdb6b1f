"""The cases that `spark.py` measures, each with its contestants in turns."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spark_connector import STORED
from spark_latency import latencies
from spark_memory import Peak, write_partition
from spark_read import TOPIC, VALUE_BYTES

from ottla.pipelines import warehouse_load
from ottla.pipelines.frame.config import Source
from ottla.pipelines.frame.progress import Progress
from ottla.pipelines.warehouse_load.load import Config, LoadConfig, TableConfig

sys.path.insert(0, str(Path(__file__).parents[1]))

from benches.suite.figures import ROWS, WORKER, Result
from benches.suite.targets import OURS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

Work = Callable[[], object]
WRITTEN = "written"
TRIGGER_ROWS = 1_000_000
RECORD_BYTES = 103  # in a log


@dataclass(frozen=True)
class Place:
    """Where the records are; `has_connector` unless its jars could not be had."""

    spark: SparkSession
    folder: Path
    directory: Path
    bootstrap: str
    records: int
    has_connector: bool

    @property
    def servers(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap}


@dataclass(frozen=True)
class Turns:
    """How often everything is done, in turns: first to warm up, for Java compiles what runs often."""

    warm_ups: int
    rounds: int

    def run(self, rows: int, works: dict[str, Work]) -> dict[str, list[float]]:
        """Rows per second of each in each round."""
        speeds: dict[str, list[float]] = {name: [] for name in works}
        for number in range(self.warm_ups + self.rounds):
            for name, work in works.items():
                started = time.perf_counter()
                work()
                if number >= self.warm_ups:
                    speeds[name].append(rows / (time.perf_counter() - started))
        return speeds


def _add(result: Result, case: str, ours: list[float], theirs: list[float], stored: str) -> None:
    """A row; the connector's with stored figures if it was not measured."""
    name = "connector" if theirs else "connector (stored)"
    result.rows[case] = {ROWS: {OURS: [*ours], name: [*theirs] or [STORED[stored]] * len(ours)}}


def count(place: Place, turns: Turns, result: Result) -> None:
    def of(kind: str, **options: str) -> Work:
        source = place.spark.read.format(kind).option("subscribe", TOPIC).options(**options)

        def work() -> None:
            assert source.load().count() == place.records

        return work

    works = {"directory": of("ottla", path=str(place.directory)), "broker": of("ottla", **place.servers)}
    if place.has_connector:
        works["connector"] = of("kafka", **place.servers)
    speeds = turns.run(place.records, works)
    for where in ("directory", "broker"):
        _add(result, f"from a {where}", speeds[where], speeds.get("connector", []), "count")


def warehouse(place: Place, turns: Turns, result: Result) -> None:
    tables = (place.folder / f"table-{number}" for number in range(1_000))
    sizes = LoadConfig(records_per_batch=place.records)

    def ours() -> None:
        location = next(tables)
        table = TableConfig(str(location), values="binary", compression="snappy")
        config = Config(Source((TOPIC,), path=str(place.directory)), table, sizes)
        assert warehouse_load.run(place.spark, config, _quiet(place.folder)).records == place.records
        shutil.rmtree(location)

    def theirs() -> None:
        location = next(tables)
        frame = place.spark.read.format("kafka").options(**place.servers).option("subscribe", TOPIC).load()
        frame.write.parquet(str(location))
        shutil.rmtree(location)

    speeds = turns.run(place.records, {OURS: ours} | ({"connector": theirs} if place.has_connector else {}))
    _add(result, "to Parquet, from a directory", speeds[OURS], speeds.get("connector", []), "parquet")


def write(place: Place, turns: Turns, result: Result) -> None:
    records = place.records // 2
    rows = _rows(place, records)
    rows.cache().count()
    kinds = {OURS: "ottla"} | ({"connector": "kafka"} if place.has_connector else {})
    works: dict[str, Work] = {
        name: rows.write.format(kind).mode("append").options(**place.servers, topic=WRITTEN).save
        for name, kind in kinds.items()
    }
    speeds = turns.run(records, works)
    rows.unpersist()
    _add(result, "cached rows", speeds[OURS], speeds.get("connector", []), "write")


def sink(place: Place, turns: Turns, result: Result) -> None:
    """One stream of each that is given a file at a time, so that only its batches are measured."""
    batches = 3 * turns.warm_ups + 2 * turns.rounds
    files = place.folder / "files"
    for number in range(batches):
        _rows(place, TRIGGER_ROWS, number).coalesce(2).write.parquet(str(files / f"n={number}"))
    schema = "key binary, value binary"
    kinds = {OURS: "ottla"} | ({"connector": "kafka"} if place.has_connector else {})
    speeds: dict[str, list[float]] = {}
    for name, kind in kinds.items():
        stream = place.spark.readStream.schema(schema).option("maxFilesPerTrigger", 2)
        query = (
            stream.parquet(str(files))
            .select("key", "value")
            .writeStream.format(kind)
            .options(**place.servers, topic=WRITTEN, checkpointLocation=str(place.folder / f"sink-{kind}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        speeds[name] = _steady(query, turns)
    _add(result, "1 M rows a trigger", speeds[OURS], speeds.get("connector", []), "write")


def stream(place: Place, turns: Turns, result: Result) -> None:
    """Ours alone: Spark's stream readers of one version do not run in another."""
    for number in range(1 - turns.warm_ups, turns.rounds + 1):
        for where, options in (("directory", {"path": str(place.directory)}), ("broker", place.servers)):
            query = (
                place.spark.readStream.format("ottla")
                .options(**options, subscribe=TOPIC, startingOffsets="earliest")
                .option("maxOffsetsPerTrigger", min(TRIGGER_ROWS, place.records // 3))
                .load()
                .writeStream.format("noop")
                .option("checkpointLocation", str(place.folder / f"stream-{where}-{number}"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            if number > 0:
                # Its first batch starts Python processes.
                result.add(
                    OURS, number, {f"1 M rows a trigger, from a {where}": {ROWS: _speed(query.recentProgress[1:])}}
                )


def latency(place: Place, turns: Turns, result: Result) -> None:
    for number in range(1, min(turns.rounds, 2) + 1):
        p50, p99 = latencies(place.spark, place.bootstrap, place.folder, number)
        result.add(OURS, number, {"1,000 a second": {"p50, s": p50, "p99, s": p99}})


def memory(place: Place, turns: Turns, result: Result) -> None:
    sizes_mb = (10, 20) if turns.rounds == 1 else (100, 1_000)
    for size_mb in sizes_mb:
        records = size_mb * 1_000_000 // RECORD_BYTES
        directory = place.folder / f"partition-{size_mb}"
        write_partition(directory, records)
        whole = place.spark.read.format("ottla").options(path=str(directory), subscribe=TOPIC, splitPartitions="false")
        table = TableConfig(str(place.folder / f"memory-{size_mb}"), values="binary")
        config = Config(Source((TOPIC,), path=str(directory)), table, LoadConfig(records_per_batch=records))
        rows = _rows(place, records).coalesce(1).write.format("ottla").mode("append")
        works: dict[str, Work] = {
            "read": lambda source=whole: source.load().count(),  # type: ignore[misc]
            "write": rows.options(**place.servers, topic=WRITTEN).save,
            "load": lambda at=config: warehouse_load.run(place.spark, at, _quiet(place.folder)),  # type: ignore[misc]
        }
        for name, work in works.items():
            with Peak() as peak:
                work()
            result.add(OURS, 1, {f"{size_mb:,} MB, {name}": {WORKER: peak.megabytes}})
        shutil.rmtree(directory)


def _rows(place: Place, records: int, seed: int = 0) -> DataFrame:
    return place.spark.range(0, records, 1, 2).selectExpr(
        "CAST(LPAD(CAST(id AS STRING), 16, '0') AS BINARY) AS key",
        f"CAST(RPAD(CAST(HASH(id, {seed}) AS STRING), {VALUE_BYTES}, 'abcdefghij') AS BINARY) AS value",
    )


def _steady(query: StreamingQuery, turns: Turns) -> list[float]:
    """Speeds of a query's batches, two together, without those to warm up."""
    batches = [each for each in query.recentProgress if each.numInputRows][3 * turns.warm_ups :]
    return [_speed(batches[at : at + 2]) for at in range(0, len(batches) - 1, 2)]


def _speed(batches: list[StreamingQueryProgress]) -> float:
    """Rows per second of batches with rows."""
    found = [each for each in batches if each.numInputRows]
    seconds = sum(each.durationMs["triggerExecution"] for each in found) / 1000
    return sum(each.numInputRows for each in found) / seconds


def _quiet(folder: Path) -> Progress:
    return Progress("warehouse_load", (folder / "progress.log").open("a"))


@dataclass(frozen=True)
class Case:
    """`reads_topic`: needs the records in a broker as well."""

    title: str
    load: str
    measure: Callable[[Place, Turns, Result], None]
    reads_topic: bool = True


CASES = {
    "count": Case("Count of all seven columns", "Spark batch", count),
    "warehouse": Case(
        "Topic to Parquet: `warehouse_load`, and the connector's frame written", "Spark batch", warehouse
    ),
    "write": Case("Cached rows to a topic: in transactions, and at least once", "Spark batch", write, False),
    "sink": Case("Parquet files to a topic: exactly once, and at least once", "Spark stream", sink, False),
    "stream": Case("A stream of all seven columns", "Spark stream into noop", stream),
    "latency": Case("From append to visible for readers of committed records", "topic to topic", latency, False),
    "memory": Case("Python workers, one task for the whole partition", "Spark batch", memory, False),
}
