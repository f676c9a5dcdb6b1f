"""Random messages: an instance of any declared class that a given version can express."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from ottla.wire import KEYS, api
from ottla.wire.schema import OWN_TAGS, Api, FieldSpec, Message, StructSpec, describe

_INTEGERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_LETTERS = "aZ0-._ äñ→日😀"

SIDES = ("request", "response")


def within(version: int, versions: tuple[int, int]) -> bool:
    return versions[0] <= version <= versions[1]


def every_message() -> list[tuple[int, str, int]]:
    """(key, side, version) of everything that is declared."""
    return [(key, side, version) for key in KEYS for side in SIDES for version in api(key).versions]


def codec(key: int, side: str) -> tuple[Api[Any, Any], Any, Any]:
    """The API, and how to encode and decode one side of it."""
    found = api(key)
    return found, getattr(found, f"encode_{side}"), getattr(found, f"decode_{side}")


_described = cache(describe)


def instance(cls: type[Message], version: int, rng: random.Random) -> Message:
    """A message with values in every field that the version has, and defaults elsewhere."""
    return _struct(_described(cls), version, rng)


def of_kafka(spec: StructSpec) -> list[FieldSpec]:
    """The fields that are not Ottla's own."""
    return [field for field in spec.fields if field.tag is None or field.tag < OWN_TAGS]


def without_own(message: Message) -> Message:
    """The same message, with defaults in the fields that are Ottla's own."""
    plain = {}
    for field in of_kafka(_described(type(message))):
        value = getattr(message, field.name)
        if isinstance(value, Message):
            value = without_own(value)
        elif isinstance(value, list):
            value = [without_own(one) if isinstance(one, Message) else one for one in value]
        plain[field.name] = value
    return type(message)(**plain)


def _struct(spec: StructSpec, version: int, rng: random.Random) -> Message:
    present = [field for field in spec.fields if within(version, field.versions)]
    return spec.cls(**{field.name: _field(field, version, rng) for field in present})


def _field(field: FieldSpec, version: int, rng: random.Random) -> object:
    if within(version, field.nullable) and rng.random() < 0.2:
        return None
    return _value(field.type, version, rng)


def _value(kind: Any, version: int, rng: random.Random) -> object:
    if isinstance(kind, StructSpec):
        return _struct(kind, version, rng)
    if isinstance(kind, tuple):
        return [_value(kind[1], version, rng) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    if kind in _INTEGERS:
        bits = _INTEGERS[kind]
        return rng.choice((0, 1, -1, 2**bits - 1, -(2**bits), rng.randrange(-(2**bits), 2**bits)))
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "float64":
        return rng.choice((0.0, -1.5, 1e300, rng.random()))
    if kind == "uuid":
        return rng.randbytes(16)
    if kind == "string":
        return "".join(rng.choices(_LETTERS, k=rng.choice((0, 1, 5, 130))))
    return rng.randbytes(rng.choice((0, 1, 20, 200)))
