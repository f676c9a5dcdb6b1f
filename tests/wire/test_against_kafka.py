"""Every declared message against Apache Kafka's own definition of it: field by field, and byte by byte."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.wire import KEYS, api
from ottla.wire.schema import FieldSpec, Message, StructSpec, describe, parse_versions
from tests.wire import definitions
from tests.wire.definitions import Definition, snake
from tests.wire.instances import SIDES, codec, every_message, instance, of_kafka, within, without_own

pytestmark = pytest.mark.java

LATER = {27: "3.9.2", 60: "3.9.2", 61: "3.9.2", 65: "3.9.2", 66: "3.9.2"}
"""APIs that 2.7 does not have, or not in all versions, with the release whose definition they follow."""


def definition_of(key: int, side: str) -> Definition:
    return definitions.definitions(LATER.get(key, "2.7.2"))[key, side]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("key", KEYS)
def test_fields_of_every_version(key: int, side: str) -> None:
    ours, theirs = api(key), definition_of(key, side)
    for version in ours.versions:
        spec = describe(getattr(ours, side))
        assert view(spec, version) == their_view(theirs, theirs["fields"], version), f"version {version}"


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("key", [key for key in KEYS if key not in LATER])
def test_versions_and_what_absent_fields_do(key: int, side: str) -> None:
    ours, theirs = api(key), definition_of(key, side)
    assert parse_versions(theirs["validVersions"]) == (ours.versions[0], ours.versions[-1])
    start = definitions.flexible_from(theirs)
    if start is None:
        assert not ours.is_flexible(ours.highest), "later releases have flexible versions"
    else:
        assert ours.flexible_from == start
    assert absences(describe(getattr(ours, side))) == their_absences(theirs, theirs["fields"])


def test_every_api_of_2_7_is_declared() -> None:
    raft = {52, 53, 54, 55}
    theirs = {key for key, _ in definitions.definitions("2.7.2")}
    assert theirs - raft == set(KEYS) - (set(LATER) - theirs)


@pytest.mark.parametrize(("key", "side", "version"), every_message())
def test_bytes(key: int, side: str, version: int) -> None:
    ours, encode, decode = codec(key, side)
    theirs = definition_of(key, side)
    rng = random.Random(f"{key} {side} {version}")
    for _ in range(10):
        message = without_own(instance(getattr(ours, side), version, rng))
        encoded = definitions.encode(theirs, version, message)
        assert encode(version, message) == encoded
        assert decode(version, encoded) == message


def view(spec: StructSpec, version: int) -> list[Any]:
    """The fields of a version's bytes."""
    return [
        (
            field.name,
            our_kind(field.type, version),
            within(version, field.nullable),
            field.tag if within(version, field.tagged) else None,
            plain(field.default),
        )
        for field in of_kafka(spec)
        if within(version, field.versions)
    ]


def our_kind(kind: Any, version: int) -> Any:
    if isinstance(kind, StructSpec):
        return view(kind, version)
    if isinstance(kind, tuple):
        return ["array", our_kind(kind[1], version)]
    return kind


def plain(value: object) -> object:
    """A default as the definitions' side gives it: structures as dictionaries."""
    if isinstance(value, type) and issubclass(value, Message):
        value = value()
    if isinstance(value, Message):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    return value


def their_view(definition: Definition, fields: list[Definition], version: int) -> list[Any]:
    return [
        (
            snake(field["name"]),
            their_kind(definition, field, version),
            within(version, parse_versions(field.get("nullableVersions", ""))),
            field.get("tag") if within(version, parse_versions(field.get("taggedVersions", ""))) else None,
            definitions.default(definition, field),
        )
        for field in fields
        if within(version, parse_versions(field["versions"]))
    ]


def their_kind(definition: Definition, field: Definition, version: int) -> Any:
    inner = definitions.fields_of(definition, field)
    kind = field["type"].removeprefix("[]") if inner is None else their_view(definition, inner, version)
    return ["array", kind] if field["type"].startswith("[]") else kind


def absences(spec: StructSpec) -> list[Any]:
    """Field by field: in which versions it is, and whether its value may be dropped in others."""
    return [(field.name, field.versions, field.ignorable, *inner_absences(field)) for field in of_kafka(spec)]


def inner_absences(field: FieldSpec) -> list[Any]:
    kind = field.type
    while isinstance(kind, tuple) and not isinstance(kind, StructSpec):
        kind = kind[1]
    return absences(kind) if isinstance(kind, StructSpec) else []


def their_absences(definition: Definition, fields: list[Definition]) -> list[Any]:
    return [
        (
            snake(field["name"]),
            parse_versions(field["versions"]),
            field.get("ignorable", False),
            *their_absences(definition, definitions.fields_of(definition, field) or []),
        )
        for field in fields
    ]
