"""Records out: from the page cache and from the disk, by one and by many."""

from __future__ import annotations

from typing import Any

from benches.suite import figures as f
from benches.suite.frames import Frame, fetch_frame, produce_frame
from benches.suite.generators import consumer_perf
from benches.suite.proof import NotEqual, check_frames
from benches.suite.runner import Run, Scenario
from benches.suite.servers import cpu_s, create_topic, evict

BATCH_BYTES = 16 << 10


def fill(
    run: Run, topic: str, total_bytes: int, partitions: int = 1, value_bytes: int = 1000, batch_bytes: int = BATCH_BYTES
) -> int:
    """So many bytes of values in a topic, evenly over its partitions; the number of records, compared."""
    create_topic(run.server, topic, partitions)
    records = batch_bytes // value_bytes
    frames = [produce_frame(run.folder, topic, value_bytes, records, partition=index) for index in range(partitions)]
    requests = max(partitions, run.size.count(total_bytes) // (records * value_bytes))
    sent = write(run, frames, requests)
    check_frames(run.load, run.server, topic, zip(frames, sent, strict=True), partitions)
    return sum(sent) * records


def write(run: Run, frames: list[Frame], requests: int) -> list[int]:
    """How often each frame was sent."""
    paths = [str(frame.path) for frame in frames]
    sent: list[int] = run.drive(frames=paths, depth=5, requests=requests, seconds=600, warm_up_s=0)["sent"]
    return sent


def consumed(run: Run, found: f.Figures, case: str, topic: str, records: int, **options: Any) -> None:
    """One case of `load check`, whole topics again and again. Batches are only counted, and their CRCs compared."""
    with run.case(case, found) as row:
        options = {"topic": topic, "headers_only": True, **options}
        out = run.load(run="check", address=run.server.bootstrap, pids=[run.server.pid], **options)
        if out["records"] == 0 or out["records"] % records:
            raise NotEqual(f"{out['records']} records consumed from a topic of {records}")
        mb = out["received_bytes"] / 1e6
        row.update({f.CPU_MB: out["cpu_s"] * 1e3 / mb, f.MB: mb / out["seconds"]})
        row[f.RECORDS] = out["records"] / out["seconds"]


def fetch(run: Run) -> f.Figures:
    found: f.Figures = {}
    fill(run, "large", 64_000_000)
    for mib in (1, 4, 10) if run.size.is_full else (1, 4):
        out = run.drive(frames=[str(fetch_frame(run.folder, "large", mib << 20))])
        mb = max(1e-9, out["received_mb_per_s"] * out["seconds"])
        found[f"{mib} MiB, cached"] = {
            f.CPU_MB: out["cpu_s"] * 1e3 / mb,
            f.MB: out["received_mb_per_s"],
            f.P50: out["latency"]["p50_us"],
            f.P99: out["latency"]["p99_us"],
        }
    return found


def consume(run: Run) -> f.Figures:
    found: f.Figures = {}
    one = fill(run, "one", 500_000_000)
    many = fill(run, "many", 250_000_000, 100)
    seconds = run.size.seconds
    evict(run.server)
    consumed(run, found, "from the disk, 1 partition", "one", one)
    consumed(run, found, "cached, 1 partition", "one", one, seconds=seconds)
    consumed(run, found, "cached, 100 partitions", "many", many, partitions=100, seconds=seconds)
    consumed(run, found, "cached, 10 consumers", "one", one, consumers=10, seconds=seconds)
    return found


def java_consumer(run: Run) -> f.Figures:
    found: f.Figures = {}
    sizes = (("100 B", 100, 200_000_000), ("1 KiB", 1 << 10, 400_000_000))
    for name, value_bytes, total in sizes if run.size.is_full else sizes[:1]:
        with run.case(name, found) as row:
            records = fill(run, f"java-{value_bytes}", total, value_bytes=value_bytes)
            used = cpu_s(run.server)
            out = consumer_perf(run.server.bootstrap, f"java-{value_bytes}", records)
            used = cpu_s(run.server) - used
            if out["records"] < records:
                raise NotEqual(f"{out['records']:.0f} of {records} records consumed")
            row[f.CPU_MB] = used * 1e3 / (records * value_bytes / 1e6)
            row.update({f.MB: out["mb_per_s"], f.RECORDS: out["records_per_s"]})
    return found


def together(run: Run) -> f.Figures:
    """A producer, and a consumer that follows it to its last record."""
    found: f.Figures = {}
    for name, value_bytes, total in (("100 B", 100, 100_000_000), ("1 KiB", 1 << 10, 400_000_000)):
        with run.case(name, found) as row:
            topic = f"both-{value_bytes}"
            create_topic(run.server, topic)
            frame = produce_frame(run.folder, topic, value_bytes, BATCH_BYTES // value_bytes)
            requests = max(10, run.size.count(total) // frame.value_bytes)
            count = requests * frame.records
            options = {"topic": topic, "records": count, "pids": [run.server.pid]}
            following = run.load.start(run="check", address=run.server.bootstrap, **options)
            sent = write(run, [frame], requests)
            out = following.result()
            if (out["records"], sent) != (count, [requests]):
                raise NotEqual(f"{out['records']} records consumed beside the producer of {count}")
            check_frames(run.load, run.server, topic, [(frame, requests)])
            row[f.CPU_RECORD] = out["cpu_s"] / count * 1e6
            row[f.RECORDS] = count / out["seconds"]
            row[f.MB] = row[f.RECORDS] * value_bytes / 1e6
    return found


SCENARIOS = [
    Scenario("fetch", "The same large Fetch again and again, one connection", "load drive", fetch, expected_s=80),
    Scenario("consume", "Whole topics, 1,000-byte records", "load check", consume, expected_s=100),
    Scenario(
        "java-consumer", "Java's consumer with its defaults", "kafka-consumer-perf-test", java_consumer, expected_s=110
    ),
    Scenario(
        "produce-and-consume",
        "A producer and a consumer behind it",
        "load drive and load check",
        together,
        expected_s=50,
    ),
]
