"""Tables of all formats: what is committed is there once, and who resumes finds out where."""

import sys
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest
from pyarrow import dataset

from ottla.client import TopicPartition
from ottla.pipelines.frame.config import PipelineError
from ottla.pipelines.tables import Conflict, DataFile, Position, Table, only_loader, open_table
from ottla.pipelines.tables.table import Format
from ottla.pipelines.warehouse_load.files import Files
from tests.peers.skips import require

HOUR_US = 3_600_000_000
START_US = 490_995 * HOUR_US
PARTITION = TopicPartition("views", 3)
COLUMNS = pa.schema([("offset", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC"))])


@pytest.fixture(params=get_args(Format))
def kind(request: pytest.FixtureRequest) -> Format:
    name = {"delta": "deltalake", "iceberg": "pyiceberg"}.get(request.param)
    if name is not None:
        try:
            __import__(name)
        except ImportError:
            require("spark", f"{name} is not installed")
    kind: Format = request.param
    return kind


def write(table: Table, location: Path, epoch: int, offsets: range, **more: Any) -> tuple[list[DataFile], pa.Schema]:
    """Files with these offsets, one each half hour."""
    times = pa.array([START_US + offset * HOUR_US // 2 for offset in offsets], pa.timestamp("us", tz="UTC"))
    arrays = {"offset": pa.array(offsets, pa.int64()), "timestamp": times, **more}
    if table.has_topic_column:
        arrays["topic"] = pa.array(["views"] * len(offsets))
    batch = pa.RecordBatch.from_pydict(arrays)
    files = Files(location, prefix=table.staged_prefix, epoch=epoch, task=0, compression="zstd")
    found = [*files.add("views", batch, times), *files.finish()]
    return [file for file, _ in found], batch.schema


def offsets_in(kind: Format, location: Path) -> list[int]:
    """Read by the format's own library, or from the folders by one that knows nothing of us."""
    if kind == "delta":
        from deltalake import DeltaTable

        found = DeltaTable(location).to_pyarrow_table()
    elif kind == "iceberg":
        from ottla.pipelines.tables.iceberg import NAME, Iceberg

        found = Iceberg(location).catalog.load_table(NAME).scan().to_arrow()
    else:
        found = dataset.dataset(location, schema=COLUMNS, partitioning="hive").to_table()
    return sorted(found["offset"].to_pylist())


def test_batches_are_added_and_positions_moved(kind: Format, tmp_path: Path) -> None:
    table = open_table(kind, tmp_path)
    assert table.position([PARTITION]) == Position()
    assert table.schema() is None
    first, schema = write(table, tmp_path, 1, range(10))
    assert [file.rows for file in first] == [2] * 5
    table.commit(Position(1, {PARTITION: 10}), first, schema)
    more, wider = write(open_table(kind, tmp_path), tmp_path, 2, range(10, 13), extra=pa.array(["x", None, "y"]))
    open_table(kind, tmp_path).commit(Position(2, {PARTITION: 13, TopicPartition("views", 4): 0}), more, wider)
    again = open_table(kind, tmp_path)
    assert again.position([PARTITION, TopicPartition("views", 9)]) == Position(2, {PARTITION: 13})
    columns = again.schema()
    assert columns is not None
    assert columns.field("extra").type == pa.string()
    assert again.recover() == 0
    assert offsets_in(kind, tmp_path) == list(range(13))


def test_a_batch_that_was_not_committed_is_removed(kind: Format, tmp_path: Path) -> None:
    table = open_table(kind, tmp_path)
    files, schema = write(table, tmp_path, 1, range(4))
    table.commit(Position(1, {PARTITION: 4}), files, schema)
    write(table, tmp_path, 2, range(4, 9))
    assert offsets_in(kind, tmp_path) == list(range(4)), "not visible before its commit"
    again = open_table(kind, tmp_path)
    assert again.recover() == 3
    files, schema = write(again, tmp_path, 2, range(4, 9))
    again.commit(Position(2, {PARTITION: 9}), files, schema)
    assert offsets_in(kind, tmp_path) == list(range(9))


def test_the_second_of_two_loaders_loses(kind: Format, tmp_path: Path) -> None:
    table = open_table(kind, tmp_path)
    files, schema = write(table, tmp_path, 1, range(4))
    table.commit(Position(1, {PARTITION: 4}), files, schema)
    ours, theirs = open_table(kind, tmp_path), open_table(kind, tmp_path)
    for number, one in enumerate((ours, theirs)):
        files, schema = write(one, tmp_path, 2, range(4, 6))
        if number == 0:
            one.commit(Position(2, {PARTITION: 6}), files, schema)
        else:
            with pytest.raises(Conflict, match="only one"):
                one.commit(Position(2, {PARTITION: 6}), files, schema)
    assert offsets_in(kind, tmp_path) == list(range(6))


def test_a_killed_commit_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the manifest is there and before the files have their names."""
    table = open_table("parquet", tmp_path)
    files, schema = write(table, tmp_path, 1, range(4))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", lambda *_: pytest.exit("killed here"))
        with pytest.raises(pytest.exit.Exception):
            table.commit(Position(1, {PARTITION: 4}), files, schema)
    assert offsets_in("parquet", tmp_path) == []
    again = open_table("parquet", tmp_path)
    assert again.position([PARTITION]) == Position(1, {PARTITION: 4})
    assert again.recover() == 0
    assert offsets_in("parquet", tmp_path) == list(range(4))


def test_one_loader_at_a_time(tmp_path: Path) -> None:
    with only_loader(tmp_path), pytest.raises(Conflict, match="another process loads"), only_loader(tmp_path):
        pass
    with only_loader(tmp_path):
        pass


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_format_whose_package_is_missing_names_its_extra(
    kind: Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = {"delta": "deltalake", "iceberg": "pyiceberg"}[kind]
    for module in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delitem(sys.modules, f"ottla.pipelines.tables.{kind}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(PipelineError, match=rf"format '{kind}': this needs the package {package}.* 'ottla\[tables\]'"):
        open_table(kind, tmp_path)
