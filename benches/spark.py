"""Spark with Ottla's source and sink beside Spark's own Kafka connector: `make bench-spark`, or
`python benches/spark.py [--only NAME,NAME] [--records N] [--write FILE]`.

| name        | what                                                                                     |
|-------------|------------------------------------------------------------------------------------------|
| `directory` | count() of all seven columns from a data directory; the connector's from a broker        |
| `broker`    | count() of all seven columns from a broker                                               |
| `warehouse` | `warehouse_load` from a directory, values as they are; the connector's Parquet write     |
| `write`     | cached rows to a topic, exactly once; the connector's at least once                      |
| `stream`    | a stream from a directory into `noop`, 1 M rows per trigger                              |
| `latency`   | from append to visible, through a stream from topic to topic, exactly once, at 1,000/s   |
| `memory`    | the largest Python worker that reads or writes one large partition                       |

Records of 100 bytes (a key of 16), in four partitions, two cores. The connector reads the same topic in the same run;
where its jars cannot be had, stored figures stand in, and the table says so. Each speed is the median of some runs
after some to warm up.
"""

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from spark_connector import STORED, fetch
from spark_latency import latencies
from spark_read import PARTITIONS, TOPIC, VALUE_BYTES, facts, produce, write_directory

from ottla.pipelines import warehouse_load
from ottla.pipelines.demo import broker
from ottla.pipelines.frame.config import Source
from ottla.pipelines.warehouse_load.load import Config, LoadConfig, TableConfig
from ottla.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("directory", "broker", "warehouse", "write", "stream", "latency", "memory")
WARM_UPS, RUNS = 3, 5


@dataclass
class Place:
    """Where the records are, and which of the cases may be measured with the connector."""

    spark: "SparkSession"
    folder: Path
    directory: Path
    bootstrap: str
    records: int
    has_connector: bool


@dataclass
class Line:
    """One row of the table; the connector's figure is `stored` where it was not measured."""

    what: str
    target: str
    ours: str
    theirs: str = ""
    ratio: str = ""

    def __str__(self) -> str:
        return f"| {self.what} | {self.ours} | {self.theirs} | {self.ratio} | {self.target} |"


def speed(rows: int, *works: Callable[[], object]) -> list[float]:
    """Rows per second of each, in turns."""
    seconds: list[list[float]] = [[] for _ in works]
    for run in range(WARM_UPS + RUNS):
        for times, work in zip(seconds, works, strict=True):
            started = time.perf_counter()
            work()
            if run >= WARM_UPS:
                times.append(time.perf_counter() - started)
    return [rows / statistics.median(times) for times in seconds]


def compared(what: str, target: str, speeds: list[float], stored: str) -> Line:
    ours = speeds[0]
    measured = len(speeds) > 1
    theirs = speeds[1] if measured else STORED[stored]
    return Line(
        what,
        target,
        f"{ours / 1e6:.2f} M rows/s",
        f"{theirs / 1e6:.2f} M rows/s{'' if measured else ' (stored)'}",
        f"{ours / theirs:.1f}",
    )


def count(place: Place, kind: str, **options: str) -> Callable[[], object]:
    source = place.spark.read.format(kind).option("subscribe", TOPIC).options(**options)

    def work() -> None:
        assert source.load().count() == place.records

    return work


def servers(place: Place) -> dict[str, str]:
    return {"kafka.bootstrap.servers": place.bootstrap}


def directory(place: Place) -> Line:
    works = [count(place, "ottla", path=str(place.directory))]
    if place.has_connector:
        works.append(count(place, "kafka", **servers(place)))
    return compared("count from a directory", "5 M, 4.0 times", speed(place.records, *works), "count")


def from_broker(place: Place) -> Line:
    kinds = ["ottla", "kafka"] if place.has_connector else ["ottla"]
    speeds = speed(place.records, *(count(place, kind, **servers(place)) for kind in kinds))
    return compared("count from a broker", "3.3 M, 2.5 times", speeds, "count")


def warehouse(place: Place) -> Line:
    tables = (place.folder / f"table-{number}" for number in range(1_000))
    sizes = LoadConfig(records_per_batch=place.records)

    def ours() -> None:
        table = TableConfig(str(next(tables)), values="binary", compression="snappy")
        loaded = warehouse_load.run(place.spark, Config(Source((TOPIC,), path=str(place.directory)), table, sizes))
        assert loaded.records == place.records

    def theirs() -> None:
        frame = place.spark.read.format("kafka").options(**servers(place)).option("subscribe", TOPIC).load()
        frame.write.parquet(str(next(tables)))

    speeds = speed(place.records, *([ours, theirs] if place.has_connector else [ours]))
    return compared("`warehouse_load` from a directory", "4 M, 4.0 times", speeds, "parquet")


def write(place: Place) -> Line:
    rows = place.spark.range(0, place.records, 1, 2).selectExpr(
        "CAST(LPAD(CAST(id AS STRING), 16, '0') AS BINARY) AS key",
        f"CAST(RPAD(CAST(HASH(id) AS STRING), {VALUE_BYTES}, 'abcdefghij') AS BINARY) AS value",
    )
    rows.cache().count()
    kinds = ["ottla", "kafka"] if place.has_connector else ["ottla"]
    writers = [rows.write.format(kind).mode("append").options(**servers(place), topic="written") for kind in kinds]
    speeds = speed(place.records, *(writer.save for writer in writers))
    rows.unpersist()
    return compared("write to a topic, exactly once (theirs: at least once)", "1.0 times", speeds, "write")


def stream(place: Place) -> Line:
    frame = place.spark.readStream.format("ottla").option("path", str(place.directory)).option("subscribe", TOPIC)
    speeds = []
    for number in range(WARM_UPS):
        query = (
            frame.option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 1_000_000)
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(place.folder / f"stream-{number}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        batches = [each for each in query.recentProgress if each.numInputRows][1:]
        seconds = sum(each.durationMs["triggerExecution"] for each in batches) / 1000
        speeds.append(sum(each.numInputRows for each in batches) / seconds)
    return Line("a stream, 1 M rows per trigger", "2 M", f"{speeds[-1] / 1e6:.2f} M rows/s")


def latency(place: Place) -> Line:
    p50, p99 = latencies(place.spark, place.bootstrap, place.folder)
    return Line("from append to visible at 1,000/s", "p50 0.6 s, p99 1.0 s", f"p50 {p50:.2f} s, p99 {p99:.2f} s")


def memory(place: Place) -> Line:
    """Reads all records as one task, and writes them as one."""
    largest, stop = [0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.05):
            for process in psutil.Process().children(recursive=True):
                try:
                    status = Path(f"/proc/{process.pid}/status").read_text()
                except OSError:
                    continue
                if "Name:\tjava" not in status and (peak := status.partition("VmHWM:")[2].split()[:1]):
                    largest[0] = max(largest[0], int(peak[0]))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        whole = place.spark.read.format("ottla").option("subscribe", TOPIC).option("path", str(place.directory)).load()
        whole.coalesce(1).count()
        narrow = whole.select("key", "value").coalesce(1).write.format("ottla").mode("append")
        narrow.options(**servers(place), topic="written").save()
    finally:
        stop.set()
        watcher.join()
    return Line("largest Python worker", "300 MB", f"{largest[0] * 1024 / 1e6:.0f} MB")


CASES = dict(zip(NAMES, (directory, from_broker, warehouse, write, stream, latency, memory), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(NAMES), help="names of the table above, with commas")
    parser.add_argument("--records", type=int, default=6_000_000)
    parser.add_argument("--write", type=Path, help="a file for the table, in Markdown")
    arguments = parser.parse_args()
    chosen = [name.strip() for name in arguments.only.split(",")]
    records = arguments.records // PARTITIONS * PARTITIONS
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as name, broker.running(Path(name)) as bootstrap:
        folder = Path(name)
        jars, connector = fetch(folder)
        spark = session("bench", cores=2, memory="2g", settings={"spark.jars": jars} if jars else None)
        spark.sparkContext.setLogLevel("ERROR")
        said = [f"{facts()}; Spark {spark.version}, two cores, {records:,} records.", f"The connector: {connector}."]
        lines = [*said, "", "| | Ottla | Spark's connector | ratio | aim |", "|---|---|---|---|---|"]
        print("\n".join(lines), flush=True)
        written = folder / "written"
        written.mkdir()
        write_directory(written, records)
        if jars or {"broker"} & set(chosen):
            produce(bootstrap, records)
        place = Place(spark, folder, written, bootstrap, records, bool(jars))
        for each in chosen:
            lines.append(str(CASES[each](place)))
            print(lines[-1], flush=True)
        spark.stop()
    if arguments.write:
        arguments.write.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
