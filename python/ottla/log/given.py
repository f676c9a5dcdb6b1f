"""Records as programs give them to a log: a value, (key, value) or (key, value, headers)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

Text: TypeAlias = str | bytes | bytearray | memoryview
Headers: TypeAlias = Mapping[str, Text | None] | Sequence[tuple[str, Text | None]]
NewRecord: TypeAlias = Text | tuple[Text | None, Text | None] | tuple[Text | None, Text | None, Headers] | None


def parts(record: NewRecord) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
    """Key, value and headers of a record. Raises TypeError for what is none."""
    headers: Headers = ()
    key: Text | None = None
    if isinstance(record, tuple):
        if len(record) not in (2, 3):
            raise TypeError(f"a record is a value, (key, value) or (key, value, headers), not a tuple of {len(record)}")
        key, value = record[0], record[1]
        if len(record) == 3:
            headers = record[2]
    else:
        value = record
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    if not isinstance(pairs, Iterable):
        raise TypeError(f"a record's headers are a mapping or (name, value) pairs, not {headers!r}")
    return _bytes(key, "key"), _bytes(value, "value"), [_header(pair) for pair in pairs] if pairs != () else []


def _header(pair: object) -> tuple[str, bytes | None]:
    # A text of two letters could be taken for a pair.
    if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str | bytes):
        raise TypeError(f"a record's headers are a mapping or (name, value) pairs, and {pair!r} is no such pair")
    name, value = pair
    return name, _bytes(value, "header")


def _bytes(text: Text | None, what: str) -> bytes | None:
    if text is None or isinstance(text, bytes):
        return text
    if isinstance(text, str):
        return text.encode()
    if isinstance(text, bytearray | memoryview):
        return bytes(text)
    # bytes(3) would be three zeros, and bytes([65]) a letter.
    raise TypeError(f"a record's {what} is bytes, str or None, not {type(text).__name__}: encode it first")
