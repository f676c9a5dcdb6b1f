"""`ottla.scan` from a directory: which rows, which columns, when what is read, and what is refused."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla import _core, records
from ottla.errors import OffsetOutOfRange
from ottla.kafka import TopicPartition
from ottla.log import Log, LogConfig
from ottla.reading.damage import DamagedBatch
from ottla.reading.scan import Scan
from tests.log.transactions import fill
from tests.peers.skips import module
from tests.spark.files import BASE_MS, a_batch, write_high_watermarks, write_segment

module("arrow", "pyarrow")

import pyarrow as pa

BASE = datetime.fromtimestamp(BASE_MS / 1000, UTC)


def table(scan: Scan) -> pa.Table:
    return pa.RecordBatchReader.from_stream(scan).read_all()


def read(root: Path | list[Path], **arguments: Any) -> list[tuple[int, int]]:
    """Partition and offset of each row; the values must be the offsets."""
    found = table(ottla.scan("t", path=root, **arguments))
    assert [b"%d" % offset for offset in found["offset"].to_pylist()] == found["value"].to_pylist()
    return list(zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True))


def rows(partition: int, start: int, end: int) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in range(start, end)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two partitions with a millisecond a record: three segments of a thousand, and one of a hundred."""
    for first in (0, 1000, 2000):
        write_segment(tmp_path / "t-0", first, [a_batch(first + number, 10) for number in range(0, 1000, 10)])
    write_segment(tmp_path / "t-1", 0, [a_batch(0, 100)])
    return tmp_path


def test_every_column(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-3", mode="a") as log:
        log.append("v", key="k", headers=[("h", "1"), ("h", None)], timestamp_ms=BASE_MS + 1)
        log.append(None, timestamp_ms=BASE_MS)
    chosen = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
    found = table(ottla.scan("t", path=tmp_path, columns=chosen))
    assert found.schema.equals(
        pa.schema(
            [
                ("topic", pa.string()),
                ("partition", pa.int32()),
                ("offset", pa.int64()),
                ("timestamp", pa.timestamp("ms", "UTC")),
                ("timestamp_type", pa.int32()),
                ("key", pa.binary()),
                ("value", pa.binary()),
                ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            ]
        )
    )
    first, second = (tuple(row.values()) for row in found.to_pylist())
    headers = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert first == ("t", 3, 0, BASE + timedelta(milliseconds=1), 0, b"k", b"v", headers)
    assert second == ("t", 3, 1, BASE, 0, None, None, None)


def test_a_timestamp_of_any_size(tmp_path: Path) -> None:
    times = [-1, 2**63 - 1]
    write_segment(tmp_path / "t-0", 0, [records.encode_batch([(time, None, b"x", []) for time in times])])
    found = table(ottla.scan("t", path=tmp_path, columns=["timestamp"]))
    assert found["timestamp"].cast(pa.int64()).to_pylist() == times


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, rows(0, 0, 3000) + rows(1, 0, 100)),
        ({"start": "earliest", "end": "latest", "partitions": 1}, rows(1, 0, 100)),
        ({"start": 7, "end": 9}, rows(0, 7, 9) + rows(1, 7, 9)),
        ({"start": {0: 2990, 1: 98}}, rows(0, 2990, 3000) + rows(1, 98, 100)),
        ({"start": 100, "end": 100}, []),
        ({"start": "latest"}, []),
        ({"end": "earliest"}, []),
        ({"start": BASE + timedelta(seconds=2.99)}, rows(0, 2990, 3000)),
        ({"start": BASE + timedelta(seconds=1.5), "end": BASE + timedelta(seconds=1.501)}, rows(0, 1500, 1501)),
        ({"start": BASE + timedelta(microseconds=1), "end": BASE + timedelta(microseconds=1001)}, None),
        ({"start": timedelta(minutes=10)}, []),
        ({"end": timedelta(minutes=10), "partitions": [1]}, rows(1, 0, 100)),
        ({"start": BASE - timedelta(days=1), "end": BASE}, []),
    ],
)
def test_ends(root: Path, arguments: dict[str, Any], expected: list[tuple[int, int]] | None) -> None:
    # A time between two milliseconds is the later one.
    assert read(root, **arguments) == (rows(0, 1, 2) + rows(1, 1, 2) if expected is None else expected)


def test_ends_are_fixed_when_a_scan_is_made(root: Path) -> None:
    scan = ottla.scan("t", path=root, partitions=1, columns=["offset"])
    write_segment(root / "t-1", 100, [a_batch(100, 50)])
    for _ in range(2):
        assert table(scan).num_rows == 100
    assert scan.offsets == {1: (0, 100)}
    assert ottla.scan("t", path=root, partitions=1).offsets == {1: (0, 150)}


def test_what_is_read_and_when(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last millisecond of a partition costs its last stretch, and no byte before a batch is asked for."""
    read_bytes: list[int] = []

    preadv = os.preadv

    def counted(descriptor: int, buffers: list[bytearray], position: int) -> int:
        count = preadv(descriptor, buffers, position)
        read_bytes.append(count)
        return count

    monkeypatch.setattr("ottla.reading.segments.READ_BYTES", 2000)
    monkeypatch.setattr("ottla.reading.segments.os.preadv", counted)
    size = sum(path.stat().st_size for path in (root / "t-0").glob("*.log"))
    scan = ottla.scan("t", path=root, partitions=0, start=BASE + timedelta(seconds=2.999), columns=["offset"])
    assert sum(read_bytes) < size / 10
    read_bytes.clear()
    stream = scan.reader()
    assert read_bytes == []
    assert stream.read_all()["offset"].to_pylist() == [2999]
    assert 0 < sum(read_bytes) < size / 10


def test_memory_is_bounded_by_batches(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sizes(**arguments: Any) -> list[int]:
        return [batch.num_rows for batch in ottla.scan("t", path=root, partitions=1, **arguments)]

    assert sizes() == [100]
    assert sizes(batch_rows=30) == [30, 30, 30, 10]
    monkeypatch.setattr("ottla.reading.rows.BATCH_BYTES_MAX", 40)
    assert sizes() == [25, 20, 20, 20, 15]  # ten values of a digit and fifteen of two, then twenty of two


def test_only_columns_that_are_asked_for_are_decoded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    real = _core.ColumnDecoder

    def decoder(**arguments: Any) -> Any:
        asked.append(list(arguments["columns"]))
        return real(**arguments)

    monkeypatch.setattr(_core, "ColumnDecoder", decoder)
    scan = ottla.scan("t", path=root, partitions=1, columns=["partition", "offset", "value"])
    assert table(scan.select("offset", "partition")).schema.names == ["partition", "offset"]
    assert table(scan).schema.names == ["partition", "offset", "value"]
    assert asked == [["offset"], ["offset", "value"]]


def test_committed_records(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0", mode="a", config=LogConfig(segment_bytes=1000)) as log:
        expected = fill(log._native)  # type: ignore[arg-type]
    values = {
        level: table(ottla.scan("t", path=tmp_path, isolation=level))["value"].to_pylist()
        for level in ("read_uncommitted", "read_committed")
    }
    assert values["read_committed"] == expected
    assert len(values["read_uncommitted"]) > len(expected)


def test_as_far_as_consumers_may_see(root: Path) -> None:
    """Of a broker's directory, the high watermark; of one that only `Log` had, all."""
    write_high_watermarks(root, {TopicPartition("t", 1): 60})
    assert ottla.scan("t", path=root).offsets[1] == (0, 100)
    assert ottla.scan("t", path=root, up_to="high_watermark").offsets == {1: (0, 60)}
    (root / "meta.properties").touch()
    assert ottla.scan("t", path=root).offsets == {1: (0, 60)}
    assert ottla.scan("t", path=root, up_to="log_end").offsets[1] == (0, 100)


def test_several_directories_of_one_broker(root: Path) -> None:
    """Each partition has the checkpoints of its own directory."""
    (other := root / "other").mkdir()
    (root / "t-1").rename(other / "t-1")
    (root / "meta.properties").touch()
    write_high_watermarks(root, {TopicPartition("t", 0): 10, TopicPartition("t", 1): 99})
    write_high_watermarks(other, {TopicPartition("t", 1): 20})
    assert read([root, other], start=5) == rows(0, 5, 10) + rows(1, 5, 20)
    assert read([root, other], partitions=1, start=5) == rows(1, 5, 20)
    with pytest.raises(FileNotFoundError, match=r"/other has no t-9$"):
        ottla.scan("t", path=[root, other], partitions=[0, 9])
    (other / "t-0").mkdir()
    with pytest.raises(ValueError, match=r"t-0 is in .* and in .*/other$"):
        ottla.scan("t", path=[root, other])
    with pytest.raises(TypeError, match="either servers or path"):
        ottla.scan("t", path=[])


def test_records_that_are_deleted_under_a_scan(root: Path) -> None:
    scan = ottla.scan("t", path=root, partitions=0)
    for path in (root / "t-0").glob("00000000000000000000.*"):
        path.unlink()
    with pytest.raises(OffsetOutOfRange, match=r"t-0 begins at offset 1000 by now, and 0 is to be read next$"):
        list(scan)


def test_a_damaged_batch(root: Path) -> None:
    path = root / "t-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(
        DamagedBatch, match=r"the batch with offset 990 of t-0 \(.*/t-0/0+\.log at byte \d+\) is damaged"
    ):
        list(ottla.scan("t", path=root, partitions=0))


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"start": 5000}, OffsetOutOfRange, r"starting offset of t-0 is 5000, but it has offsets 0 to 3000$"),
        ({"end": 101}, OffsetOutOfRange, r"ending offset of t-1 is 101, but it has offsets 0 to 100$"),
        ({"start": {0: 1}}, ValueError, r"must name exactly the partitions that are read: t-0, t-1; not t-0"),
        ({"start": {0: -1, 1: 1}}, ValueError, r"numbers from 0 up, not 0: -1"),
        ({"start": 9, "end": 8}, ValueError, r"ends at offset 8, before it starts at 9"),
        (
            {"start": BASE, "end": BASE - timedelta(1)},
            ValueError,
            r"ends at 2023-11-13T.*it starts at 2023-11-14",
        ),
        ({"start": datetime(2026, 1, 1)}, ValueError, r"start has no time zone.*astimezone"),
        ({"end": timedelta(hours=-1)}, ValueError, r"future has no records"),
        ({"start": "noon"}, TypeError, r"start is 'earliest', 'latest', an offset.*not 'noon'"),
        ({"start": True}, TypeError, r"not True"),
        ({"end": -1}, ValueError, r"end is -1; offsets are numbers from 0 up"),
        ({"partitions": 7}, FileNotFoundError, r"has no t-7"),
        ({"partitions": []}, ValueError, r"names none"),
        ({"partitions": ["0"]}, ValueError, r"not '0'"),
        ({"columns": ["offsets"]}, ValueError, r"no column 'offsets'; there are topic, partition, offset"),
        ({"columns": "offset"}, TypeError, r"such as \('offset',\)"),
        ({"columns": ["key", "key"]}, ValueError, r"two columns 'key'$"),
        ({"columns": []}, ValueError, r"at least one column"),
        ({"batch_rows": 0}, ValueError, r"batch_rows is 0"),
        ({"isolation": "committed"}, ValueError, r"'read_uncommitted' or 'read_committed'"),
        ({"up_to": "now"}, ValueError, r"'high_watermark' or 'log_end'"),
        ({"on_error": "skip"}, ValueError, r"'error' or 'null'"),
        ({"servers": "127.0.0.1:1"}, TypeError, r"either servers or path"),
    ],
)
def test_what_makes_no_sense(root: Path, arguments: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        ottla.scan("t", path=root, **arguments)


def test_what_is_not_there(root: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no orders$"):
        ottla.scan("orders", path=root)
    with pytest.raises(FileNotFoundError, match=r"there is no directory .*nowhere"):
        ottla.scan("t", path=root / "nowhere")
    with pytest.raises(TypeError, match="either servers or path"):
        ottla.scan("t")
    with pytest.raises(TypeError, match="up_to is for a scan of a path"):
        ottla.scan("t", servers="127.0.0.1:1", up_to="log_end")
    scan = ottla.scan("t", path=root)
    with pytest.raises(ValueError, match="no column 'size'; there are partition, offset"):
        scan.select("size")
    with pytest.raises(ValueError, match="at least one"):
        scan.select()
