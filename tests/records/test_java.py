"""Apache Kafka's own code reads what we encode, and we read what it encodes, in every codec."""

import base64
import os
import subprocess
from pathlib import Path

import pytest

from ottla import records
from ottla._core import marker_batch
from tests.peers.apache import fetch, need_java, tool
from tests.records.samples import CODECS, NOW_MS, Sample, many, shapes

pytestmark = pytest.mark.java

VERSION = "2.7.2"
SAMPLES = shapes() + many(2_000)


def segment() -> bytes:
    """One batch of the same records per codec, then a marker, all of one producer."""
    parts = []
    for index, codec in enumerate(CODECS):
        options = {"producer_id": 42, "producer_epoch": 7, "transactional": True}
        builder = records.BatchBuilder(compression=codec, leader_epoch=4, **options)
        for timestamp_ms, key, value, headers in SAMPLES:
            builder.append(timestamp_ms, key, value, headers)
        base_offset = index * len(SAMPLES)
        parts.append(
            builder.finish(base_offset=base_offset, base_sequence=(1 << 31) - 5 if index == 0 else base_offset)
        )
    parts.append(records.stamp(marker_batch(42, 7, True, 9, NOW_MS), len(CODECS) * len(SAMPLES), 4))
    return b"".join(parts)


def text(data: bytes | None) -> str:
    return "-" if data is None else "." + base64.b64encode(data).decode()


def line(offset: int, sample: Sample) -> str:
    timestamp_ms, key, value, headers = sample
    names = [f"{text(name.encode())}={text(content)}" for name, content in headers]
    return " ".join(["record", str(offset), str(timestamp_ms), text(key), text(value), *names])


def test_kafkas_records_and_ours_are_the_same(tmp_path: Path) -> None:
    need_java()
    fetch(VERSION)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.write_bytes(segment())
    peers = Path(os.environ.get("OTTLA_PEERS", Path.home() / ".cache" / "ottla-peers"))
    command = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-cp", f"{peers}/kafka-{VERSION}/libs/*", str(Path(__file__).with_name("Batches.java"))]
    done = subprocess.run([*command, str(ours), str(theirs)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    count = len(SAMPLES)
    for index, codec in enumerate(CODECS):
        base = index * count
        sequence, last_sequence = ((1 << 31) - 5, count - 6) if index == 0 else (base, base + count - 1)
        newest = max(timestamp for timestamp, *_ in SAMPLES)
        head = f"batch {codec} {base} {base + count - 1} 42 7 {sequence} {last_sequence} true false {newest}"
        assert lines[index * (count + 1)] == head
        for offset, sample in enumerate(SAMPLES, base):
            assert lines[offset + index + 1] == line(offset, sample)
    end = len(CODECS) * count
    assert lines[-2:] == [f"batch none {end} {end} 42 7 -1 -1 true true {NOW_MS}", "marker COMMIT 9"]

    batches = records.read_batches(theirs.read_bytes())
    assert [batch.compression for batch in batches] == [*CODECS, "none"]
    for batch in batches:
        records.validate(theirs.read_bytes()[batch.position : batch.position + batch.size_bytes])
    read = [(one.timestamp_ms, one.key, one.value, one.headers) for one in records.RecordReader(theirs.read_bytes())]
    assert read == SAMPLES * len(CODECS)
    marker = batches[-1]
    assert (marker.is_control, marker.producer_id, marker.producer_epoch, marker.leader_epoch) == (True, 42, 7, 4)
    position = marker.position
    assert theirs.read_bytes()[position:][17:] == records.stamp(marker_batch(42, 7, False, 9, NOW_MS), 0, 0)[17:]


def test_dump_log_reads_every_record(tmp_path: Path) -> None:
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(segment())
    printed = tool(VERSION, "dump-log", "--deep-iteration", "--files", str(file))
    assert "invalid" not in printed.replace("isvalid", "")
    assert printed.count("isvalid: true") == len(CODECS) + 1
    assert printed.count("keysize:") == len(CODECS) * len(SAMPLES) + 1
    assert "endTxnMarker: COMMIT coordinatorEpoch: 9" in printed
