"""A log that holds every format: recovered, searched, verified and dumped, and read by Kafka's tool."""

from pathlib import Path

import pytest

from ottla.log import Log, LogConfig, verify
from ottla.log.dump import rows
from tests.peers.apache import need_java
from tests.peers.skips import module
from tests.support.kafka_dump import dump

HISTORY = [0, 1, 2, 1]
CODECS = ["none", "gzip", "snappy", "lz4"]


def config(magic: int) -> LogConfig:
    return LogConfig(message_format=magic, segment_bytes=3_000, index_interval_bytes=500)


def write(path: Path) -> int:
    """Twenty records per codec and format, a second between appends; gives how many there are."""
    count = 0
    for magic in HISTORY:
        with Log.open(path, mode="a", config=config(magic)) as log:
            for codec in CODECS:
                for _ in range(4):
                    records = [(f"k{count + at}", f"value {count + at} " * 5) for at in range(5)]
                    # Format 0 has no times; here they go on rising behind it.
                    log.append_many(records, timestamp_ms=1_000_000 + count, compression=codec)
                    count += 5
    return count


def crash(path: Path) -> None:
    (path.parent / ".kafka_cleanshutdown").unlink()
    for index in path.glob("*.*index"):
        index.unlink()


def expected(count: int) -> list[tuple[int, bytes | None]]:
    return [(offset, f"value {offset} ".encode() * 5) for offset in range(count)]


def test_a_crash_takes_nothing_and_indexes_are_rebuilt(tmp_path: Path) -> None:
    path = tmp_path / "orders-0"
    count = write(path)
    before = {file.name: file.read_bytes() for file in sorted(path.glob("0*.log"))}
    assert len(before) > 4
    crash(path)
    with Log.open(path, mode="a", config=config(2)) as log:
        assert [(one.offset, one.value) for one in log] == expected(count)
        assert log.end_offset == count
        # By index from the middle of a set, and by time.
        for offset in (3, 27, 99, count - 1):
            assert next(iter(log.records(offset))).offset == offset
        per_format = count // len(HISTORY)
        assert log.find(0) == per_format
        assert log.find(1_000_000 + per_format + 7) == per_format + 10
        assert log.find(1_000_000 + count - 5) == count - 5
        assert log.find(1_000_000 + count) is None
    assert {file.name: file.read_bytes() for file in sorted(path.glob("0*.log"))} == before
    report = verify(tmp_path)
    assert (report.damage, report.records) == ([], count)


def test_a_torn_message_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "orders-0"
    with Log.open(path, mode="a", config=config(0)) as log:
        log.append_many(["a", "b", "c"])
    file = path / "00000000000000000000.log"
    whole = file.read_bytes()
    for damaged in (whole[:-1], whole[:-1] + b"x", whole + b"\0" * 40, whole + whole[:20]):
        file.write_bytes(damaged)
        found = verify(tmp_path).damage
        assert len(found) == 1
        crash(path)
        with Log.open(path, mode="a", config=config(1)) as log:
            kept = 2 if len(damaged) <= len(whole) else 3
            assert log.end_offset == kept
            assert found[0].position == len(whole) // 3 * kept
            log.truncate(0)
        file.write_bytes(whole)


def test_the_epochs_of_leaders_go_with_old_messages(tmp_path: Path) -> None:
    """They carry none: a follower that asked for one would truncate too little."""
    path = tmp_path / "orders-0"
    with Log.open(path, mode="a", config=config(2)) as log:
        log.append("a")
        assert log.leader_epochs == [(0, 0)]
    with Log.open(path, mode="a", config=config(1)) as log:
        log.append("b")
        assert log.leader_epochs == []
    with Log.open(path, mode="a", config=config(2)) as log:
        log.append("c")
        assert log.leader_epochs == [(0, 2)]


def test_a_follower_takes_messages_as_they_are(tmp_path: Path) -> None:
    count = write(tmp_path / "orders-0")
    segments = [file.read_bytes() for file in sorted((tmp_path / "orders-0").glob("0*.log"))]
    with Log.open(tmp_path / "copy-0", mode="a", config=LogConfig()) as copy:
        for segment in segments:
            copy._log.append_as_follower(segment, 0)
        assert [(one.offset, one.value) for one in copy] == expected(count)


def test_columns_and_dump_show_them(tmp_path: Path) -> None:
    path = tmp_path / "orders-0"
    count = write(path)
    module("arrow", "pyarrow")
    with Log.open(path) as log:
        offsets = [offset for part in log.columns(columns=["offset"]) for offset in part.column(0).to_pylist()]
    assert offsets == list(range(count))
    seen = [row for file in sorted(path.glob("0*.log")) for row in rows(str(file), records=True)]
    assert [row["offset"] for row in seen if "value" in row] == list(range(count))
    assert not any("damage" in row for row in seen)


@pytest.mark.java
def test_kafkas_tool_reads_every_file(tmp_path: Path) -> None:
    need_java()
    path = tmp_path / "orders-0"
    count = write(path)
    files = sorted(file for file in path.iterdir() if file.suffix in (".log", ".index", ".timeindex"))
    deep = dump("2.7.2", "--deep-iteration", of=files)
    for complaint in ("Mismatch", "Non-consecutive", "Found ", "isvalid: false", "orrupt", "out of order", "not found"):
        assert complaint not in deep, deep[max(0, deep.index(complaint) - 500) :][:1500]
    assert deep.count("| offset: ") == count
    assert all(f"magic: {magic}" in deep for magic in HISTORY)
    indexes = [file for file in files if file.suffix != ".log"]
    assert dump("2.7.2", "--index-sanity-check", of=indexes).count("passed sanity check.") == len(indexes)
