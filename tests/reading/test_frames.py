"""Other people's tables take a scan as it is: polars, eagerly and lazily, and DuckDB."""

from pathlib import Path

import pytest

import ottla
from ottla.log import Log
from ottla.reading.scan import Scan
from tests.peers.skips import module

module("arrow", "pyarrow")
module("frames", "polars")
module("frames", "duckdb")

import duckdb
import polars as pl
import pyarrow as pa


@pytest.fixture
def scan(tmp_path: Path) -> Scan:
    for partition in range(2):
        with Log.open(tmp_path / f"t-{partition}", mode="a") as log:
            log.append_many([("k", b'{"a":%d}' % number, {"h": "1"}) for number in range(1000)])
    return ottla.scan("t", path=tmp_path, batch_rows=100)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], int]]:
    """Columns and rows of each batch that is read."""
    batches: list[tuple[list[str], int]] = []
    real = Scan.__iter__

    def noted(scan: Scan):  # type: ignore[no-untyped-def]
        for batch in real(scan):
            batches.append((batch.schema.names, batch.num_rows))
            yield batch

    monkeypatch.setattr(Scan, "__iter__", noted)
    return batches


def test_a_frame_of_polars(scan: Scan) -> None:
    frame = pl.DataFrame(scan)
    assert frame.shape == (2000, 6)
    assert frame.schema["timestamp"] == pl.Datetime("ms", "UTC")
    assert frame.row(-1, named=True)["value"] == b'{"a":999}'
    assert frame.row(0, named=True)["headers"] == [{"key": "h", "value": b"1"}]


def test_a_lazy_frame_decodes_what_a_query_uses(scan: Scan, read: list[tuple[list[str], int]]) -> None:
    query = scan.lazy().filter(pl.col("offset") >= 990).group_by("partition").agg(pl.len())
    assert dict(query.collect().rows()) == {0: 10, 1: 10}
    assert {tuple(names) for names, _ in read} == {("partition", "offset")}
    assert sum(rows for _, rows in read) == 2000


def test_a_lazy_frame_reads_no_further_than_it_must(scan: Scan, read: list[tuple[list[str], int]]) -> None:
    assert scan.lazy().head(150).collect().height == 150
    assert len(read) == 2
    read.clear()
    assert scan.lazy().select(pl.len()).collect().item() == 2000
    assert {tuple(names) for names, _ in read} == {("partition",)}


def test_a_lazy_frame_of_json(tmp_path: Path, scan: Scan, read: list[tuple[list[str], int]]) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    frame = ottla.scan("t", path=tmp_path, schema=schema, columns=["partition", "value"]).lazy()
    assert frame.select(pl.col("a").sum()).collect().item() == 2 * sum(range(1000))
    assert {tuple(names) for names, _ in read} == {("a",)}


def test_duckdb(scan: Scan) -> None:
    assert duckdb.sql('SELECT partition, count(*), max("offset") FROM scan GROUP BY ALL ORDER BY 1').fetchall() == [
        (0, 1000, 999),
        (1, 1000, 999),
    ]
    ((row,),) = duckdb.sql('SELECT value::VARCHAR FROM scan WHERE "offset" = 7 AND partition = 1').fetchall()
    assert row.replace("\\x22", '"') == '{"a":7}'


def test_an_empty_scan(tmp_path: Path, scan: Scan) -> None:
    empty = ottla.scan("t", path=tmp_path, end="earliest")
    assert pl.DataFrame(empty).shape == (0, 6)
    assert empty.lazy().collect().shape == (0, 6)
    assert duckdb.sql("SELECT count(*) FROM empty").fetchall() == [(0,)]
