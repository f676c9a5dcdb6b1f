"""Files of a load without Spark: records with any time, topics with any name."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.pipelines.frame.config import PipelineError
from tests.peers.skips import module

if TYPE_CHECKING:
    from ottla.pipelines.tables.table import DataFile
    from ottla.pipelines.warehouse_load.files import Files

pa = module("arrow", "pyarrow")
parquet = module("arrow", "pyarrow.parquet")
HOUR_US = 3_600_000_000
START_US = 1_767_225_600_000_000  # 2026-01-01


def test_a_time_that_no_calendar_has_stops_no_load(tmp_path: Path) -> None:
    """The broker takes any time from producers; Spark's column of microseconds ends in the year 294247."""
    from ottla.pipelines.warehouse_load.files import Files

    files = Files(tmp_path, prefix="", epoch=1, task=0, compression="zstd")
    times = [-(2**63), -1, 0, 1_767_578_400_000_000, 2**63 - 1]
    batch = pa.record_batch({"offset": pa.array(range(5), pa.int64())})
    done = [*files.add("t", batch, pa.array(times, pa.timestamp("us", tz="UTC"))), *files.finish()]
    found = {(file.date, file.hour): file.rows for file, _ in done}
    assert found == {
        ("0001-01-01", 0): 1,
        ("1969-12-31", 23): 1,
        ("1970-01-01", 0): 1,
        ("2026-01-05", 2): 1,
        ("9999-12-31", 23): 1,
    }
    assert all((tmp_path / file.path).exists() for file, _ in done)


def loaded(files: "Files", records: Sequence[tuple[int, int]]) -> "list[tuple[DataFile, pa.Schema]]":
    """The files that come of batches of records, each of so many records in so many hours from 2026 on, one after the
    other.
    """
    done = []
    for rows, hours in records:
        times = [START_US + number * hours * HOUR_US // rows for number in range(rows)]
        batch = pa.record_batch({"offset": pa.array(range(rows), pa.int64())})
        done += files.add("t", batch, pa.array(times, pa.timestamp("us", tz="UTC")))
    return [*done, *files.finish()]


def test_a_task_writes_a_file_for_each_hour(tmp_path: Path) -> None:
    """Of four partitions, each with all hours of five days: more hours than there may be open files."""
    from ottla.pipelines.warehouse_load.files import OPEN_FILES_MAX, Files

    files = Files(tmp_path, prefix="", epoch=1, task=0, compression="zstd")
    done = loaded(files, [(2500, 120)] * 4)
    assert len(done) == 120 > OPEN_FILES_MAX
    assert len({(file.date, file.hour) for file, _ in done}) == 120
    assert sum(file.rows for file, _ in done) == 10_000
    assert sum(parquet.read_metadata(path).num_rows for path in tmp_path.rglob("*.parquet")) == 10_000


def test_what_does_not_fit_into_memory_is_written_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ottla.pipelines.warehouse_load import files as module

    monkeypatch.setattr(module, "WAITING_BYTES", 100_000)
    monkeypatch.setattr(module, "OPEN_FILES_MAX", 10)
    files = module.Files(tmp_path, prefix="", epoch=1, task=0, compression="zstd")
    done = loaded(files, [(2500, 120)] * 4)
    assert len(done) > 120
    assert sum(file.rows for file, _ in done) == 10_000
    assert sum(parquet.read_metadata(path).num_rows for path in tmp_path.rglob("*.parquet")) == 10_000


def test_columns_that_come_later_are_in_the_same_file(tmp_path: Path) -> None:
    from ottla.pipelines.warehouse_load.files import Files

    files = Files(tmp_path, prefix="", epoch=1, task=0, compression="zstd")
    times = pa.array([START_US], pa.timestamp("us", tz="UTC"))
    assert [*files.add("t", pa.record_batch({"a": [1]}), times)] == []
    assert [*files.add("t", pa.record_batch({"a": [2], "b": ["x"]}), times)] == []
    ((file, schema),) = files.finish()
    assert schema == pa.schema([("a", pa.int64()), ("b", pa.string())])
    assert parquet.read_table(tmp_path / file.path, partitioning=None).to_pylist() == [
        {"a": 1, "b": None},
        {"a": 2, "b": "x"},
    ]


@pytest.mark.parametrize("topic", ["../../evil", "a/b", "..", "", "x" * 250, "snow\u2603"])
def test_a_name_that_no_topic_has_leaves_no_file(tmp_path: Path, topic: str) -> None:
    """Names come from brokers, and go into paths."""
    from ottla.pipelines.tables.table import folder

    with pytest.raises(PipelineError, match="the brokers named a topic that cannot be"):
        folder(topic, "2026-01-05", 3)
