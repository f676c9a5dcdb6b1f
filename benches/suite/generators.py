"""Who makes the load. All run as processes of their own; a broker's CPU is taken from its process, not from theirs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benches.suite.servers import JVM
from tests.peers.apache import SCRIPT
from tests.peers.processes import with_parent

ROOT = Path(__file__).parents[2]
# One release for all brokers, so that only they differ.
TOOLS = "3.9.2"
RDKAFKA = Path(__file__).with_name("rdkafka.py")
SYNC_PRODUCER = Path(__file__).with_name("sync_producer.py")
COMMANDS: list[str] = []
"""The commands that were run, for the report; the same command only once, with the changing parts taken out."""


def build_bench(name: str, profile: str = "quick", features: str = "", options: Sequence[str] = ()) -> Path:
    """A program of benches/ in Rust, compiled; its path. `options` are cargo's own."""
    command = ["cargo", *options, "build", "--quiet", "--locked", "--profile", profile, "--no-default-features"]
    command += ["--bench", name, "--features", features, "--message-format=json"]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    paths = [json.loads(line).get("executable") for line in done.stdout.splitlines()]
    return Path(next(path for path in paths if path))


def build_load(options: Sequence[str] = ()) -> Path:
    """The Rust generator, compiled; its path."""
    return build_bench("load", options=options)


class Load:
    """benches/load: `load(run="drive", ...)` waits for its result, `load.start(...)` does not."""

    def __init__(self, binary: Path | None = None) -> None:
        self.binary = binary or build_load()

    def start(self, **options: Any) -> Process:
        return Process([str(self.binary), json.dumps(options)], ["load", _shown(options)])

    def __call__(self, **options: Any) -> dict[str, Any]:
        return self.start(**options).result()


class Process:
    """A generator under way."""

    def __init__(self, command: list[str], shown: list[str], environment: dict[str, str] | None = None) -> None:
        if (line := " ".join(shown)) not in COMMANDS:
            COMMANDS.append(line)
        self.process = subprocess.Popen(
            with_parent(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )

    def output(self) -> str:
        out, err = self.process.communicate()
        if self.process.returncode:
            raise RuntimeError(f"{self.process.args!r:.300} ended with {self.process.returncode}: {err[-2000:]}")
        return out

    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.output().splitlines()[-1])
        return found

    def line(self) -> str:
        """The first line that it says, while it runs on."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self) -> None:
        """Closes its input and waits."""
        self.process.communicate()


def _shown(options: dict[str, Any]) -> str:
    """The options without what is of this run alone."""
    of_the_run = ("address", "addresses", "bootstrap", "pids", "frames", "values")
    kept = {name: value for name, value in options.items() if name not in of_the_run}
    return "'" + json.dumps(kept) + "'"


def java(tool: str, *arguments: str) -> Process:
    """One of Kafka's own tools, as its script starts it."""
    shown = [re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", part) for part in arguments]
    shown = [re.sub(r"^/\S*/", "", part) for part in shown]
    environment = {**JVM, "KAFKA_HEAP_OPTS": "-Xmx512M"}
    return Process([str(SCRIPT), "tool", TOOLS, tool, *arguments], [f"kafka-{tool}.sh", *shown], environment)


def producer_perf(
    bootstrap: str, topic: str, records: int, payloads: Path, *properties: str, rate: int = -1
) -> Process:
    """kafka-producer-perf-test with the values of a file."""
    props = ["--producer-props", f"bootstrap.servers={bootstrap}", *properties]
    sizes = [
        "--topic",
        topic,
        "--num-records",
        str(records),
        "--throughput",
        str(rate),
        "--payload-file",
        str(payloads),
    ]
    return java("producer-perf-test", *sizes, *props)


PERF_LINE = re.compile(
    r"(?P<records>\d+) records sent, (?P<rate>[\d.]+) records/sec .*?(?P<p50>[\d.]+) ms 50th, "
    r"(?P<p95>[\d.]+) ms 95th, (?P<p99>[\d.]+) ms 99th, (?P<p999>[\d.]+) ms 99.9th"
)


def perf_figures(output: str) -> dict[str, float]:
    """The last line of kafka-producer-perf-test: records, rate (a second), p50, p95, p99, p999 (ms)."""
    found = list(PERF_LINE.finditer(output))
    assert found, output
    return {name: float(text) for name, text in found[-1].groupdict().items()}


def consumer_perf(bootstrap: str, topic: str, records: int) -> dict[str, float]:
    """kafka-consumer-perf-test: records, MB/s and records/s while fetching, without the time of joining."""
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--messages", str(records), "--timeout", "60000"]
    line = java("consumer-perf-test", *arguments, "--hide-header").output().strip().splitlines()[-1]
    fields = [field.strip() for field in line.split(",")]
    # The tool's megabytes are 2^20 bytes.
    return {"records": float(fields[4]), "mb_per_s": float(fields[8]) * 1.048576, "records_per_s": float(fields[9])}


def librdkafka(**options: Any) -> Process:
    """librdkafka's producer, without Python between it and the broker: see rdkafka.py."""
    return Process([sys.executable, str(RDKAFKA), json.dumps(options)], ["rdkafka.py", _shown(options)])


def synchronous(**options: Any) -> Process:
    """librdkafka's producer, which waits for each record until its input is closed: see sync_producer.py."""
    return Process([sys.executable, str(SYNC_PRODUCER), json.dumps(options)], ["sync_producer.py", _shown(options)])
