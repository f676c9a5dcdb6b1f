"""Records as lines: plain text, or JSON that `ottla consume --json` prints and `ottla produce --json` takes back,
byte for byte.

A JSON line is an object with `key`, `value` (text or null), `headers` (a list of objects with `name` and `value`),
`partition`, `offset` and `timestamp` (milliseconds since 1970). Bytes that are no UTF-8 stand in Base64 under
`key_base64` or `value_base64` instead. Producing reads all of them but `offset`, and only `value` must be there.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ottla.cli._errors import on_one_line

Headers = tuple[tuple[str, bytes | None], ...]

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_KNOWN = {"topic", "partition", "offset", "timestamp", "key", "key_base64", "value", "value_base64", "headers"}


class Record(NamedTuple):
    """A record to produce. None for partition or timestamp leaves it to the producer. `source` is the topic, partition
    and offset that it is a copy of, if its line says so.
    """

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None
    source: tuple[str, int, int] | None = None


class BadLine(ValueError):
    """A line that is no record; the message says why and what is needed."""


Parser = Callable[[bytes], Record]


def text_parser(key_separator: bytes | None, null_marker: bytes | None, headers: Headers) -> Parser:
    """Reads lines as values, or with a separator as key and value; what equals the marker has no content."""

    def field(content: bytes) -> bytes | None:
        return None if content == null_marker else content

    def parse(line: bytes) -> Record:
        if key_separator is None:
            return Record(field(line), None, headers)
        key, found, value = line.partition(key_separator)
        if not found:
            shown = on_one_line(key_separator.decode(errors="backslashreplace"))
            raise BadLine(f"there is no '{shown}' between a key and a value; write it, or leave --key-separator out")
        return Record(field(value), field(key), headers)

    return parse


def json_parser(headers: Headers) -> Parser:
    """Reads lines of JSON; `headers` are added to each record's own."""

    def parse(line: bytes) -> Record:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadLine(f'no JSON ({error}); a line is an object such as {{"key": "k", "value": "v"}}') from None
        if not isinstance(found, dict):
            raise BadLine('a line must be an object such as {"key": "k", "value": "v"}')
        if unknown := found.keys() - _KNOWN:
            raise BadLine(f"unknown {', '.join(sorted(unknown))}; known are {', '.join(sorted(_KNOWN))}")
        if "value" not in found and "value_base64" not in found:
            raise BadLine("value is missing; null is a value too")
        own = found.get("headers") or []
        if not isinstance(own, list) or not all(isinstance(header, dict) and "name" in header for header in own):
            raise BadLine('headers must be a list of objects such as {"name": "n", "value": "v"}')
        if not all(isinstance(header["name"], str) and _is_utf8(header["name"]) for header in own):
            raise BadLine("the name of a header must be text, without halves of surrogate pairs")
        return Record(
            _content(found, "value"),
            _content(found, "key"),
            tuple((header["name"], _content(header, "value")) for header in own) + headers,
            _number(found, "partition"),
            _number(found, "timestamp"),
            _source(found),
        )

    return parse


def as_json(
    *,
    topic: str,
    partition: int,
    offset: int,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
) -> bytes:
    """One record as a line of JSON without the line's end."""
    line: dict[str, object] = {"topic": topic, "partition": partition, "offset": offset, "timestamp": timestamp_ms}
    _put(line, "key", key)
    _put(line, "value", value)
    if headers:
        line["headers"] = [_put({"name": name}, "value", content) for name, content in headers]
    return json.dumps(line, ensure_ascii=False).encode()


def _put(line: dict[str, object], name: str, content: bytes | None) -> dict[str, object]:
    try:
        line[name] = None if content is None else content.decode()
    except UnicodeDecodeError:
        line[f"{name}_base64"] = b64encode(content or b"").decode()
    return line


def _content(found: Mapping[str, Any], name: str) -> bytes | None:
    encoded = found.get(f"{name}_base64")
    if encoded is not None:
        try:
            return b64decode(encoded, validate=True)
        except (ValueError, TypeError):
            raise BadLine(f"{name}_base64 is no Base64") from None
    content = found.get(name)
    if content is not None and not isinstance(content, str):
        raise BadLine(f"{name} must be text or null, not {json.dumps(content)}; put quotes around it")
    try:
        return None if content is None else content.encode()
    except UnicodeEncodeError:
        raise BadLine(f"{name} has half of a surrogate pair; use {name}_base64") from None


def _source(found: Mapping[str, Any]) -> tuple[str, int, int] | None:
    """What `ottla consume --json` says of where a record was. Nothing depends on it but the advice after an error."""
    match found:
        case {"topic": str(topic), "partition": int(partition), "offset": int(offset)}:
            return topic, partition, offset
    return None


def _number(found: Mapping[str, Any], name: str) -> int | None:
    number = found.get(name)
    if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
        raise BadLine(f"{name} must be a whole number")
    if number is not None and not INT64_MIN <= number <= INT64_MAX:
        raise BadLine(f"{name} is {number}, which needs more than 64 bits")
    return number


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
