"""LinkedIn's benchmark of three machines (Jay Kreps, 2014), with its cases and its settings.

https://engineering.linkedin.com/kafka/benchmarking-apache-kafka-2-million-writes-second-three-cheap-machines

It had three brokers with six disks each, and generators on three more machines. Here is one broker beside its
generators: replication is what the number of brokers allows. The figures stand beside the published ones for
orientation; they are not of the same machines.
"""

from __future__ import annotations

import time

from benches.suite import figures as f
from benches.suite.frames import produce_frame
from benches.suite.generators import consumer_perf, producer_perf
from benches.suite.proof import NotEqual, check_frames, check_values
from benches.suite.runner import Run, Scenario
from benches.suite.scenarios.consume import fill
from benches.suite.scenarios.latency import one as end_to_end
from benches.suite.scenarios.produce import RECORD_BYTES, SIZES, java
from benches.suite.servers import cpu_s, create_topic

PARTITIONS = 6
RECORDS = 2_000_000
PROPERTIES = ("buffer.memory=67108864", "batch.size=8196")
PUBLISHED = {
    "one producer, no replication": "821,557 records/s, 78.3 MB/s",
    "one producer, 3x asynchronous": "786,980 records/s, 75.1 MB/s (replication 3)",
    "one producer, 3x synchronous": "421,823 records/s, 40.2 MB/s (replication 3)",
    "three producers, 3x asynchronous": "2,024,032 records/s, 193.0 MB/s (replication 3)",
    "one consumer": "940,521 records/s, 89.7 MB/s",
    "three consumers": "2,615,968 records/s, 249.5 MB/s",
    "producer and consumer": "795,064 records/s, 75.8 MB/s (consumer)",
    "end to end": "2 ms median, 3 ms p99, 14 ms p99.9",
}


def linkedin(run: Run) -> f.Figures:
    found: f.Figures = {}
    for name, acks, producers in (
        ("one producer, no replication", "1", 1),
        ("one producer, 3x asynchronous", "1", 1),
        ("one producer, 3x synchronous", "all", 1),
        ("three producers, 3x asynchronous", "1", 3),
    ):
        if "asynchronous" in name and producers == 1:
            # With one broker it is the case before.
            continue
        topic = name.replace(" ", "-").replace(",", "")
        properties = (f"acks={acks}", *PROPERTIES)
        java(run, found, name, topic, 100, RECORDS, *properties, partitions=PARTITIONS, producers=producers)
    records = fill(run, "stored", 200_000_000, PARTITIONS, 100)
    with run.case("one consumer", found) as row:
        used = cpu_s(run.server)
        out = consumer_perf(run.server.bootstrap, "stored", records)
        row.update({f.RECORDS: out["records_per_s"], f.MB: out["mb_per_s"]})
        row[f.CPU_RECORD] = (cpu_s(run.server) - used) / records * 1e6
    with run.case("three consumers", found) as row:
        options = {"topic": "stored", "partitions": PARTITIONS, "consumers": 3, "pids": [run.server.pid]}
        out = run.load(run="check", address=run.server.bootstrap, **options)
        if out["records"] != 3 * records:
            raise NotEqual(f"{out['records']} records consumed, not {3 * records}")
        row.update({f.RECORDS: out["records"] / out["seconds"], f.MB: out["value_bytes"] / out["seconds"] / 1e6})
        row[f.CPU_RECORD] = out["cpu_s"] / out["records"] * 1e6
    _both(run, found)
    end_to_end(run, found, "end to end", 500, 1)
    return found


def _both(run: Run, found: f.Figures) -> None:
    with run.case("producer and consumer", found) as row:
        create_topic(run.server, "both", PARTITIONS)
        path, contents = run.payloads(100)
        count = run.size.count(RECORDS, 1000)
        begin = time.perf_counter()
        producer = producer_perf(run.server.bootstrap, "both", count, path, "acks=1", *PROPERTIES)
        options = {"topic": "both", "partitions": PARTITIONS, "records": count, "pids": [run.server.pid]}
        out = run.load(run="check", address=run.server.bootstrap, **options)
        producer.output()
        row["seconds, with the start of the producer"] = time.perf_counter() - begin
        check_values(run.load, run.server, "both", count, contents, partitions=PARTITIONS)
        row[f.CPU_RECORD] = out["cpu_s"] / count * 1e6


def sizes(run: Run) -> f.Figures:
    """The message size sweep: records and bytes a second."""
    found: f.Figures = {}
    for name, value_bytes in SIZES.items():
        records = min(RECORDS, 400_000_000 // value_bytes)
        java(
            run, found, name, f"size-{value_bytes}", value_bytes, records, "acks=1", *PROPERTIES, partitions=PARTITIONS
        )
    return found


def stored(run: Run) -> f.Figures:
    """Throughput while the stored data grow: it should not fall."""
    found: f.Figures = {}
    create_topic(run.server, "grows")
    frame = produce_frame(run.folder, "grows", 100, (16 << 10) // (100 + RECORD_BYTES))
    sent, step = 0, run.size.count(500_000_000, 1_000_000) // frame.value_bytes
    for part in range(1, (20 if run.size.is_full else 4) + 1):
        out = run.drive(frames=[str(frame.path)], depth=5, requests=step, seconds=600, warm_up_s=0)
        sent += out["sent"][0]
        row = {f.MB: step * frame.value_bytes / out["seconds"] / 1e6}
        row[f.CPU_RECORD] = out["cpu_s"] / (step * frame.records) * 1e6
        found[f"{part * 0.5:g} GB stored"] = row
    check_frames(run.load, run.server, "grows", [(frame, sent)])
    return found


TOOLS = "kafka-producer-perf-test, kafka-consumer-perf-test, load"
SCENARIOS = [
    Scenario("linkedin", "LinkedIn's cases, 100-byte records", TOOLS, linkedin, is_long=True, published=PUBLISHED),
    Scenario("linkedin-sizes", "LinkedIn's sweep of record sizes", "kafka-producer-perf-test", sizes, is_long=True),
    Scenario(
        "stored-data", "LinkedIn's throughput as stored data grow", "load drive, 16 KiB batches", stored, is_long=True
    ),
]
