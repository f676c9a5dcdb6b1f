"""How fast Spark counts: `python benches/spark_read.py [--records N] [--bootstrap HOST:PORT | --no-broker]`.

3 M records of 100 bytes (a key of 16, the rest value) in four partitions, counted by Spark with two cores: from a data
directory that the log library wrote, and from a broker (our own, or the one named) into which our client produced. Each
figure is the median and the best of some runs after five to warm up; a count reads all seven columns, as Spark asks for
them. The decoder alone is measured beside them, in this process.

Absolute figures depend on the machine and on what else it does; the facts are printed first. Rows per CPU second (of
this process, the JVM and the workers; not of the broker) depend less on the rest.
"""

import argparse
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import psutil
import trio

from ottla import _core
from ottla.client import Admin, Cluster, Producer, TopicPartition
from ottla.pipelines.demo import broker
from ottla.reading.columns import Columns
from ottla.reading.segments import segments
from ottla.spark import session
from ottla.spark.schema import COLUMNS, layout

PARTITIONS = 4
RECORDS_PER_BATCH = 140
VALUE_BYTES = 76  # with the key of 16
# Java compiles what runs often, and the first counts run uncompiled.
WARM_UPS = 5
TOPIC = "bench"


def facts() -> str:
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().split("\n")
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{model}, {os.cpu_count()} cores, {system}, load {os.getloadavg()[0]:.1f}"


def write_directory(root: Path, records: int) -> None:
    """The records through the log library, with checkpointed high watermarks."""
    directory = _core.LogDirectory.open(root)
    values = random.Random(1)
    for log in directory.create(TOPIC, list(range(PARTITIONS)), _core.LogConfig()):
        log.begin_epoch(0)
        builder = _core.BatchBuilder()
        for first in range(0, records // PARTITIONS, RECORDS_PER_BATCH):
            value = values.randbytes(VALUE_BYTES)
            for offset in range(first, min(first + RECORDS_PER_BATCH, records // PARTITIONS)):
                builder.append(1_700_000_000_000 + offset, b"%016d" % offset, value)
            log.append_bytes(builder.finish(), 0)
        log.high_watermark = log.end_offset
    directory.checkpoint_high_watermarks()
    directory.close(clean=True)


def produce(bootstrap: str, records: int) -> None:
    async def main() -> None:
        async with Cluster(bootstrap) as cluster:
            await Admin(cluster).create_topic(TOPIC, PARTITIONS, 1, {"retention.ms": "-1"})
            value = random.Random(1).randbytes(VALUE_BYTES)
            async with Producer(cluster, batch_bytes=RECORDS_PER_BATCH * 100) as producer:
                for number in range(records):
                    await producer.send(TOPIC, value, key=b"%016d" % number, partition=number % PARTITIONS)

    trio.run(main)


def cpu_seconds() -> float:
    """Of this process, and of the JVM and the Python workers below it."""
    this = psutil.Process()
    times = [process.cpu_times() for process in (this, *this.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def measure(name: str, rows: int, runs: int, work: Callable[[], int]) -> None:
    for _ in range(WARM_UPS):
        assert work() == rows, f"{name} found another number of records"
    seconds, cpu = [], []
    for _ in range(runs):
        started, used = time.perf_counter(), cpu_seconds()
        work()
        seconds.append(time.perf_counter() - started)
        cpu.append(cpu_seconds() - used)
    middle, best = rows / statistics.median(seconds) / 1e6, rows / min(seconds) / 1e6
    per_cpu = rows / statistics.median(cpu) / 1e6
    print(f"{name:44} {middle:6.2f} M rows/s   best {best:6.2f}   {per_cpu:6.2f} M rows per CPU second", flush=True)


def decode(root: Path) -> int:
    """Decodes as a task does, without Spark: all rows of all partitions, in this process. Returns their number."""
    rows = 0
    for number in range(PARTITIONS):
        columns = Columns(layout(COLUMNS), TopicPartition(TOPIC, number), 0, 1 << 62)
        for segment in segments(root / f"{TOPIC}-{number}"):
            for stretch in segment.stretches(0):
                rows += sum(batch.num_rows for batch in columns.decode(stretch.data))
                stretch.used = columns.position
        rows += sum(batch.num_rows for batch in columns.rest())
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--bootstrap", help="a broker to use instead of one of our own; the topic must not exist")
    parser.add_argument("--no-broker", action="store_true", help="only the directory")
    arguments = parser.parse_args()
    records = arguments.records // PARTITIONS * PARTITIONS
    print(facts())
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder:
        root = Path(folder) / "written"
        root.mkdir()
        write_directory(root, records)
        size = sum(file.stat().st_size for file in root.rglob("*.log"))
        print(f"{records:,} records, {size / records:.0f} bytes each on disk")
        measure("decoder alone, seven columns", records, arguments.runs, lambda: decode(root))
        spark = session("ottla bench", cores=arguments.cores)
        print(f"Spark {spark.version}, {arguments.cores} cores")
        source = spark.read.format("ottla").option("subscribe", TOPIC)
        files = source.option("path", str(root))

        def counts(where: str) -> None:
            measure(f"count() from {where}", records, arguments.runs, lambda: source.load().count())
            narrow = source.schema("value binary, offset bigint")
            measure(f"count() of value, offset from {where}", records, arguments.runs, lambda: narrow.load().count())

        assert files is source
        counts("a directory")
        if not arguments.no_broker:
            source = spark.read.format("ottla").option("subscribe", TOPIC)
            given = arguments.bootstrap
            with nullcontext(given) if given else broker.running(Path(folder)) as bootstrap:
                started = time.perf_counter()
                produce(bootstrap, records)
                print(f"produced with our client: {records / (time.perf_counter() - started) / 1e6:.2f} M records/s")
                source = source.option("kafka.bootstrap.servers", bootstrap)
                counts("a broker")
        spark.stop()


if __name__ == "__main__":
    main()
