"""`ottla.log.Log` as a program uses it."""

import doctest
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

import ottla.log.log
from ottla import errors
from ottla.log import Log, LogConfig, verify
from tests.peers.skips import module

from .batches import batch


def test_the_example_in_the_docstring_is_true() -> None:
    assert doctest.testmod(ottla.log.log).failed == 0


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_appended_is_read(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "t-3"
    records = [(f"k{at}", f"v{at}" * (at % 50), {"n": str(at)}) for at in range(5_000)]
    with Log.open(path, mode="a", config=LogConfig(segment_bytes=100_000)) as log:
        assert log.append_many(records, compression=compression, batch_bytes=4_000) == range(5_000)
        assert (log.topic, log.partition) == ("t", 3)
    log = Log.open(path)
    assert len(log.segments) > 1 or compression != "none"
    found = [(r.key, r.value, r.headers) for r in log]
    assert found == [(k.encode(), v.encode(), [("n", h["n"].encode())]) for k, v, h in records]
    assert [r.offset for r in log.records(4_711, 4_714)] == [4_711, 4_712, 4_713]
    assert list(log.records(5_000)) == []
    with pytest.raises(errors.OffsetOutOfRange):
        list(log.records(5_001))
    assert verify(path).damage == []
    assert verify(tmp_path).records == 5_000


def test_columns(tmp_path: Path) -> None:
    pyarrow = module("arrow", "pyarrow")
    with Log.open(tmp_path / "t-0", mode="a") as log:
        log.append_many([(None, f"{at}") for at in range(1_000)], timestamp_ms=1_700_000_000_123, batch_bytes=2_000)
        chunks = list(log.columns(10, 990, rows_max=100))
        assert all(isinstance(chunk, pyarrow.RecordBatch) and len(chunk) <= 100 for chunk in chunks)
        table = pyarrow.Table.from_batches(chunks)
        assert table["offset"].to_pylist() == list(range(10, 990))
        assert table["value"][5].as_py() == b"15"
        assert table["timestamp"][0].as_py() == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)
        assert next(log.columns(columns=["value"])).schema.names == ["value"]


def test_columns_with_a_timestamp_of_nanoseconds(tmp_path: Path) -> None:
    module("arrow", "pyarrow")
    with Log.open(tmp_path / "t-0", mode="a") as log:
        log.append_many(["a", "b"], timestamp_ms=1_700_000_000_123)
        log.append_many(["c"], timestamp_ms=1_700_000_000_123_456_789)
        with pytest.raises(errors.InvalidTimestamp, match=r"t-0: .*offset 2 has the timestamp 1700000000123456789,"):
            list(log.columns())
        rows = [row for batch in log.columns(timestamps="null") for row in batch.to_pylist()]
        assert [row["timestamp"] is None for row in rows] == [False, False, True]


def test_find_by_time(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0", mode="a", config=LogConfig(index_interval_bytes=200)) as log:
        for second in range(200):
            log.append_many(["a", "b", "c"], timestamp_ms=1_000 * second)
            if second % 50 == 0:
                log.roll()
        for second in (0, 1, 49, 50, 51, 199):
            assert log.find(1_000 * second) == 3 * second
        assert log.find(datetime.fromtimestamp(7.5, UTC)) == 24
        assert log.find(199_001) is None


def test_a_log_in_use_is_locked_for_others(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0", mode="a") as log:
        log.append("a")
        with pytest.raises(errors.StorageError, match="in use"):
            Log.open(tmp_path / "t-0", mode="a")
        # Another partition of the same directory is fine in this process, and the other opens when the first closes.
        with Log.open(tmp_path / "t-1", mode="a") as other:
            other.append("b")
        program = f"from ottla.log import Log; Log.open({str(tmp_path / 't-1')!r}, mode='a')"
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert "in use" in run.stderr
        # A reader asks nobody.
        assert [record.value for record in Log.open(tmp_path / "t-0")] == [b"a"]
    with pytest.raises(errors.StorageError, match="closed"):
        log.append("b")
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    with Log.open(tmp_path / "t-0", mode="a") as log:
        assert log.append("b") == 1
        assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_reader_changes_nothing_and_tolerates_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    log = Log.open(path, mode="a", config=LogConfig(index_interval_bytes=100))
    log.append_many([f"{at}" for at in range(100)], batch_bytes=500)
    reader = Log.open(path)
    assert reader.end_offset == 100
    log.append("later")
    assert reader.end_offset == 100
    reader.refresh()
    assert reader.end_offset == 101
    log.close()
    # What a killed Kafka leaves: preallocated indexes with a tail of zeros; and a batch that is half written.
    for name, size in ((".index", 10 << 20), (".timeindex", 10 << 20)):
        with (path / f"{0:020}{name}").open("r+b") as file:
            file.truncate(size // 12 * 12)
    with (path / f"{0:020}.log").open("ab") as file:
        file.write(batch(b"torn", offset=101)[:-1])
    before = {name: (name.stat().st_size, name.read_bytes()) for name in path.iterdir()}
    reader = Log.open(path)
    assert (reader.start_offset, reader.end_offset) == (0, 101)
    assert [record.value for record in reader.records(99)] == [b"99", b"later"]
    assert reader.find(0) == 0
    with pytest.raises(errors.StorageError, match="reading only"):
        reader.append("x")
    reader.close()
    assert {name: (name.stat().st_size, name.read_bytes()) for name in path.iterdir()} == before
    with Log.open(path, mode="a") as log:
        assert log.end_offset == 101


def test_a_torn_tail_of_every_length_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    with Log.open(path, mode="a") as log:
        log.append_many(["a", "b"])
        log.append("c")
    file = path / f"{0:020}.log"
    whole = file.read_bytes()
    first = len(whole) - len(batch(b"c"))
    for cut in range(first, len(whole)):
        file.write_bytes(whole[:cut])
        (tmp_path / ".kafka_cleanshutdown").unlink(missing_ok=True)
        (tmp_path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
        assert Log.open(path).end_offset == 2
        with Log.open(path, mode="a") as log:
            assert log.end_offset == 2
            assert file.stat().st_size == first
        assert verify(path).damage == []
    file.write_bytes(whole)
    (tmp_path / ".kafka_cleanshutdown").unlink()
    with Log.open(path, mode="a") as log:
        assert log.end_offset == 3


def test_deletion_and_truncation(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0", mode="a", config=LogConfig(segment_bytes=500)) as log:
        for at in range(100):
            log.append(f"{at}" * 20)
        log.delete_before(50)
        assert log.start_offset == 50
        assert 30 < log.segments[0][0] <= 50
        log.truncate(60)
        assert log.end_offset == 60
        assert [record.offset for record in log] == list(range(50, 60))
    # The start offset survives in the directory's checkpoint.
    assert Log.open(tmp_path / "t-0").start_offset == 50
    with Log.open(tmp_path / "t-0", mode="a") as log:
        assert (log.start_offset, log.end_offset) == (50, 60)
        log.append("next")
    assert verify(tmp_path).damage == []


def test_names_and_modes_are_checked(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidRequest, match="TOPIC-NUMBER"):
        Log.open(tmp_path / "orders", mode="a")
    with pytest.raises(ValueError, match="mode"):
        Log.open(tmp_path / "orders-0", mode="w")  # type: ignore[arg-type]
    with pytest.raises(errors.StorageError):
        Log.open(tmp_path / "orders-0")
