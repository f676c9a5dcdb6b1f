"""How `ottla consume` prints a record: as text, or as the JSON of `_records.py`."""

from __future__ import annotations

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
            named = [(name.encode(), null if value is None else value) for name, value in record.headers]
            parts.append(b",".join(name + b"=" + value for name, value in named))
        if keys:
            parts.append(null if record.key is None else record.key)
        parts.append(null if record.value is None else record.value)
        return separator.join(parts) + b"\n"

    return write
