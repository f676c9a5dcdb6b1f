"""JSON values into columns: nothing is lost, whatever the values are."""

import json
from typing import Any

import pyarrow as pa
import pytest

from ottla.pipelines.tables.arrow import merged
from ottla.pipelines.warehouse_load.json_columns import columns

NOTHING = pa.schema([])


def rows(values: list[bytes | None], known: pa.Schema = NOTHING) -> list[dict[str, Any]]:
    """Without the empty cells."""
    found = columns(pa.array(values, pa.binary()), known).to_pylist()
    return [{name: cell for name, cell in row.items() if cell is not None} for row in found]


def test_fields_become_columns() -> None:
    values = [b'{"a":1,"t":"2026-01-01","n":{"x":1.5}}', None, b'{"a":2,"b":true,"z":null}', b"{}"]
    assert rows(values) == [{"a": 1, "t": "2026-01-01", "n": {"x": 1.5}}, {}, {"a": 2, "b": True}, {}]


def test_what_does_not_fit_is_kept() -> None:
    known = pa.schema([("a", pa.int64()), ("b", pa.string()), ("n", pa.struct([("x", pa.int64())]))])
    values = [b'{"a":1.5,"n":{"y":1}}', b'{"a":true,"b":{"c":1}}', b'{"a":7,"n":{"x":2},"new":[1]}']
    found = rows(values, known)
    assert [json.loads(row.pop("_misfits", "{}")) for row in found] == [{"a": 1.5, "n": {"y": 1}}, {"a": True}, {}]
    assert found == [{}, {"b": '{"c":1}'}, {"a": 7, "n": {"x": 2}, "new": "[1]"}]


@pytest.mark.parametrize("odd", [b"nope", b"[1]", b"", b'"text"', b'{"a":1}\n{"a":2}', b"\xff\xfe", b'{"a":'])
def test_values_that_are_no_objects(odd: bytes) -> None:
    assert rows([b'{"a":1}', odd, b'{"a":3}']) == [{"a": 1}, {"_value": odd}, {"a": 3}]


def test_an_empty_value_and_one_of_two_lines_do_not_shift_the_others() -> None:
    assert rows([b'{"a":1}\n{"a":2}', b"", b'{"a":3}']) == [
        {"_value": b'{"a":1}\n{"a":2}'},
        {"_value": b""},
        {"a": 3},
    ]


def test_names_of_our_own_columns() -> None:
    values = [b'{"date":"x","_offset":1,"_misfits":2,"a":1}']
    (found,) = rows(values)
    assert json.loads(found.pop("_misfits")) == {"_misfits": 2}
    assert found == {"date_": "x", "_offset_": 1, "a": 1}
    again = columns(pa.array(values, pa.binary()), columns(pa.array(values, pa.binary()), NOTHING).schema)
    assert sorted(again.schema.names) == ["_misfits", "_offset_", "_value", "a", "date_"]


def test_columns_of_several_files() -> None:
    integer, number, text = (pa.schema([("a", kind)]) for kind in (pa.int64(), pa.float64(), pa.string()))
    assert merged(None, [integer, number]) == number
    assert merged(None, [integer, text, number]) == text
    assert merged(integer, [number, pa.schema([("b", pa.bool_())])]) == pa.schema(
        [("a", pa.int64()), ("b", pa.bool_())]
    )
