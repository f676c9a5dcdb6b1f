"""Apache Kafka's own message definitions, read from its client jar, and a naive encoder that follows them.

They are the oracle for ours; nothing of them is kept in the project.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from ottla.wire.schema import parse_versions
from tests.peers.apache import SCRIPT, need_java

Definition = dict[str, Any]
_NUMBERS = {"int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "float64": ">d"}


def jar(version: str) -> Path:
    """The client jar of a release, fetched if it is not there."""
    cache_folder = Path(os.environ.get("OTTLA_PEERS") or Path.home() / ".cache" / "ottla-peers")
    path = cache_folder / f"kafka-{version}" / "libs" / f"kafka-clients-{version}.jar"
    if not path.exists():
        need_java()
        subprocess.run([SCRIPT, "fetch", version], check=True, capture_output=True, timeout=300)
    return path


@cache
def definitions(version: str) -> dict[tuple[int, str], Definition]:
    """Every request and response by key and side."""
    found = {}
    with zipfile.ZipFile(jar(version)) as archive:
        for name in archive.namelist():
            if name.startswith("common/message/") and name.endswith(".json"):
                text = archive.read(name).decode()
                definition = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
                if definition["type"] in ("request", "response"):
                    found[definition["apiKey"], definition["type"]] = definition
    return found


def snake(name: str) -> str:
    """LeaderEpoch -> leader_epoch; v0Host -> v0_host."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def flexible_from(definition: Definition) -> int | None:
    versions = definition.get("flexibleVersions", "none")
    return None if versions == "none" else parse_versions(versions)[0]


def fields_of(definition: Definition, field: Definition) -> list[Definition] | None:
    """The fields of a field that is a structure or an array of them."""
    if "fields" in field:
        return list(field["fields"])
    for common in definition.get("commonStructs", []):
        if common["name"] == field["type"].removeprefix("[]"):
            return list(common["fields"])
    return None


def default(definition: Definition, field: Definition) -> object:
    """A field's default as a Python value; a structure's is the dictionary of its fields' defaults."""
    kind, text = field["type"], field.get("default")
    if text == "null":
        return None
    if kind.startswith("[]"):
        return []
    if inner := fields_of(definition, field):
        return {snake(each["name"]): default(definition, each) for each in inner}
    if kind == "string":
        return text or ""
    if kind in ("bytes", "records"):
        return b""
    if kind == "bool":
        return text in (True, "true")
    if kind == "float64":
        return float(text or 0)
    return int(str(text or 0), 0)


def encode(definition: Definition, version: int, message: object) -> bytes:
    """A message's bytes, as its definition says; `message` has attributes of the fields' names in snake case."""
    start = flexible_from(definition)
    return _Encoder(definition, version, start is not None and version >= start).fields(definition["fields"], message)


class _Encoder:
    def __init__(self, definition: Definition, version: int, flexible: bool) -> None:
        self.definition = definition
        self.version = version
        self.flexible = flexible

    def has(self, versions: str) -> bool:
        first, last = parse_versions(versions)
        return first <= self.version <= last

    def fields(self, fields: list[Definition], message: object) -> bytes:
        plain, tagged = b"", {}
        for field in fields:
            if not self.has(field["versions"]):
                continue
            value = getattr(message, snake(field["name"]))
            if self.flexible and "tag" in field and self.has(field["taggedVersions"]):
                if not self.is_default(field, value):
                    tagged[field["tag"]] = self.value(field["type"], field, value)
            else:
                plain += self.value(field["type"], field, value)
        if self.flexible:
            plain += _varint(len(tagged))
            for tag, encoded in sorted(tagged.items()):
                plain += _varint(tag) + _varint(len(encoded)) + encoded
        return plain

    def is_default(self, field: Definition, value: object) -> bool:
        expected = default(self.definition, field)
        if isinstance(expected, dict):
            return all(getattr(value, name) == inner for name, inner in expected.items())
        return value == expected

    def value(self, kind: str, field: Definition, value: Any) -> bytes:
        if kind.startswith("[]"):
            return self.length(value, wide=True) + b"".join(
                self.value(kind.removeprefix("[]"), field, item) for item in value or ()
            )
        if kind in _NUMBERS:
            return struct.pack(_NUMBERS[kind], value)
        if kind == "bool":
            return b"\1" if value else b"\0"
        if kind == "uuid":
            return bytes(value)
        if kind == "string":
            encoded = None if value is None else value.encode()
            return self.length(encoded, wide=False) + (encoded or b"")
        if kind in ("bytes", "records"):
            return self.length(value, wide=True) + (value or b"")
        inner = fields_of(self.definition, field)
        assert inner is not None, kind
        return self.fields(inner, value)

    def length(self, value: Any, *, wide: bool) -> bytes:
        if self.flexible:
            return _varint(0 if value is None else len(value) + 1)
        return struct.pack(">i" if wide else ">h", -1 if value is None else len(value))


def _varint(value: int) -> bytes:
    encoded = b""
    while value >= 0x80:
        encoded += bytes([value & 0x7F | 0x80])
        value >>= 7
    return encoded + bytes([value])
