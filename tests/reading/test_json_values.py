"""JSON values as columns: a row stays a row, whatever its value is."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

import ottla
from ottla.errors import InvalidRecord
from ottla.log import Log
from tests.peers.skips import module

module("arrow", "pyarrow")

import pyarrow as pa

from ottla.reading.json_values import json_columns

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])


def parsed(values: list[bytes | None], schema: pa.Schema = SCHEMA, on_error: Any = "null") -> list[dict[str, Any]]:
    offsets = pa.array(range(100, 100 + len(values)), pa.int64())
    columns = json_columns(pa.array(values, pa.binary()), offsets, schema, on_error, "t-0")
    found: list[dict[str, Any]] = pa.RecordBatch.from_arrays(columns, schema=schema).to_pylist()
    return found


def test_fields_that_lack_and_fields_too_many() -> None:
    values = [b'{"b":"x","a":1}', b' {"a":2,\n "c":[1]}\n', b"{}", None, b'{"a":null,"b":null}']
    expected = [(1, "x"), (2, None), (None, None), (None, None), (None, None)]
    assert [tuple(row.values()) for row in parsed(values)] == expected


def test_types_of_all_kinds() -> None:
    schema = pa.schema(
        [
            ("at", pa.timestamp("us", "UTC")),
            ("flag", pa.bool_()),
            ("small", pa.int8()),
            ("share", pa.float64()),
            ("tags", pa.list_(pa.string())),
            ("place", pa.struct([("x", pa.int32())])),
        ]
    )
    (row,) = parsed(
        [b'{"at":"2026-01-02T03:04:05Z","flag":true,"small":7,"share":0.5,"tags":["a"],"place":{"x":1}}'], schema
    )
    assert row.pop("at").isoformat() == "2026-01-02T03:04:05+00:00"
    assert row == {"flag": True, "small": 7, "share": 0.5, "tags": ["a"], "place": {"x": 1}}


BAD = [
    b"",
    b"null",
    b"1",
    b"[1]",
    b'{"a":1',
    b'{"a":"one"}',
    b'{"a":1}{"a":2}',
    b'{"a":1} {"a":2}',
    b'{"a":{}',
    b'{"b":"}',
    b'"b":1}',
    b'{"a":1,"a":2}',
    b'{"b":"\xff"}',
    b'{"a":99999999999999999999}',
    b"{" * 5000 + b"}",
]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_is_no_object_of_the_schema(bad: bytes, place: int) -> None:
    values: list[bytes | None] = [b'{"a":1}', b'{"a":2}']
    values.insert(place, bad)
    expected: list[int | None] = [1, 2]
    expected.insert(place, None)
    assert [row["a"] for row in parsed(values)] == expected
    with pytest.raises(InvalidRecord, match=rf"t-0: the value at offset {100 + place} is no JSON object of the schema"):
        parsed(values, on_error="error")


def test_as_many_objects_as_values_may_be_none_and_two() -> None:
    assert [row["a"] for row in parsed([b"", b'{"a":1}{"a":2}', b'{"a":3}'])] == [None, None, 3]


PIECES = some.sampled_from(['{"a":1}', '{"a":', "{", "}", '{"b":"', '"}', "1", " ", "\n", ",", "[", "]", '"', "{}"])


@given(some.lists(some.lists(PIECES, max_size=4).map("".join), min_size=1, max_size=6))
def test_a_row_does_not_depend_on_its_neighbours(texts: list[str]) -> None:
    values: list[bytes | None] = [text.encode() for text in texts]
    assert parsed(values) == [row for value in values for row in parsed([value])]


def test_columns_of_a_scan(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0", mode="a") as log:
        log.append_many([("k", '{"a":1,"b":"x"}'), ("l", None), ("m", '{"a":2}')])
    scan = ottla.scan("t", path=tmp_path, columns=["key", "value", "topic"], schema=SCHEMA)
    assert scan.schema.names == ["key", "a", "b", "topic"]
    assert scan.reader().read_all().to_pylist() == [
        {"key": b"k", "a": 1, "b": "x", "topic": "t"},
        {"key": b"l", "a": None, "b": None, "topic": "t"},
        {"key": b"m", "a": 2, "b": None, "topic": "t"},
    ]
    assert scan.select("b", "topic").reader().read_all().to_pydict() == {"b": ["x", None, None], "topic": ["t"] * 3}
    assert scan.select("key").reader().read_all().to_pydict() == {"key": [b"k", b"l", b"m"]}


@pytest.mark.parametrize(
    ("schema", "columns", "message"),
    [
        (pa.schema([]), None, "the schema has no fields"),
        (pa.schema([("x", pa.dictionary(pa.int32(), pa.list_(pa.int8())))]), None, "cannot be read with this schema"),
        (pa.schema([("offset", pa.int64())]), None, "two columns 'offset', of the record and of its value: leave one"),
        (SCHEMA, ["key"], "reads the column 'value', and columns leaves it out"),
    ],
)
def test_a_schema_that_makes_no_sense(tmp_path: Path, schema: Any, columns: Any, message: str) -> None:
    (tmp_path / "t-0").mkdir()
    arguments = {} if columns is None else {"columns": columns}
    with pytest.raises(ValueError, match=message):
        ottla.scan("t", path=tmp_path, schema=schema, **arguments)
    with pytest.raises(TypeError, match=r"a pyarrow\.Schema"):
        ottla.scan("t", path=tmp_path, schema={"a": "int"})  # type: ignore[arg-type]
