"""`compact` and `repair` of the library: which records stay, and what else is left alone."""

from pathlib import Path

import pytest

from ottla.errors import CorruptMessage, LogNotFound, StorageError
from ottla.log import Compacted, Log, LogConfig, compact, repair, verify

SMALL = LogConfig(segment_bytes=1000)


def fill(folder: Path, count: int, keys: int = 3, *, first: int = 0) -> None:
    with Log.open(folder, mode="a", config=SMALL) as log:
        for number in range(first, first + count):
            log.append(f"{number}", key=f"{number % keys}")


def values(folder: Path) -> list[bytes | None]:
    with Log.open(folder) as log:
        return [record.value for record in log]


def test_the_last_record_of_each_key_stays(tmp_path: Path) -> None:
    fill(tmp_path / "t-0", 60)
    fill(tmp_path / "t-1", 6)
    fill(tmp_path / "u-0", 6)
    done = compact(tmp_path / "t-0", config=SMALL)
    assert (done.records_before, done.records_after) == (60, 3)
    assert done.bytes_before > 10 * done.bytes_after > 0
    assert values(tmp_path / "t-0") == [b"57", b"58", b"59"]
    # Others are as they were.
    assert values(tmp_path / "t-1") == values(tmp_path / "u-0") == [b"%d" % number for number in range(6)]
    assert verify(tmp_path).damage == []
    assert compact(tmp_path / "t-0", config=SMALL) == Compacted()
    fill(tmp_path / "t-0", 1, first=60)
    assert compact(tmp_path / "t-0", config=SMALL).records_after == 3
    assert values(tmp_path / "t-0") == [b"58", b"59", b"60"]


def test_records_without_a_key_go(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0", mode="a") as log:
        log.append_many([("a", "1"), "none", ("a", "2")])
    done = compact(tmp_path / "t-0")
    assert (done.records_before, done.records_after, done.records_without_key) == (3, 1, 1)
    assert values(tmp_path / "t-0") == [b"2"]


def test_a_log_of_a_broker_keeps_what_replicas_may_lose(tmp_path: Path) -> None:
    fill(tmp_path / "t-0", 60)
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=1\n")
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nt 0 30\n")
    compact(tmp_path / "t-0", config=SMALL)
    left = values(tmp_path / "t-0")
    assert left[-30:] == [b"%d" % number for number in range(30, 60)]
    assert len(left) < 60
    lines = (tmp_path / "replication-offset-checkpoint").read_text().splitlines()
    assert lines[2:] == ["t 0 30"]


def test_what_cannot_be_compacted(tmp_path: Path) -> None:
    with pytest.raises(LogNotFound, match=r"there is no folder .*t-0"):
        compact(tmp_path / "t-0")
    fill(tmp_path / "t-0", 60)
    (tmp_path / "notes").mkdir()
    with pytest.raises(StorageError, match="notes is no partition's folder"):
        compact(tmp_path / "notes")
    with Log.open(tmp_path / "u-0", mode="a"), pytest.raises(StorageError, match="lock"):
        compact(tmp_path / "t-0")
    path = tmp_path / "t-0" / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptMessage, match="checksum"):
        compact(tmp_path / "t-0", config=SMALL)
    assert path.read_bytes() == content


def test_repair_says_what_is_left(tmp_path: Path) -> None:
    fill(tmp_path / "t-0", 60)
    assert repair(tmp_path / "t-0") == range(60)
    with Log.open(tmp_path / "t-0") as log:
        second = log.segments[1][0]
    path = tmp_path / "t-0" / f"{second:020}.log"
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    path.write_bytes(content)
    assert repair(tmp_path / "t-0") == range(second)
    assert verify(tmp_path).damage == []
    assert values(tmp_path / "t-0") == [b"%d" % number for number in range(second)]


def test_what_cannot_be_repaired(tmp_path: Path) -> None:
    with pytest.raises(LogNotFound):
        repair(tmp_path / "t-0")
    (tmp_path / "t-0").mkdir()
    with pytest.raises(StorageError, match=r"has no segment.*nothing was repaired"):
        repair(tmp_path / "t-0")
