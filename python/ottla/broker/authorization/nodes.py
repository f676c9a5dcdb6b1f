"""Access rules in the coordination tree, as Kafka 2.7 writes them (`ZkData.scala`, `AclEntry.scala`).

    /kafka-acl/TYPE/NAME                    the entries of a literal pattern, TYPE being "Topic", "TransactionalId", ...
    /kafka-acl-extended/prefixed/TYPE/NAME  the entries of a prefixed one
    /kafka-acl-changes/acl_changes_N        says that the entries of a literal pattern have changed: "TOPIC:NAME"
    /kafka-acl-extended-changes/acl_changes_N
                                            the same for a prefixed one, as JSON

The entries are JSON: `{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read",
"host":"*"}]}`. A word that Kafka 2.7 does not know stands for `UNKNOWN`, in capitals or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final, TypeVar

import msgspec

from ottla.coordination.znodes import MalformedNode
from ottla.wire.acls import RESOURCES, Entry, Pattern, PatternType, Permission, is_principal
from ottla.wire.needs import Operation, Resource

#: Where the nodes of patterns are.
ROOTS: Final = {PatternType.LITERAL: "/kafka-acl", PatternType.PREFIXED: "/kafka-acl-extended/prefixed"}
#: Where changes of them are told.
CHANGES: Final = {PatternType.LITERAL: "/kafka-acl-changes", PatternType.PREFIXED: "/kafka-acl-extended-changes"}
CHANGE_PREFIX: Final = "acl_changes_"
#: A ZooKeeper takes requests of 1 MiB, and this leaves room for the path and the word of a change.
NODE_BYTES_MAX: Final = 1_000_000
#: Characters that ZooKeeper takes in no path (its `PathUtils`), and the one that would make two names of one.
_NOT_IN_NAMES: Final = re.compile("[/\\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")
#: All versions of the two kinds of JSON that there are.
VERSION: Final = 1

Word = TypeVar("Word", bound=IntEnum)


def word(value: IntEnum) -> str:
    """How Kafka writes a value in the tree: `CLUSTER_ACTION` as "ClusterAction"."""
    return value.name.title().replace("_", "")


def _words(kind: type[Word]) -> dict[str, Word]:
    return {word(value).upper(): value for value in kind}


_RESOURCES: Final = _words(Resource)
_OPERATIONS: Final = _words(Operation)
_PERMISSIONS: Final = _words(Permission)

PERSISTENT_PATHS: Final = (
    *(f"{root}/{word(resource)}" for root in ROOTS.values() for resource in RESOURCES),
    *CHANGES.values(),
)
"""The nodes that a broker with an authorizer makes at its start."""


def resource_of(name: str) -> Resource:
    """The kind of resource whose node has this name; `UNKNOWN` for a name of later releases."""
    return _RESOURCES.get(name.upper(), Resource.UNKNOWN)


def path_of(pattern: Pattern) -> str:
    """The node of a pattern's entries."""
    return f"{ROOTS[pattern.kind]}/{word(pattern.resource)}/{pattern.name}"


def has_place(name: str) -> bool:
    """True if the tree can have a node for a pattern of this name."""
    return name not in ("", ".", "..") and _NOT_IN_NAMES.search(name) is None


def encode_entries(entries: Iterable[Entry]) -> bytes:
    """Entries have an order of their own, so that brokers write the same."""
    acls = [
        {
            "principal": entry.principal,
            "permissionType": word(entry.permission),
            "operation": word(entry.operation),
            "host": entry.host,
        }
        for entry in sorted(entries)
    ]
    return msgspec.json.encode({"version": VERSION, "acls": acls})


def decode_entries(path: str, data: bytes) -> frozenset[Entry]:
    """Raises MalformedNode. Kafka takes what is no JSON for no entries."""
    if not data:
        return frozenset()
    fields = _object(path, data)
    acls = fields.get("acls")
    if not _is_version(fields.get("version")) or not isinstance(acls, list):
        raise MalformedNode(path, f"no access rules of version {VERSION}: {data[:80]!r}")
    return frozenset(_entry(path, one) for one in acls)


def _entry(path: str, fields: Any) -> Entry:
    try:
        principal, host, operation, permission = (
            _text(fields[name]) for name in ("principal", "host", "operation", "permissionType")
        )
    except (KeyError, TypeError):
        principal = ""
    if not is_principal(principal):
        raise MalformedNode(path, f"no access rule: {str(fields)[:80]}")
    return Entry(
        principal,
        host,
        _OPERATIONS.get(operation.upper(), Operation.UNKNOWN),
        _PERMISSIONS.get(permission.upper(), Permission.UNKNOWN),
    )


def encode_change(pattern: Pattern) -> bytes:
    """The data of a change node of the pattern's kind."""
    if pattern.kind is PatternType.LITERAL:
        return f"{pattern.resource.name}:{pattern.name}".encode()
    fields = {"resourceType": pattern.resource.name, "name": pattern.name, "patternType": pattern.kind.name}
    return msgspec.json.encode({"version": VERSION, **fields})


def decode_change(path: str, data: bytes, kind: PatternType) -> Pattern:
    """The pattern whose entries have changed, according to a change node of this kind. Raises MalformedNode."""
    if kind is PatternType.LITERAL:
        resource, _, name = data.decode(errors="replace").partition(":")
        found = Pattern(Resource.__members__.get(resource.upper(), Resource.UNKNOWN), name, kind)
    else:
        found = _changed(_object(path, data))
    if found.resource < Resource.TOPIC or not found.name or found.kind is not kind:
        raise MalformedNode(path, f"no change of access rules: {data[:80]!r}")
    return found


def _changed(fields: dict[str, Any]) -> Pattern:
    resource, name, kind = (str(fields.get(key, "")) for key in ("resourceType", "name", "patternType"))
    version_kind = kind if _is_version(fields.get("version")) else ""
    return Pattern(
        Resource.__members__.get(resource.upper(), Resource.UNKNOWN),
        name,
        PatternType.__members__.get(version_kind.upper(), PatternType.UNKNOWN),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"no text: {value!r}")
    return value


def _object(path: str, data: bytes) -> dict[str, Any]:
    try:
        fields = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedNode(path, f"not JSON: {data[:80]!r}") from error
    if not isinstance(fields, dict):
        raise MalformedNode(path, f"not an object: {data[:80]!r}")
    return fields


def _is_version(value: object) -> bool:
    return value == VERSION and not isinstance(value, bool)
