"""Records that are on the disk when they are acknowledged, and what the disk itself does."""

from __future__ import annotations

from benches.suite import figures as f
from benches.suite.runner import Run, Scenario
from benches.suite.scenarios.produce import java, rdkafka
from benches.suite.targets import OURS

FLUSHED = {"flush_messages": 1}
# A second and more: 200,000 are sent in 0.4 s, of which the client's start and its first metadata are a tenth.
RECORDS = 500_000


def durable(run: Run) -> f.Figures:
    found: f.Figures = {}
    tuned = {"batch_size": 65536, "linger_ms": 5, "acks": "all"}
    rdkafka(run, found, "librdkafka, 1 KiB, 64 KiB batches", "durable", 1 << 10, RECORDS, configs=FLUSHED, **tuned)
    if run.contestant.name != OURS or run.size.is_rehearsal:
        return found
    disk = {"path": str(run.folder / "raw"), "file_bytes": 1 << 30, "seconds": run.size.seconds, "synced": True}
    for name, block_bytes in (("4 KiB", 4 << 10), ("64 KiB", 64 << 10)):
        out = run.load(run="write", block_bytes=block_bytes, **disk)
        row = {f.MB: out["mb_per_s"], f.P50: out["fdatasync"]["p50_us"], f.P99: out["fdatasync"]["p99_us"]}
        found[f"the disk: write and fdatasync of {name}"] = row
    return found


def durable_java(run: Run) -> f.Figures:
    found: f.Figures = {}
    # The setting of the whole broker: the tool's topic is like any other.
    java(run, found, "Java, 1 KiB", "durable", 1 << 10, 50_000, "acks=all")
    return found


SCENARIOS = [
    Scenario(
        "durable",
        "flush.messages=1: fdatasync before each answer",
        "librdkafka by its C interface",
        durable,
        expected_s=100,
    ),
    Scenario(
        "durable-java",
        "The same for the whole broker, Java's producer with its defaults",
        "kafka-producer-perf-test",
        durable_java,
        {"log.flush.interval.messages": 1},
        is_long=True,
    ),
]
