"""Apache Kafka's own tool reads every file that we write, and finds nothing wrong."""

import re
from pathlib import Path

import pytest

from ottla.log import Log, LogConfig, verify
from ottla.log.dump import rows
from tests.peers.apache import need_java
from tests.support.kafka_dump import dump

from .batches import batch
from .transactions import fill, open_log

pytestmark = pytest.mark.java


def write(path: Path) -> None:
    """Segments closed by size, time and hand, every codec, an idempotent producer, a truncation, a restart, a crash."""
    config = LogConfig(segment_bytes=60_000, index_interval_bytes=1_000, segment_ms=1_000_000)
    with Log.open(path, mode="a", config=config) as log:
        for number, codec in enumerate(["none", "gzip", "snappy", "lz4", "zstd"] * 4):
            records = [(f"k{at % 7}", f"value {at} " * 5, {"n": str(at)}) for at in range(200)]
            log.append_many(records, compression=codec, timestamp_ms=1_000 * number, batch_bytes=5_000)
        log.append_batch(batch(b"a", b"b", producer=(5, 0, 0), timestamp_ms=25_000))
        log.append_batch(batch(b"c", producer=(5, 0, 2), timestamp_ms=20_000))
        log.append("much younger", timestamp_ms=10_000_000)
        log.truncate(log.end_offset - 150)
        log.roll()
        log.append_batch(batch(b"d", b"e", producer=(6, 1, 0), timestamp_ms=11_000_000))
    (path.parent / ".kafka_cleanshutdown").unlink()
    for index in path.glob("*.*index"):
        index.unlink()
    with Log.open(path, mode="a", config=config) as log:
        log.append_many(["after the crash"] * 100, timestamp_ms=11_000_001, batch_bytes=500)


def split(path: Path) -> None:
    """A segment of an old broker whose offsets no index can hold, opened and so split in three."""
    path.mkdir()
    offsets = [base + at for base in (0, 1 << 31, 1 << 33) for at in range(30)]
    one = batch(b"x" * 100)
    content = b"".join(offset.to_bytes(8, "big") + one[8:] for offset in offsets)
    (path / f"{0:020}.log").write_bytes(content)
    with Log.open(path, mode="a", config=LogConfig(index_interval_bytes=500)) as log:
        assert log.end_offset == offsets[-1] + 1
    assert [int(file.stem) for file in sorted(path.glob("*.log"))] == [0, 1 << 31, 1 << 33]


@pytest.mark.parametrize("version", ["2.7.2", "3.9.2"])
def test_dump_log_accepts_every_file(tmp_path: Path, version: str) -> None:
    need_java()
    path = tmp_path / "orders-0"
    write(path)
    kinds = (".log", ".index", ".timeindex", ".snapshot")
    old = tmp_path / "old-0"
    split(old)
    files = sorted(file for file in (*path.iterdir(), *old.iterdir()) if file.suffix in kinds)
    assert {file.suffix for file in files} == set(kinds)
    deep = dump(version, "--deep-iteration", of=files)
    for complaint in ("Mismatch", "Non-consecutive", "Found ", "isvalid: false", "orrupt", "out of order", "not found"):
        assert complaint not in deep, deep[max(0, deep.index(complaint) - 500) :][:1500]
    with Log.open(path) as log:
        assert deep.count("| offset: ") == log.end_offset - log.start_offset + 3 * 30
        assert deep.count("isvalid: true") > 50
    assert "producerId: 6 producerEpoch: 1" in deep
    indexes = [file for file in files if file.suffix in (".index", ".timeindex")]
    assert dump(version, "--index-sanity-check", of=indexes).count("passed sanity check.") == len(indexes)


def test_the_proof_would_notice(tmp_path: Path) -> None:
    """The tool complains about an index that is wrong, on the stream that we look at."""
    need_java()
    path = tmp_path / "orders-0"
    write(path)
    index = max(path.glob("*.index"), key=lambda file: file.stat().st_size)
    data = index.read_bytes()
    index.write_bytes(data[:3] + bytes([data[3] - 1]) + data[4:])
    assert "Mismatches in" in dump("2.7.2", "--deep-iteration", of=[index])


FIELDS = {
    "endTxnMarker": "marker",
    "coordinatorEpoch": "coordinator_epoch",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "firstOffset": "first_offset",
    "lastOffset": "last_offset",
    "lastStableOffset": "last_stable_offset",
    "firstSequence": "first_sequence",
    "lastSequence": "last_sequence",
    "timestamp": "last_timestamp_ms",
    "currentTxnFirstOffset": "transaction_start",
}
"""The tool's words and ours."""


def told(output: str) -> list[dict[str, str]]:
    """The tool's lines about producers and transactions, as rows like ours; by file, and within it by producer."""
    found: list[dict[str, str]] = []
    file = ""
    for line in output.splitlines():
        if line.startswith("Dumping "):
            file = line.split()[1]
        plain = re.sub(r"(Some\(|OptionalLong\[)(\d+)[)\]]", r"\2", line)
        plain = re.sub(r"OptionalLong.empty|None", "-1", plain)
        row = {FIELDS[word]: value.lower() for word, value in re.findall(r"(\w+): (\S+)", plain) if word in FIELDS}
        if "marker" in row or (row and not file.endswith(".log")):
            found.append({"file": file, **row})
    return found


def in_order(found: list[dict[str, str]]) -> list[dict[str, str]]:
    return sorted(found, key=lambda row: (row["file"], int(row.get("producer_id", 0)), int(row.get("last_offset", 0))))


@pytest.mark.parametrize("version", ["2.7.2", "3.9.2"])
def test_dump_log_reads_transactions_as_we_do(tmp_path: Path, version: str) -> None:
    need_java()
    path = tmp_path / "orders-0"
    log = open_log(path, segment_bytes=3000, index_interval_bytes=200)
    fill(log, rounds=60)
    log.close()
    files = sorted(file for file in path.iterdir() if file.suffix in (".log", ".txnindex", ".snapshot"))
    theirs = told(dump(version, "--deep-iteration", of=files))
    found = [row for file in files for row in rows(str(file), records=True)]
    mine = [row for row in found if "marker" in row or ("producer_id" in row and "crc" not in row)]
    names = {"file", *FIELDS.values()}
    same = [{name: str(value) for name, value in row.items() if name in names} for row in mine]
    for row in same:
        if row.get("last_offset") == "-1":  # only a marker is known: the tool leaves the last batch out
            for name in ("first_sequence", "last_sequence", "last_offset", "last_timestamp_ms"):
                del row[name]
    assert sum("marker" in row for row in same) > 10
    assert sum("last_stable_offset" in row for row in same) > 5
    assert sum("transaction_start" in row for row in same) > 5
    assert in_order(theirs) == in_order(same)
    assert verify(path).damage == []
