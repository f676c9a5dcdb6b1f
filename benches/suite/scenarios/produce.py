"""Batches in: by size of record and batch, acks, codec, partitions."""

from __future__ import annotations

from benches.suite import figures as f
from benches.suite.frames import produce_frame
from benches.suite.generators import librdkafka, perf_figures, producer_perf
from benches.suite.proof import NotEqual, check_frames, check_values
from benches.suite.runner import Run, Scenario
from benches.suite.servers import cpu_s, create_topic

SIZES = {"10 B": 10, "100 B": 100, "1 KiB": 1 << 10, "10 KiB": 10 << 10, "100 KiB": 100 << 10}
# What a record costs beside its value: length, attributes, deltas, key and header count.
RECORD_BYTES = 8
BATCH_BYTES = 16 << 10


def driven(
    run: Run,
    found: f.Figures,
    case: str,
    topic: str,
    value_bytes: int,
    *,
    batch_bytes: int = BATCH_BYTES,
    partitions: int = 1,
    connections: int = 1,
    acks: int = 1,
    compression: str = "none",
) -> None:
    """One case of pre-encoded batches from `load drive`, five in flight, compared afterwards."""
    with run.case(case, found) as row:
        create_topic(run.server, topic, partitions)
        records = max(1, batch_bytes // (value_bytes + RECORD_BYTES))
        options = {"acks": acks, "compression": compression}
        frames = [
            produce_frame(run.folder, topic, value_bytes, records, partition=index, **options)
            for index in range(partitions)
        ]
        out = run.drive(
            frames=[str(frame.path) for frame in frames], connections=connections, depth=5, unanswered=acks == 0
        )
        check_frames(run.load, run.server, topic, zip(frames, out["sent"], strict=True), partitions)
        count = max(1, out["requests"] * records)
        row[f.CPU_RECORD] = out["cpu_s"] / count * 1e6
        row[f.CPU_MB] = out["cpu_s"] * 1e3 / (count * value_bytes / 1e6)
        row[f.RECORDS] = count / out["seconds"]
        row[f.MB] = count * value_bytes / out["seconds"] / 1e6
        if acks:
            row[f.P99] = out["latency"]["p99_us"]


def sizes(run: Run) -> f.Figures:
    found: f.Figures = {}
    for name, value_bytes in SIZES.items():
        driven(run, found, name, f"size-{value_bytes}", value_bytes)
    return found


def acks(run: Run) -> f.Figures:
    found: f.Figures = {}
    for name in SIZES if run.size.is_full else ("100 B", "1 KiB"):
        for word, number in (("0", 0), ("1", 1), ("all", -1)) if run.size.is_full else (("0", 0), ("all", -1)):
            driven(run, found, f"acks={word}, {name}", f"acks-{word}-{SIZES[name]}", SIZES[name], acks=number)
    return found


def codecs(run: Run) -> f.Figures:
    found: f.Figures = {}
    for name in SIZES if run.size.is_full else ("100 B",):
        for codec in (*(("none",) if run.size.is_full else ()), "gzip", "snappy", "lz4", "zstd"):
            driven(run, found, f"{codec}, {name}", f"{codec}-{SIZES[name]}", SIZES[name], compression=codec)
    return found


def spread_out(run: Run) -> f.Figures:
    found: f.Figures = {}
    for partitions in (1, 6, 12, 100, 1000) if run.size.is_full else (1, 12, 100):
        driven(run, found, f"{partitions} partitions", f"over-{partitions}", 100, partitions=partitions, connections=4)
    return found


def large_batches(run: Run) -> f.Figures:
    found: f.Figures = {}
    batches = {"16 KiB": 16 << 10, "64 KiB": 64 << 10, "256 KiB": 256 << 10, "1 MB": 1_000_000}
    for name in batches if run.size.is_full else ("64 KiB", "1 MB"):
        batch_bytes = batches[name]
        driven(run, found, name, f"batch-{batch_bytes}", 100, batch_bytes=batch_bytes)
    return found


def default_batches(run: Run) -> f.Figures:
    """Java's producer as it comes."""
    found: f.Figures = {}
    for name, value_bytes, records in (("100 B", 100, 2_000_000), ("1 KiB", 1 << 10, 100_000)):
        java(run, found, name, f"java-{value_bytes}", value_bytes, records, "acks=1")
    return found


def tuned(run: Run) -> f.Figures:
    found: f.Figures = {}
    for partitions in (1, 6):
        for word in ("1", "all"):
            props = (f"acks={word}", "batch.size=65536", "linger.ms=5")
            case = f"acks={word}, {partitions} partitions" if partitions > 1 else f"acks={word}"
            java(run, found, case, f"tuned-{partitions}-{word}", 100, 2_000_000, *props, partitions=partitions)
    return found


def java(
    run: Run,
    found: f.Figures,
    case: str,
    topic: str,
    value_bytes: int,
    records: int,
    *properties: str,
    partitions: int = 1,
    producers: int = 1,
) -> None:
    """kafka-producer-perf-test, one or several at once."""
    with run.case(case, found) as row:
        create_topic(run.server, topic, partitions)
        path, contents = run.payloads(value_bytes)
        count = run.size.count(records, 1000)
        used = cpu_s(run.server)
        running = [producer_perf(run.server.bootstrap, topic, count, path, *properties) for _ in range(producers)]
        rows = [perf_figures(one.output()) for one in running]
        used = cpu_s(run.server) - used
        check_values(run.load, run.server, topic, count * producers, contents, partitions=partitions)
        row[f.CPU_RECORD] = used / (count * producers) * 1e6
        row[f.RECORDS] = sum(one["rate"] for one in rows)
        row[f.MB] = row[f.RECORDS] * value_bytes / 1e6


def rdkafka(
    run: Run,
    found: f.Figures,
    case: str,
    topic: str,
    value_bytes: int,
    records: int,
    *,
    configs: dict[str, object] | None = None,
    per_transaction: int = 0,
    **settings: object,
) -> None:
    """librdkafka; settings with _ for dots."""
    with run.case(case, found) as row:
        create_topic(run.server, topic, **(configs or {}))
        path, contents = run.payloads(value_bytes)
        count = run.size.count(records, 1000)
        named = {name.replace("_", "."): str(value) for name, value in settings.items()}
        used = cpu_s(run.server)
        out = librdkafka(
            bootstrap=run.server.bootstrap,
            topic=topic,
            records=count,
            payloads=str(path),
            per_transaction=per_transaction and run.size.count(per_transaction, 100),
            settings=named,
        ).result()
        used = cpu_s(run.server) - used
        if out["failed"]:
            raise NotEqual(f"{out['failed']} messages were not delivered")
        check_values(run.load, run.server, topic, count, contents, read_committed=bool(per_transaction))
        row[f.CPU_RECORD] = used / count * 1e6
        row[f.RECORDS] = count / out["seconds"]
        row[f.MB] = row[f.RECORDS] * value_bytes / 1e6


def librdkafka_tuned(run: Run) -> f.Figures:
    found: f.Figures = {}
    large = {"queue_buffering_max_messages": 1_000_000, "acks": 1}
    for name, value_bytes, records in (("100 B", 100, 4_000_000), ("1 KiB", 1 << 10, 500_000)):
        rdkafka(
            run,
            found,
            f"{name}, tuned",
            f"rd-{value_bytes}",
            value_bytes,
            records,
            **large,
            batch_size=65536,
            linger_ms=5,
        )
        rdkafka(run, found, f"{name}, batches to 1 MB", f"rd-large-{value_bytes}", value_bytes, records, **large)
    return found


LOAD = "load drive, 16 KiB batches, 5 in flight on a connection"
SCENARIOS = [
    Scenario(
        "default-batches",
        "Java's producer with its defaults, acks=1",
        "kafka-producer-perf-test",
        default_batches,
        is_fresh=True,
        expected_s=400,
    ),
    Scenario(
        "large-batches",
        "Batches of 100-byte records by size, acks=1",
        "load drive, 5 in flight",
        large_batches,
        expected_s=95,
    ),
    Scenario("produce-sizes", "Records by size, acks=1", LOAD, sizes, expected_s=145),
    Scenario("produce-acks", "Records by acks (1: produce-sizes)", LOAD, acks, expected_s=115),
    Scenario("produce-codecs", "Records by codec, acks=1 (none: produce-sizes)", LOAD, codecs, expected_s=120),
    Scenario(
        "produce-partitions",
        "100-byte records over many partitions, acks=1",
        f"{LOAD}, 4 connections",
        spread_out,
        is_long=True,
    ),
    Scenario(
        "java-tuned",
        "Java's producer with batch.size=65536 linger.ms=5",
        "kafka-producer-perf-test",
        tuned,
        is_long=True,
    ),
    Scenario(
        "librdkafka", "librdkafka's producer, acks=1", "librdkafka by its C interface", librdkafka_tuned, is_long=True
    ),
]
