"""Values as columns, in Spark, against bytes that another library wrote."""

import json
import sys
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.peers.skips import module

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

fastavro = module("clients", "fastavro")
pytestmark = pytest.mark.spark

OLD = {
    "type": "record",
    "name": "view",
    "fields": [
        {"name": "member", "type": "long"},
        {"name": "page", "type": ["null", "string"]},
        {"name": "kind", "type": {"type": "enum", "name": "kind", "symbols": ["web", "app"]}},
        {"name": "when", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
    ],
}
NEW: dict[str, Any] = {**OLD, "fields": [*OLD["fields"], {"name": "bot", "type": "boolean", "default": False}]}
VIEW = {"member": 7, "page": None, "kind": "app", "when": 1_700_000_000_123, "tags": {"a": [1, 2]}}
ROW = (7, None, "app", 1_700_000_000_123, {"a": [1, 2]})


def encoded(schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """The two schemas as files."""
    paths = tmp_path / "old.avsc", tmp_path / "new.avsc"
    for path, schema in zip(paths, (OLD, NEW), strict=True):
        path.write_text(json.dumps(schema))
    return paths


def test_json_avro_and_frames(spark: "SparkSession", files: tuple[Path, Path]) -> None:
    from ottla.spark import decode

    old, new = files
    rows = [
        (0, b'{"member": 7, "page": "/"}', encoded(OLD, VIEW), b"\0\0\0\0\x05" + encoded(OLD, VIEW)),
        (1, b"no json", encoded(OLD, VIEW), b"\0\0\1\0\x09" + encoded(NEW, {**VIEW, "bot": True})),
        (2, None, None, None),
        (3, b"{}", encoded(OLD, VIEW), b"\1\0\0\0\x05"),
    ]
    frame = spark.createDataFrame(rows, "id int, text binary, plain binary, framed binary")
    found = (
        frame.select(
            "id",
            decode.json("text", "member bigint, page string").alias("json"),
            decode.avro("plain", old).alias("avro"),
            decode.confluent("framed").alias("frame"),
            decode.confluent_avro("framed", {5: old, 65545: new}, new, mode="PERMISSIVE").alias("view"),
        )
        .selectExpr(
            "json", "frame",
            *[f"named_struct('m', {each}.member, 'p', {each}.page, 'k', {each}.kind, 'w', unix_millis({each}.when), "
              f"'t', {each}.tags) AS {each}" for each in ("avro", "view")],
            "view.bot",
        )
        .orderBy("id")
        .collect()
    )  # fmt: skip
    assert [each.json and tuple(each.json) for each in found] == [(7, "/"), (None, None), None, (None, None)]
    assert [tuple(each.avro) for each in found] == [ROW, ROW, (None,) * 5, ROW]
    assert [each.frame and (each.frame.schema_id, bytes(each.frame.payload)) for each in found] == [
        (5, encoded(OLD, VIEW)), (65545, encoded(NEW, {**VIEW, "bot": True})), None, None,
    ]  # fmt: skip
    assert [tuple(each.view) for each in found] == [ROW, ROW, (None,) * 5, (None,) * 5]
    assert [each.bot for each in found] == [False, True, None, None]


def test_values_that_are_not_what_was_said(spark: "SparkSession", files: tuple[Path, Path], tmp_path: Path) -> None:
    from ottla.spark import decode

    frame = spark.createDataFrame([(b"\0\0\0\0\x05xx",)], "value binary")
    with pytest.raises(Exception, match="written with schema 5, of which there is no file"):
        frame.select(decode.confluent_avro("value", {7: files[0]}, files[0])).collect()
    wrong = tmp_path / "wrong.avsc"
    wrong.write_text('{"type": "record"}')
    with pytest.raises(ValueError, match=r"wrong\.avsc is no Avro schema"):
        decode.avro("value", wrong)
    wrong.write_text('["int", "string"]')
    with pytest.raises(ValueError, match="has no type in Spark"):
        decode.avro("value", wrong)
    with pytest.raises(ValueError, match="the mode is 'DROP'; it is one of FAILFAST, PERMISSIVE"):
        decode.json("value", "a int", "DROP")


def test_without_fastavro_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ottla.spark import decode

    (tmp_path / "schema.avsc").write_text('"int"')
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ImportError, match=r"needs the package fastavro, .*pip install 'ottla\[schema\]'"):
        decode.avro("value", tmp_path / "schema.avsc")
