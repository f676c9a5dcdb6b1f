"""The largest requests that a schema allows: as many rows as fit, different ones or one again and again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from ottla.wire.schema import Api, FieldSpec, Message, StructSpec, describe
from tests.wire.instances import within

_described = cache(describe)

#: Bytes of a request's body: the default of socket.request.max.bytes, less a header.
BYTES_MAX = 100 * 1024 * 1024 - 100
#: The names of fields that hold these.
TOPIC_FIELDS = frozenset({"name", "topic", "topic_name", "topics", "topic_names", "resource_name"})
GROUP_FIELDS = frozenset({"groups", "groups_names", "group_id"})


@dataclass(frozen=True)
class Rows:
    """The topics and groups that the rows of a request name: `known` topics (`topic-0` ...) and groups, then as many
    that nobody has, or the first one again and again. The partitions of one topic are those of `wide`.
    """

    known: int
    same: bool

    def text(self, field: str, number: int) -> str:
        number = 0 if self.same else number
        if field in GROUP_FIELDS:
            return f"group-{number}"
        return f"topic-{number}" if number < self.known else f"unknown-{number}"

    def number(self, number: int) -> int:
        return 0 if self.same else number


@dataclass(frozen=True)
class Largest:
    """One request, and by what it is large."""

    message: Message
    version: int
    path: str

    def __str__(self) -> str:
        return f"v{self.version} {self.path}"


def largest(
    api: Api[Any, Any],
    version: int,
    items: int,
    rows: Rows,
    values: dict[str, object] | None = None,
    bytes_max: int = BYTES_MAX,
) -> Iterator[Largest]:
    """For each array of the request one message in which it has many items, at most `items` in all arrays together.
    `values` are those of fields wherever they stand. A message has at most `bytes_max` bytes.
    """
    root = _described(api.request)
    for path in _arrays(root, version):
        fewer = items
        while True:
            message = _struct(root, version, path, fewer, rows, 0, values or {})
            more_items = items_of(message) - items
            more_bytes = len(api.encode_request(version, message)) - bytes_max if more_items <= 0 else 0
            if more_items <= 0 and more_bytes <= 0:
                break
            # Rows are not all of the same length: a little less than fits.
            fewer = fewer - more_items if more_items > 0 else fewer * bytes_max // (bytes_max + more_bytes) * 99 // 100
        yield Largest(message, version, ".".join(path))


def items_of(message: Message) -> int:
    """The items of all arrays in a message."""
    count = 0
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if isinstance(value, Message):
            count += items_of(value)
        elif isinstance(value, list):
            count += len(value)
            if value and isinstance(value[0], Message):
                count += sum(map(items_of, value))
    return count


def _arrays(spec: StructSpec, version: int) -> Iterator[tuple[str, ...]]:
    for field in spec.fields:
        if within(version, field.versions):
            item = field.type
            if isinstance(item, StructSpec):
                yield from ((field.name, *inner) for inner in _arrays(item, version))
            elif isinstance(item, tuple) and item[0] == "array":
                yield (field.name,)
                if isinstance(item[1], StructSpec):
                    yield from ((field.name, *inner) for inner in _arrays(item[1], version))


def _struct(
    spec: StructSpec,
    version: int,
    path: tuple[str, ...],
    items: int,
    rows: Rows,
    number: int,
    values: dict[str, object],
) -> Message:
    """The structure whose array at `path` is the long one, or one in a row of a long one if `path` is empty."""
    given: dict[str, object] = {}
    for field in spec.fields:
        if not within(version, field.versions):
            continue
        if path and field.name == path[0]:
            given[field.name] = _long(field, version, path[1:], items, rows, values)
        elif field.name in values:
            given[field.name] = values[field.name]
        elif path and field.name in TOPIC_FIELDS and field.type == "string":
            given[field.name] = "wide"
        else:
            value = _small(field, version, rows, number, values)
            if value is not None:
                given[field.name] = value
    return spec.cls(**given)


def _long(
    field: FieldSpec, version: int, path: tuple[str, ...], items: int, rows: Rows, values: dict[str, object]
) -> object:
    kind = field.type
    if isinstance(kind, StructSpec):
        return _struct(kind, version, path, items, rows, 0, values)
    item = kind[1]
    if path:
        return [_struct(item, version, path, items - 1, rows, 0, values)]
    each = 1 + (_nested(item, version) if isinstance(item, StructSpec) else 0)
    return [_item(item, field.name, version, rows, number, values) for number in range(items // each)]


def _nested(spec: StructSpec, version: int) -> int:
    """How many array items a row of one item in each of its arrays has."""
    count = 0
    for field in spec.fields:
        if within(version, field.versions) and isinstance(field.type, tuple) and field.type[0] == "array":
            item = field.type[1]
            count += 1 + (_nested(item, version) if isinstance(item, StructSpec) else 0)
    return count


def _item(item: Any, name: str, version: int, rows: Rows, number: int, values: dict[str, object]) -> object:
    if isinstance(item, StructSpec):
        return _struct(item, version, (), 0, rows, number, values)
    return rows.text(name, number) if item == "string" else rows.number(number)


def _small(field: FieldSpec, version: int, rows: Rows, number: int, values: dict[str, object]) -> object:
    """A field of one row; None for its default."""
    kind = field.type
    if kind == "string":
        return rows.text(field.name, number)
    if isinstance(kind, tuple) and kind[0] == "array":
        item = kind[1]
        return [_struct(item, version, (), 0, rows, 0, values) if isinstance(item, StructSpec) else _scalar(item)]
    if kind == "int32" and (field.name.startswith("partition") or field.name == "id"):
        return rows.number(number)
    return None


def _scalar(item: str) -> object:
    return "topic-0" if item == "string" else 0
