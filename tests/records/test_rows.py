"""Records as instances of a tuple's subclass, made in one call."""

from typing import NamedTuple

import pytest

from ottla.errors import CorruptMessage
from ottla.records import RecordReader, encode_batch


class Row(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


DATA = encode_batch(
    [(17, b"k", b"v", [("h", b"x"), ("n", None)]), (18, None, None, []), (19, b"", b"", [])], compression="lz4"
)


def test_the_same_records() -> None:
    rows = RecordReader(DATA + DATA, start_offset=1).rows(Row, "t", 3)
    assert rows == [
        Row("t", 3, each.offset, each.timestamp_ms, each.key, each.value, each.headers)
        for each in RecordReader(DATA + DATA, start_offset=1)
    ]
    assert {type(row) for row in rows} == {Row}
    assert rows[0].offset == 1
    assert RecordReader(DATA).rows(Row, "t", 3)[0].headers == [("h", b"x"), ("n", None)]


def test_what_was_taken_is_not_given_again() -> None:
    reader = RecordReader(DATA)
    next(reader)
    assert [row.offset for row in reader.rows(Row, "t", 0)] == [1, 2]
    assert reader.rows(Row, "t", 0) == []


def test_errors_are_those_of_the_iterator() -> None:
    with pytest.raises(CorruptMessage):
        RecordReader(DATA[:-1] + bytes([DATA[-1] ^ 1])).rows(Row, "t", 0)
    with pytest.raises(TypeError):
        RecordReader(DATA).rows(list, "t", 0)
