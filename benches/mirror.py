"""The costs of mirroring beside those of MirrorMaker 2: `python benches/mirror.py [--rounds N] [--records N]`, by `make
bench-mirror`.

Two brokers of Ottla are clusters A and B. In each round both mirrors are measured, one after the other, each as a new
process that mirrors topics of its own from A to B:

1. It copies a first topic, which warms it up.
2. Java's producer writes records of 100 bytes to another, of four partitions. The CPU is that of the mirror's process
   from before the first of them until all are in B.
3. A thousand records a second are written for some seconds, and read in B. A latency is that from the record's time
   until a consumer has it.

Memory is the process's largest resident memory in all of that. The exit code is 1 if a goal is missed: three times as
many records a CPU second as MirrorMaker 2, 100 MB, and a 99th percentile of 0.5 s.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click
import trio
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from ottla._core import DEBUG_BUILD  # noqa: E402
from ottla.client import LATEST, Admin, Cluster, Consumer, Producer  # noqa: E402
from ottla.kafka import TopicPartition  # noqa: E402
from tests.peers import apache  # noqa: E402
from tests.peers.ottla import Brokers  # noqa: E402
from tests.peers.processes import Server  # noqa: E402

PARTITIONS = 4
RECORD_BYTES = 100
PER_SECOND = 1_000
MEMORY_MB, P99_S = 100.0, 0.5
#: As much as MirrorMaker 2 needs here; its own script lets it have 2 GiB.
HEAP_MB = 512
PATIENCE_S = 600.0
VERSION = "3.9.2"
FILE = """
clusters = {alias}, B
{alias}.bootstrap.servers = {A}
B.bootstrap.servers = {B}
{alias}->B.enabled = true
B->{alias}.enabled = false
topics = {topics}
replication.factor = 1
heartbeats.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
refresh.topics.interval.seconds = 1
"""
#: Settings that only Kafka Connect knows.
OF_CONNECT = """
B->{alias}.emit.heartbeats.enabled = false
config.storage.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
"""


class Figures(NamedTuple):
    """Of one mirror in one round."""

    records_a_cpu_second: float
    records_a_second: float
    memory_mb: float
    p50_s: float
    p99_s: float


class Clusters(NamedTuple):
    one: Cluster
    two: Cluster
    path: Path
    records: int
    seconds: int


def cpu_s(pid: int) -> float:
    """User and system time of a process, all of its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1000


@contextmanager
def ours(file: Path) -> Iterator[Server]:
    server = Server("mirror", [sys.executable, "-m", "ottla", "mirror", str(file)], file.with_suffix(".log"))
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def theirs(file: Path) -> Iterator[Server]:
    # As Kafka's scripts start it, but for the heap.
    environment = {**apache.environment(HEAP_MB), "KAFKA_JVM_PERFORMANCE_OPTS": "", "KAFKA_ARCHIVES": ""}
    command = [str(apache.SCRIPT), "tool", VERSION, "connect-mirror-maker", str(file)]
    server = Server("mirror-maker", command, file.with_suffix(".log"), environment=environment)
    try:
        yield server
    finally:
        server.kill()


async def arrived(clusters: Clusters, topic: str, count: int) -> None:
    """Waits until so many records are in a topic of B."""
    admin = Admin(clusters.two)
    with trio.fail_after(PATIENCE_S):
        while topic not in await admin.list_topics():
            await trio.sleep(0.05)
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        while (
            sum(each.offset for each in (await admin.list_offsets(dict.fromkeys(partitions, LATEST))).values()) < count
        ):
            await trio.sleep(0.02)


async def write(clusters: Clusters, topic: str, count: int) -> None:
    """By Java's producer as users have it."""
    await Admin(clusters.one).create_topic(topic, PARTITIONS, 1)
    host, port = clusters.one.bootstrap[0]
    await trio.to_thread.run_sync(
        lambda: apache.tool(
            VERSION,
            "producer-perf-test",
            *("--topic", topic, "--num-records", str(count), "--record-size", str(RECORD_BYTES), "--throughput", "-1"),
            *("--producer-props", f"bootstrap.servers={host}:{port}", "linger.ms=5"),
            timeout_s=PATIENCE_S,
        )
    )


async def latencies(clusters: Clusters, topic: str, mirror: str) -> list[float]:
    """Of records that are written at a fixed rate."""
    total = clusters.seconds * PER_SECOND
    found: list[float] = []

    async def read() -> None:
        consumer = Consumer(clusters.two, wait_ms=100)
        await consumer.assign({TopicPartition(mirror, number): LATEST for number in range(PARTITIONS)})
        await consumer.ends()
        ready.set()
        while len(found) < total:
            records = await consumer.poll()
            now = time.time()
            found.extend(now - float(record.value or b"nan") for record in records)

    ready = trio.Event()
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery, Producer(clusters.one) as producer:
            nursery.start_soon(read)
            await ready.wait()
            began = trio.current_time()
            for number in range(total):
                await trio.sleep_until(began + number // 5 * 5 / PER_SECOND)
                await producer.send(topic, b"%.6f" % time.time(), partition=number % PARTITIONS)
    # What came in the first second has warmed it up.
    return found[PER_SECOND:]


async def measure(clusters: Clusters, who: str, alias: str) -> Figures:
    start = {"Ottla": ours, "MirrorMaker 2": theirs}[who]
    warm, large, paced = (f"{alias}-{what}" for what in ("warm", "large", "paced"))
    for topic in (paced,):
        await Admin(clusters.one).create_topic(topic, PARTITIONS, 1)
    await write(clusters, warm, clusters.records // 2)
    file = clusters.path / f"{alias}.properties"
    addresses = {"A": "{}:{}".format(*clusters.one.bootstrap[0]), "B": "{}:{}".format(*clusters.two.bootstrap[0])}
    text = FILE + (OF_CONNECT if who != "Ottla" else "")
    file.write_text(text.format(alias=alias, topics=f"{alias}-.*", **addresses))
    with start(file) as server:
        await arrived(clusters, f"{alias}.{warm}", clusters.records // 2)
        cpu, began = cpu_s(server.pid), time.monotonic()
        await write(clusters, large, clusters.records)
        await arrived(clusters, f"{alias}.{large}", clusters.records)
        cpu, took_s = cpu_s(server.pid) - cpu, time.monotonic() - began
        await arrived(clusters, f"{alias}.{paced}", 0)
        waits = sorted(await latencies(clusters, paced, f"{alias}.{paced}"))
        figures = Figures(
            clusters.records / cpu,
            clusters.records / took_s,
            memory_mb(server.pid),
            waits[len(waits) // 2],
            waits[len(waits) * 99 // 100],
        )
    for topic in (warm, large, paced):
        await Admin(clusters.one).delete_topic(topic)
        await Admin(clusters.two).delete_topic(f"{alias}.{topic}")
    return figures


def spread(values: list[float], shown: Callable[[float], str]) -> str:
    return f"{shown(statistics.median(values))} [{shown(min(values))}, {shown(max(values))}]"


def report(found: dict[str, list[Figures]]) -> bool:
    """Prints the table, and tells whether all goals are kept."""
    table = Table("", *found, "ratio")
    number, seconds = "{:,.0f}".format, "{:.3f}".format
    for field, what, shown in (
        ("records_a_cpu_second", "records a CPU second", number),
        ("records_a_second", "records a second, with the start of the producer", number),
        ("memory_mb", "memory, MB", number),
        ("p50_s", f"p50 at {PER_SECOND:,} a second, s", seconds),
        ("p99_s", f"p99 at {PER_SECOND:,} a second, s", seconds),
    ):
        rows = [[getattr(each, field) for each in rounds] for rounds in found.values()]
        ratios = [a / b for a, b in zip(*rows, strict=True)] if len(rows) == 2 else []
        table.add_row(what, *(spread(row, shown) for row in rows), spread(ratios, "{:.2f}".format) if ratios else "")
    Console(width=160).print(table)
    rounds = found["Ottla"]
    kept = {
        f"p99 of at most {P99_S} s": statistics.median(each.p99_s for each in rounds) <= P99_S,
        f"memory of at most {MEMORY_MB:.0f} MB": max(each.memory_mb for each in rounds) <= MEMORY_MB,
    }
    if "MirrorMaker 2" in found:
        ratios = [a.records_a_cpu_second / b.records_a_cpu_second for a, b in zip(*found.values(), strict=True)]
        kept["at least three times as many records a CPU second"] = statistics.median(ratios) >= 3
    for goal, is_kept in kept.items():
        print(f"{'kept  ' if is_kept else 'MISSED'} {goal}")
    return all(kept.values())


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True)
@click.option("--records", default=1_000_000, show_default=True, help="Of the topic whose CPU is measured.")
@click.option("--seconds", default=10, show_default=True, help="How long the paced records are written.")
@click.option("--alone", is_flag=True, help="Without MirrorMaker 2.")
def main(rounds: int, records: int, seconds: int, alone: bool) -> None:
    if DEBUG_BUILD:
        print("a debug build: its figures mean nothing", file=sys.stderr)
    apache.need_java()
    apache.fetch(VERSION)
    names = ["Ottla"] if alone else ["Ottla", "MirrorMaker 2"]
    found: dict[str, list[Figures]] = {name: [] for name in names}

    async def run(path: Path, one: str, two: str) -> None:
        async with Cluster(one) as source, Cluster(two) as target:
            clusters = Clusters(source, target, path, records, seconds)
            for turn in range(rounds):
                for name in names:
                    figures = await measure(clusters, name, f"{name[0].lower()}{turn}")
                    print(f"round {turn + 1}, {name}: {figures}", flush=True)
                    found[name].append(figures)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        with Brokers(path, settings={"group.initial.rebalance.delay.ms": 0}) as brokers:
            trio.run(run, path, *(brokers().bootstrap for _ in "AB"))
    sys.exit(0 if report(found) else 1)


if __name__ == "__main__":
    main()
