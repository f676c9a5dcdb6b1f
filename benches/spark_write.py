"""How fast Spark writes: `python benches/spark_write.py [--records N] [--bootstrap HOST:PORT] [--jars JAR,JAR]`.

3 M rows of 100 bytes (a key of 16, the rest value), cached by Spark in two partitions, written to a topic of four
partitions of one broker (our own, or the one named): by our sink in both kinds of delivery and, where the jars of
Spark's Kafka connector are given, by that, which is at least once. All in the same run and in turns; each figure is the
median and the best of some runs after two to warm up. Then how long a micro-batch takes whose rows hardly count: its
transactions, its decision and what Spark does around them.

Absolute figures depend on the machine; the ratio of the lines to each other is what matters.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import trio
from spark_read import PARTITIONS, TOPIC, VALUE_BYTES, cpu_seconds, facts

from ottla.client import Admin, Cluster
from ottla.pipelines.demo import broker
from ottla.spark import session

WARM_UPS = 2
MICRO_BATCHES = 20


def create(bootstrap: str, topic: str = TOPIC) -> None:
    """A topic, whose segments are deleted soon: the runs write some gigabytes."""

    async def main() -> None:
        async with Cluster(bootstrap) as cluster:
            settings = {"retention.bytes": str(256 << 20), "segment.bytes": str(64 << 20)}
            await Admin(cluster).create_topic(topic, PARTITIONS, 1, settings)

    trio.run(main)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--bootstrap", help="a broker to use instead of one of our own; the topic must not exist")
    parser.add_argument("--jars", help="of spark-sql-kafka-0-10 and what it needs, with commas, to measure it as well")
    arguments = parser.parse_args()
    print(facts())
    settings = {"spark.jars": arguments.jars} if arguments.jars else {}
    given = arguments.bootstrap
    with (
        tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder,
        nullcontext(given) if given else broker.running(Path(folder)) as bootstrap,
    ):
        create(bootstrap)
        spark = session("ottla bench", cores=arguments.cores, memory="2g", settings=settings)
        print(f"Spark {spark.version}, {arguments.cores} cores, {arguments.records:,} rows")
        rows = spark.range(0, arguments.records, 1, arguments.cores).selectExpr(
            "CAST(LPAD(CAST(id AS STRING), 16, '0') AS BINARY) AS key",
            f"CAST(RPAD(CAST(HASH(id) AS STRING), {VALUE_BYTES}, 'abcdefghij') AS BINARY) AS value",
        )
        rows.cache().count()

        def save(format: str, **options: str) -> Callable[[], None]:
            writer = rows.write.format(format).mode("append").options(**options)
            return writer.option("kafka.bootstrap.servers", bootstrap).option("topic", TOPIC).save

        cases = {
            "ottla, exactly once": save("ottla"),
            "ottla, at least once": save("ottla", delivery="at-least-once"),
        }
        if arguments.jars:
            cases["Spark's connector, at least once"] = save("kafka")
        seconds: dict[str, list[float]] = {name: [] for name in cases}
        cpu: dict[str, list[float]] = {name: [] for name in cases}
        for run in range(WARM_UPS + arguments.runs):
            for name, work in cases.items():
                started, used = time.perf_counter(), cpu_seconds()
                work()
                if run >= WARM_UPS:
                    seconds[name].append(time.perf_counter() - started)
                    cpu[name].append(cpu_seconds() - used)
        for name, times in seconds.items():
            middle, best = (arguments.records / each / 1e6 for each in (statistics.median(times), min(times)))
            per_cpu = arguments.records / statistics.median(cpu[name]) / 1e6
            print(f"{name:36} {middle:6.2f} M rows/s   best {best:6.2f}   {per_cpu:6.2f} M rows per CPU second")
        micro_batches(spark, bootstrap, Path(folder))
        spark.stop()


def micro_batches(spark: object, bootstrap: str, folder: Path) -> None:
    """Batches of one small file each, to see what a batch costs however few its rows."""
    (folder / "in").mkdir()
    for number in range(MICRO_BATCHES):
        (folder / "in" / f"{number}.txt").write_text("row\n" * 100)
    for delivery in ("exactly-once", "at-least-once"):
        lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1)  # type: ignore[attr-defined]
        query = (
            lines.load(str(folder / "in"))
            .writeStream.format("ottla")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", TOPIC)
            .option("delivery", delivery)
            .option("checkpointLocation", str(folder / delivery))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        times = [each.batchDuration for each in query.recentProgress][2:]
        print(f"a micro-batch of 100 rows, {delivery:16} median {statistics.median(times):.0f} ms")


if __name__ == "__main__":
    main()
