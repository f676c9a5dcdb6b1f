"""How `ottla consume` prints a record: as text, in a format of the user's, or as the JSON of `_records.py`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.cli._records import as_json

if TYPE_CHECKING:
    from ottla.client.consumer import Record


def json_line(record: Record) -> bytes:
    """A record with everything it has, as one line of JSON."""
    line = as_json(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key=record.key,
        value=record.value,
        headers=tuple(record.headers),
    )
    return line + b"\n"


def text_line(*, keys: bool, headers: bool, separator: bytes, null: bytes) -> Callable[[Record], bytes]:
    """A function that writes a record as text: headers and key if wanted, then the value, bytes as they are."""

    def write(record: Record) -> bytes:
        parts = []
        if headers:
            parts.append(_headers(record, null))
        if keys:
            parts.append(null if record.key is None else record.key)
        parts.append(null if record.value is None else record.value)
        return separator.join(parts) + b"\n"

    return write


def _headers(record: Record, null: bytes) -> bytes:
    """`NAME=VALUE,NAME=VALUE`"""
    return b",".join(name.encode() + b"=" + (null if value is None else value) for name, value in record.headers)


def _number(number: int) -> bytes:
    return b"%d" % number


def _length(content: bytes | None) -> int:
    """-1 for nothing, as kcat has it."""
    return -1 if content is None else len(content)


#: The letters behind `%`, which are kcat's.
FIELDS: dict[str, tuple[str, Callable[[Record, bytes], bytes]]] = {
    "s": ("the value", lambda record, null: null if record.value is None else record.value),
    "S": ("its length in bytes, -1 if there is none", lambda record, null: _number(_length(record.value))),
    "R": (
        "the same in 4 bytes, big-endian",
        lambda record, null: _length(record.value).to_bytes(4, "big", signed=True),
    ),
    "k": ("the key", lambda record, null: null if record.key is None else record.key),
    "K": ("its length", lambda record, null: _number(_length(record.key))),
    "T": ("the time in milliseconds since 1970", lambda record, null: _number(record.timestamp_ms)),
    "h": ("the headers, as NAME=VALUE,NAME=VALUE", lambda record, null: _headers(record, null)),
    "t": ("the topic", lambda record, null: record.topic.encode()),
    "p": ("the partition", lambda record, null: _number(record.partition)),
    "o": ("the offset", lambda record, null: _number(record.offset)),
    "%": ("a percent sign", lambda record, null: b"%"),
}


def formatted(form: str, *, null: bytes) -> Callable[[Record], bytes]:
    """A function that writes a record as `form` says, and nothing more: the end of a line stands in it, too.

    Raises ValueError for a letter behind `%` that means nothing.
    """
    parts: list[bytes | Callable[[Record, bytes], bytes]] = []
    for index, part in enumerate(re.split("%(.?)", form, flags=re.DOTALL)):
        if index % 2 == 0:
            parts.append(part.encode(errors="surrogateescape"))
        elif part in FIELDS:
            parts.append(FIELDS[part][1])
        else:
            there = ", ".join(f"%{letter} ({meaning})" for letter, (meaning, _) in FIELDS.items())
            raise ValueError(f"%{part} means nothing; there are {there}")

    def write(record: Record) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(record, null) for part in parts)

    return write
