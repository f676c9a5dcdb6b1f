"""How soon and fast `ottla.scan` reads the end of a large log: `python benches/scan.py [--records N] [--no-broker]`.

A partition of 20 GB: segments of 1 GiB, of which all but the last are holes between an index as large as theirs and one
real batch, so that the disk holds what is read. The last ten minutes are N records of 100 bytes (a key of 16, the rest
value), and a scan finds them by time. From a directory, and from a broker (our own) that serves the same directory.

The first batch is counted from the call of `ottla.scan`. Rates are of all rows after that, with the usual columns and
with two, the median and the best of some runs. Rows per CPU second are of this process alone, and depend less on what
else the machine does.
"""

import argparse
import random
import shutil
import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import ottla
from benches.spark_read import facts
from ottla import _core
from ottla.client.sync import Admin, Cluster
from ottla.pipelines.demo import broker
from ottla.reading.scan import Scan

TOPIC = "bench"
SEGMENT_BYTES = 1 << 30
SEGMENTS = 19
OFFSETS = 10_000_000
"""Of a segment of holes."""
INDEX_INTERVAL_BYTES = 4096
RECORDS_PER_BATCH = 140
VALUE_BYTES = 76
SPAN_MS = 10 * 60 * 1000
HOUR_MS = 60 * 60 * 1000
#: Milliseconds until the first batch, and millions of rows a second.
TARGETS = {"first": 100, "directory": 5.0, "broker": 3.0}


def write(root: Path, records: int) -> None:
    """The data directory, as after a clean stop of a broker. One that knows the topic may have made it."""
    folder = root / f"{TOPIC}-0"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    now_ms = time.time_ns() // 1_000_000
    for number in range(SEGMENTS):
        end_ms = now_ms - SPAN_MS - (SEGMENTS - 1 - number) * HOUR_MS - 1
        write_holes(folder, number * OFFSETS, end_ms)
    first = SEGMENTS * OFFSETS
    write_records(folder, first, records, now_ms - SPAN_MS + 30_000)
    end = first + records
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        (root / name).write_text(f"0\n1\n{TOPIC} 0 {end}\n")
    (root / ".kafka_cleanshutdown").touch()


def make_topic(folder: Path) -> None:
    """Has a broker know the topic, and stops it."""
    with broker.running(folder) as bootstrap, Cluster(bootstrap) as cluster:
        Admin(cluster).create_topic(TOPIC, 1, 1, {"retention.ms": "-1", "segment.bytes": str(SEGMENT_BYTES)})


def write_holes(folder: Path, first: int, end_ms: int) -> None:
    """A segment that ends with one batch, behind nothing. Its indexes have as many entries as if it were full."""
    last = first + OFFSETS - 1
    batch = _core.encode_batch([(end_ms, None, b"x" * 100, [])], base_offset=last)
    position = SEGMENT_BYTES - len(batch)
    path = folder / f"{first:020}.log"
    with path.open("wb") as file:
        file.seek(position)
        file.write(batch)
    entries = SEGMENT_BYTES // INDEX_INTERVAL_BYTES
    step = OFFSETS // entries
    offsets, times = bytearray(), bytearray()
    for number in range(1, entries):
        offsets += struct.pack(">ii", number * step, number * INDEX_INTERVAL_BYTES)
        times += struct.pack(">qi", end_ms - HOUR_MS + number * HOUR_MS // entries, number * step)
    offsets += struct.pack(">ii", OFFSETS - 1, position)
    times += struct.pack(">qi", end_ms, OFFSETS - 1)
    path.with_suffix(".index").write_bytes(offsets)
    path.with_suffix(".timeindex").write_bytes(times)


def write_records(folder: Path, first: int, records: int, begin_ms: int) -> None:
    """The last segment: records at even distances of time."""
    value = random.Random(1).randbytes(VALUE_BYTES)
    path = folder / f"{first:020}.log"
    offsets, times, indexed, position = bytearray(), bytearray(), 0, 0
    with path.open("wb") as file:
        for number in range(0, records, RECORDS_PER_BATCH):
            count = min(RECORDS_PER_BATCH, records - number)
            rows = [
                (begin_ms + (number + each) * (SPAN_MS - 60_000) // records, b"%016d" % (number + each), value, [])
                for each in range(count)
            ]
            batch = _core.encode_batch(rows, base_offset=first + number)
            file.write(batch)
            if position - indexed > INDEX_INTERVAL_BYTES:
                offsets += struct.pack(">ii", number + count - 1, position)
                times += struct.pack(">qi", rows[-1][0], number + count - 1)
                indexed = position
            position += len(batch)
    path.with_suffix(".index").write_bytes(offsets)
    path.with_suffix(".timeindex").write_bytes(times)


def first_batch(make: Callable[[], Scan], runs: int) -> float:
    """Milliseconds until the first batch, the best of some runs."""
    best = float("inf")
    for _ in range(runs):
        begun = time.perf_counter()
        next(iter(make()))
        best = min(best, (time.perf_counter() - begun) * 1000)
    return best


def rate(name: str, make: Callable[[], Scan], records: int, runs: int) -> float:
    """Millions of rows a second, the best of some runs, which it prints."""
    seconds, cpu = [], []
    for _ in range(runs):
        batches = iter(make())
        rows = next(batches).num_rows
        begun, used = time.perf_counter(), time.process_time()
        rest = sum(batch.num_rows for batch in batches)
        seconds.append((time.perf_counter() - begun) / rest)
        cpu.append((time.process_time() - used) / rest)
        assert rows + rest == records, f"{name} found {rows + rest} of {records} records"
    middle, best, of_cpu = (1e-6 / each for each in (statistics.median(seconds), min(seconds), min(cpu)))
    print(f"{name:36} {middle:6.2f} M rows/s   best {best:6.2f}   {of_cpu:6.2f} M rows per CPU second", flush=True)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--no-broker", action="store_true", help="only the directory")
    arguments = parser.parse_args()
    print(facts())
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder:
        root = Path(folder) / "data"
        if not arguments.no_broker:
            make_topic(Path(folder))
        write(root, arguments.records)
        size = sum(path.stat().st_size for path in root.rglob("*.log"))
        used = sum(path.stat().st_blocks for path in root.rglob("*.log")) * 512
        print(f"{size / 1e9:.1f} GB of log, {used / 1e9:.1f} on disk; {arguments.records:,} records in ten minutes")
        scans(arguments, "directory", path=str(root))
        if not arguments.no_broker:
            with broker.running(Path(folder)) as bootstrap:
                scans(arguments, "broker", servers=bootstrap)


def scans(arguments: argparse.Namespace, where: str, **place: str) -> None:
    def make(**options: object) -> Scan:
        found: Scan = ottla.scan(TOPIC, start=timedelta(minutes=10), **place, **options)  # type: ignore[arg-type]
        return found

    milliseconds = first_batch(make, arguments.runs)
    print(f"{f'first batch from a {where}':36} {milliseconds:6.1f} ms   target {TARGETS['first']}")
    best = rate(f"usual columns from a {where}", make, arguments.records, arguments.runs)
    rate(f"offset, value from a {where}", lambda: make(columns=("offset", "value")), arguments.records, arguments.runs)
    print(f"{'':36} {best:6.2f} M rows/s   target {TARGETS[where]}")


if __name__ == "__main__":
    main()
