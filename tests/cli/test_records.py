"""Records as lines of text and of JSON."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli._records import BadLine, Record, as_json, json_parser, text_parser

contents = st.none() | st.binary()
headers = st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), contents)).map(tuple)


@given(contents, contents, headers, st.integers(0, 2**31 - 1), st.integers(0, 2**62))
def test_json_is_read_back_as_the_same_record(
    key: bytes | None,
    value: bytes | None,
    headers: tuple[tuple[str, bytes | None], ...],
    partition: int,
    timestamp_ms: int,
) -> None:
    line = as_json(
        topic="t", partition=partition, offset=7, timestamp_ms=timestamp_ms, key=key, value=value, headers=headers
    )
    assert b"\n" not in line
    assert json_parser(())(line) == Record(value, key, headers, partition, timestamp_ms, ("t", partition, 7))


def test_text() -> None:
    parse = text_parser(None, None, (("h", b"1"),))
    assert parse(b"a:b") == Record(b"a:b", None, (("h", b"1"),))
    assert parse(b"") == Record(b"", None, (("h", b"1"),))


def test_text_with_keys_and_tombstones() -> None:
    parse = text_parser(b"::", b"NULL", ())
    assert parse(b"k::v::w") == Record(b"v::w", b"k")
    assert parse(b"k::NULL") == Record(None, b"k")
    assert parse(b"NULL::") == Record(b"", None)
    with pytest.raises(BadLine, match="there is no '::' between a key and a value"):
        parse(b"k:v")


def test_headers_of_the_command_line_come_after_the_lines_own() -> None:
    parse = json_parser((("all", b"1"),))
    assert parse(b'{"value": null, "headers": [{"name": "own"}]}').headers == (("own", None), ("all", b"1"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[]", "must be an object"),
        (b"{}", "value is missing"),
        (b'{"value": 1}', "value must be text or null, not 1; put quotes"),
        (b'{"value": "v", "vaule": "x"}', "unknown vaule; known are"),
        (b'{"value": "v", "partition": "1"}', "partition must be a whole number"),
        (b'{"value": "v", "timestamp": true}', "timestamp must be a whole number"),
        (b'{"value_base64": "?"}', "value_base64 is no Base64"),
        (b'{"value_base64": 1}', "value_base64 is no Base64"),
        (b'{"value": "\\ud800"}', "half of a surrogate pair"),
        (b'{"value": "v", "headers": {"a": "b"}}', "headers must be a list"),
        (b'{"value": "v", "headers": ["a"]}', "headers must be a list"),
    ],
)
def test_lines_that_are_no_records(line: bytes, message: str) -> None:
    with pytest.raises(BadLine, match=message):
        json_parser(())(line)


@given(st.binary())
def test_any_line_is_a_record_or_refused(line: bytes) -> None:
    try:
        json_parser(())(line)
    except BadLine:
        pass
    else:
        json.loads(line)


@pytest.mark.parametrize(("separator", "shown"), [(b",", "','"), (b"\t", r"'\t'"), (b"\xff", r"'\xff'")])
def test_a_separator_that_is_missing_is_shown_as_it_would_be_written(separator: bytes, shown: str) -> None:
    with pytest.raises(BadLine, match=re.escape(f"there is no {shown} between a key and a value")):
        text_parser(separator, None, ())(b"value")
