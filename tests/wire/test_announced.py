"""An array that announces more items than its frame can hold is refused where that is said, before any item is read or
made: in each array of each API's requests and answers.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from ottla import wire
from ottla.errors import RemoteProtocolError
from ottla.wire.schema import FieldSpec, Message, StructSpec, describe
from tests.wire.instances import codec, every_message, within

#: More items than any frame has, and as many as an `int` can say.
MANY = 2**31 - 1
#: How the count of an array is found: messages with one item more differ there first. Such a count differs in one byte.
SOME = 100
PLAIN = {"string": "", "bytes": b"", "records": b"", "bool": False, "float64": 0.0}


def is_array(field: FieldSpec) -> bool:
    return isinstance(field.type, tuple) and field.type[0] == "array"


def arrays(spec: StructSpec, version: int) -> Iterator[tuple[str, ...]]:
    for field in spec.fields:
        if within(version, field.versions) and field.tag is None:
            item = field.type[1] if is_array(field) else field.type
            if is_array(field):
                yield (field.name,)
            if isinstance(item, StructSpec):
                yield from ((field.name, *inner) for inner in arrays(item, version))


def message(spec: StructSpec, version: int, path: tuple[str, ...], count: int) -> Message:
    """One whose array at `path` has so many items, and every other array none, or one on the way there."""
    values: dict[str, object] = {}
    for field in spec.fields:
        if within(version, field.versions):
            values[field.name] = _value(field, version, path, count) if path[:1] == (field.name,) else _least(field)
    return spec.cls(**{name: value for name, value in values.items() if value is not None})


def _least(field: FieldSpec) -> object:
    return [] if is_array(field) else None


def _value(field: FieldSpec, version: int, path: tuple[str, ...], count: int) -> object:
    item: Any = field.type[1] if is_array(field) else field.type
    if len(path) == 1:
        return [message(item, version, (), 0) if isinstance(item, StructSpec) else PLAIN.get(item, 0)] * count
    inner = message(item, version, path[1:], count)
    return [inner] if is_array(field) else inner


@pytest.mark.parametrize(("key", "side"), sorted({(key, side) for key, side, _ in every_message()}))
def test_more_items_than_there_is_room_for(key: int, side: str) -> None:
    api, encode, decode = codec(key, side)
    spec = describe(getattr(api, side))
    for version in api.versions:
        for path in arrays(spec, version):
            some, more = (encode(version, message(spec, version, path, count)) for count in (SOME, SOME + 1))
            at = next(place for place, (a, b) in enumerate(zip(some, more, strict=False)) if a != b)
            if api.is_flexible(version):
                frame = some[:at] + b"\xff\xff\xff\xff\x07"
            else:
                frame = some[: at - 3] + MANY.to_bytes(4, "big")
            # A few bytes more: for some items, but not for all.
            with pytest.raises(RemoteProtocolError) as refused:
                decode(version, frame + bytes(40))
            text, where = str(refused.value), (path, version, str(refused.value))
            count = re.search(r"(\d+) items", text)
            assert count is not None, where
            assert int(count[1]) >= MANY - 1, where
            assert path[-1] in text, where


def test_every_api_is_there() -> None:
    assert {key for key, _, _ in every_message()} == {*wire.KEYS}
