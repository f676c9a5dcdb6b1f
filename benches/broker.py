"""The broker's own figures, beside Apache Kafka's in the same run: `python benches/broker.py [--only NAME ...]
[--rounds 3] [--against 3.9.2]`.

cold-start  process start to the first Metadata answer; resident memory when idle
small       CPU of the broker per Produce of one 100-byte record, 50 connections with one in flight, 200 idle ones;
and of the bare hub, which answers 64 bytes with 64 bytes
fetch       CPU of the broker per MB of large Fetch answers (4 MiB, sendfile), one connection; each broker with its own
default send buffer
java        CPU of the broker per record of Java's producer with its defaults, 100-byte records
partitions  5,000 partitions: answered, on disk, stopped, reopened; what the high-watermark checkpoint costs with all of
them moving

Both brokers stay up for all rounds and take turns. Printed are the median and, in brackets, the least and the greatest;
a ratio is one of neighbours in a round. Ratios count; absolute figures depend on the machine. CPU is user and system
time of the broker's process, from /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import psutil

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from ottla._core import BatchBuilder  # noqa: E402
from ottla.client.blocking import BlockingConnection  # noqa: E402
from ottla.wire.headers import request_frame  # noqa: E402
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData  # noqa: E402
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic  # noqa: E402
from ottla.wire.k03_metadata import METADATA, MetadataRequest  # noqa: E402
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreateTopicsRequest  # noqa: E402
from tests.peers.apache import Apache  # noqa: E402
from tests.peers.ottla import Broker, Brokers  # noqa: E402

# As Kafka's own scripts start it; the tests' servers live too briefly for these.
KAFKA_JVM = (
    "-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 "
    "-XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true"
)
os.environ.setdefault("KAFKA_JVM_PERFORMANCE_OPTS", KAFKA_JVM)


class Server(Protocol):
    @property
    def bootstrap(self) -> str: ...
    @property
    def pid(self) -> int: ...


LOAD = Path()


def cpu_seconds(server: Server) -> float:
    times = psutil.Process(_process(server)).cpu_times()
    return times.user + times.system


def resident_mb(server: Server) -> float:
    return psutil.Process(_process(server)).memory_info().rss / 1e6


def _process(server: Server) -> int:
    """The pid of the server itself: Apache's is the last child of the script that starts it."""
    process = psutil.Process(server.pid)
    while children := process.children():
        process = children[-1]
    return process.pid


def create_topic(server: Server, topic: str, partitions: int = 1) -> float:
    """Seconds until CreateTopics was answered."""
    host, port = server.bootstrap.split(":")
    begin = time.perf_counter()
    with BlockingConnection.connect(host, int(port), timeout_ms=120_000) as connection:
        row = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
        answer = connection.call(CREATE_TOPICS, CreateTopicsRequest(topics=[row], timeout_ms=120_000), version=2)
    assert answer.topics[0].error_code == 0, answer
    return time.perf_counter() - begin


def load(server: Server, frame: bytes, *, connections: int, seconds: float = 2.5) -> dict[str, float]:
    """Keeps one copy of `frame` in flight on each connection; the server's CPU is taken from `seconds` in the middle,
    when all is under way.
    """
    with tempfile.NamedTemporaryFile() as file:
        file.write(frame)
        file.flush()
        command = [str(LOAD), server.bootstrap, str(connections), "1", str(seconds + 1), file.name]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        time.sleep(1)
        used, begin = cpu_seconds(server), time.perf_counter()
        time.sleep(seconds)
        rate = (cpu_seconds(server) - used) / (time.perf_counter() - begin)
        output, _ = running.communicate()
    names = ("requests per second", "MB per second", "p50 us", "p99 us", "p99.9 us")
    figures = dict(zip(names, map(float, output.split()[-5:]), strict=True))
    return {
        "us of CPU per request": rate / figures["requests per second"] * 1e6,
        "ms of CPU per MB": rate / figures["MB per second"] * 1e3,
        **figures,
    }


def build_load() -> Path:
    """The load generator, compiled; its path."""
    command = [
        "cargo",
        "bench",
        "--quiet",
        "--no-default-features",
        "--bench",
        "load",
        "--no-run",
        "--message-format=json",
    ]
    lines = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    paths = [json.loads(line).get("executable") for line in lines if line.startswith("{")]
    return Path(next(path for path in paths if path))


def produce_frame(topic: str, record_bytes: int, records: int = 1) -> bytes:
    builder = BatchBuilder()
    for _ in range(records):
        builder.append(time.time_ns() // 1_000_000, None, b"x" * record_bytes)
    partitions = [PartitionProduceData(partition_index=0, records=builder.finish())]
    request = ProduceRequest(
        transactional_id=None, acks=1, timeout_ms=30_000, topics=[TopicProduceData(name=topic, partitions=partitions)]
    )
    return request_frame(0, 7, 1, "bench", PRODUCE.encode_request(7, request))


def fetch_frame(topic: str, bytes_max: int) -> bytes:
    partitions = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=bytes_max)]
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=bytes_max,
        topics=[FetchTopic(topic=topic, partitions=partitions)],
    )
    return request_frame(1, 4, 1, "bench", FETCH.encode_request(4, request))


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


class Echo:
    """The bare hub as a server: benches/net_hub.py's, which answers 64 bytes with 64 bytes."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, str(ROOT / "benches" / "net_hub.py"), "serve", str(folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self.bootstrap = f"127.0.0.1:{int(self._process.stdout.readline())}"

    def stop(self) -> None:
        self._process.communicate()


def spread(values: list[float]) -> str:
    """Median [least, greatest]."""
    middle, least, greatest = statistics.median(values), min(values), max(values)
    if middle >= 1000:
        return f"{middle:10.0f} [{least:.0f}, {greatest:.0f}]"
    return f"{middle:10.3g} [{least:.3g}, {greatest:.3g}]"


Figures = dict[str, float]


class Bench:
    def __init__(self, folder: Path, against: str, rounds: int) -> None:
        self.folder = folder
        self.against = against
        self.rounds = rounds
        self.brokers = Brokers(folder)
        self.apache = Apache(folder)

    def each(self, prepare: Callable[[Server], object], measure: Callable[[Server], Figures]) -> None:
        """Measures our broker and Apache's in turns, each on a fresh directory and prepared once."""
        ours, theirs = self.brokers(), self.apache.broker(self.against, heap_mb=1024)
        for server in (theirs, ours):
            prepare(server)
        rows = [(measure(ours), measure(theirs)) for _ in range(self.rounds)]
        ours.stop()
        theirs.kill()
        for name in rows[0][0]:
            mine, other = [row[0][name] for row in rows], [row[1].get(name, 0.0) for row in rows]
            ratios = [one / two for one, two in zip(mine, other, strict=True) if two]
            columns = [spread(mine), *((spread(other), spread(ratios)) if ratios else ())]
            print(f"  {name:34}" + "".join(f"{column:34}" for column in columns).rstrip())

    def repeated(self, measure: Callable[[int], Figures]) -> None:
        """Measures our broker alone."""
        rows = [measure(number) for number in range(self.rounds)]
        for name in rows[0]:
            print(f"  {name:50}{spread([row[name] for row in rows])}")

    def cold_start(self) -> None:
        def measure(_: int) -> Figures:
            begin = time.perf_counter()
            broker = self.brokers(wait=False)
            _first_answer(broker)
            started = time.perf_counter() - begin
            broker.wait_ready()
            idle = resident_mb(broker)
            broker.stop()
            return {"seconds to the first Metadata answer": started, "idle resident MB": idle}

        self.repeated(measure)

    def small(self) -> None:
        frame = produce_frame("small", 100)
        echo_frame = struct.pack(">ihhih", 64, 3, 1, 7, 5) + b"bench".ljust(54, b"\0")

        def prepare(server: Server) -> None:
            create_topic(server, "small")
            # Java compiles what runs often.
            load(server, frame, connections=50, seconds=6)

        def measure(server: Server) -> Figures:
            host, port = server.bootstrap.split(":")
            idle = [socket.create_connection((host, int(port))) for _ in range(200)]
            figures = load(server, frame, connections=50)
            for connection in idle:
                connection.close()
            del figures["ms of CPU per MB"], figures["MB per second"]
            if isinstance(server, Broker):
                figures["the bare hub, us of CPU per request"] = echo()
            return {**figures, "resident MB": resident_mb(server)}

        def echo() -> float:
            with tempfile.TemporaryDirectory() as folder:
                server = Echo(Path(folder, "data"))
                figures = load(server, echo_frame, connections=50)
                server.stop()
            return figures["us of CPU per request"]

        self.each(prepare, measure)

    def fetch(self) -> None:
        frame = fetch_frame("large", 4 << 20)

        def prepare(server: Server) -> None:
            create_topic(server, "large")
            load(server, produce_frame("large", 1000, 16), connections=1)
            load(server, frame, connections=1)

        def measure(server: Server) -> Figures:
            figures = load(server, frame, connections=1)
            return {name: figures[name] for name in ("ms of CPU per MB", "MB per second", "p50 us", "p99 us")}

        self.each(prepare, measure)

    def java(self) -> None:
        def produce(server: Server, records: int) -> None:
            properties = ["--producer-props", f"bootstrap.servers={server.bootstrap}", "acks=1"]
            arguments = ["--topic", "java", "--num-records", str(records), "--record-size", "100", "--throughput", "-1"]
            self.apache.tool("3.9.2", "producer-perf-test", *arguments, *properties)

        def prepare(server: Server) -> None:
            create_topic(server, "java")
            produce(server, 1_000_000)

        def measure(server: Server) -> Figures:
            before = cpu_seconds(server)
            produce(server, 3_000_000)
            return {"us of CPU per record": (cpu_seconds(server) - before) / 3}

        self.each(prepare, measure)

    def partitions(self) -> None:
        self.repeated(self._partitions)

    def _partitions(self, number: int) -> Figures:
        files = _folders_and_files(self.folder / f"raw-{number}", 5000)
        broker = self.brokers(settings={"replica.high.watermark.checkpoint.interval.ms": 200})
        begin = time.perf_counter()
        answered = create_topic(broker, "many", 5000)
        while len(list(broker.data.glob("many-*/*.log"))) < 5000:
            pass
        on_disk = time.perf_counter() - begin
        rss = resident_mb(broker)
        moving = _checkpoints(broker)
        begin = time.perf_counter()
        broker.stop()
        stopped = time.perf_counter() - begin
        begin = time.perf_counter()
        broker = self.brokers.restart(broker, wait=False)
        _first_answer(broker, lambda answer: len(answer.topics) == 1 and len(answer.topics[0].partitions) == 5000)
        reopened = time.perf_counter() - begin
        broker.wait_ready()
        broker.stop()
        return {
            "the machine: seconds for 5,000 folders, 15,000 files": files,
            "seconds until answered": answered,
            "seconds until on disk": on_disk,
            "seconds to stop": stopped,
            "seconds until reopened": reopened,
            "resident MB": rss,
            "checkpoint each 200 ms, ms of CPU a second": moving * 1e3,
        }


def _folders_and_files(folder: Path, count: int) -> float:
    """What the file system alone takes for as many folders and files: it varies a hundredfold with the disk's state."""
    folder.mkdir()
    begin = time.perf_counter()
    for index in range(count):
        partition = folder / f"t-{index}"
        partition.mkdir()
        for suffix in ("log", "index", "timeindex"):
            (partition / f"{0:020}.{suffix}").touch()
    return time.perf_counter() - begin


def _checkpoints(broker: Broker) -> float:
    """CPU seconds a second of a broker whose high watermarks move ten times a second: nearly all of it is the file of
    5,000 lines that is written five times a second.
    """
    builder = BatchBuilder()
    builder.append(time.time_ns() // 1_000_000, None, b"x")
    partition = PartitionProduceData(partition_index=0, records=builder.finish())
    topics = [TopicProduceData(name="many", partitions=[partition])]
    request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=30_000, topics=topics)
    with BlockingConnection.connect("127.0.0.1", broker.port) as connection:
        before = cpu_seconds(broker)
        for _ in range(50):
            connection.call(PRODUCE, request, version=7)
            time.sleep(0.1)
        return (cpu_seconds(broker) - before) / 5


def _first_answer(broker: Broker, good: Callable[..., bool] = lambda answer: bool(answer.brokers)) -> int:
    while True:
        try:
            with BlockingConnection.connect("127.0.0.1", broker.port, timeout_ms=10_000) as connection:
                answer = connection.call(METADATA, MetadataRequest(topics=None), version=1)
                if good(answer):
                    return len(answer.brokers)
        except OSError:
            assert broker.running, broker.output_tail()


def main() -> None:
    benches = ("cold_start", "small", "fetch", "java", "partitions")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=[name.replace("_", "-") for name in benches])
    parser.add_argument("--against", default="3.9.2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--load", type=Path, help="a load generator that was built before (benches/load.rs)")
    options = parser.parse_args()
    global LOAD
    LOAD = options.load or build_load()
    print(f"{_processor()}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options.against, options.rounds)
        with bench.brokers, bench.apache:
            for name in benches:
                if not options.only or name.replace("_", "-") in options.only:
                    print(f"{name.replace('_', '-')}: ours, Apache Kafka {options.against}, ratio")
                    getattr(bench, name)()


if __name__ == "__main__":
    main()
