"""The topics, partitions and groups that a message is about, as its declaration shows them.

Declarations have no word for that, but Kafka's names are regular. A structure is about a topic by its `topic`,
`topic_name`, or `name` in the rows of topics, and about a partition and a group by fields of these names. In some
requests a row is a number or a name alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from ottla.wire.error_codes import FIELD
from ottla.wire.k10_find_coordinator import FindCoordinatorRequest
from ottla.wire.schema import FieldSpec, Message, Range, StructSpec, describe

ROLES: Final = {
    "topic": "topic",
    "topic_name": "topic",
    "partition": "partition",
    "partition_index": "partition",
    "partition_id": "partition",
    "group_id": "group",
}
#: The arrays in whose rows `name` is a topic's.
OF_TOPICS: Final = frozenset({"topics", "topic_states", "topic_partitions", "responses", "results"})
#: What the items of an array of plain values are; beside these are numbers of partitions, by names that begin so.
PLAIN: Final = {"topic_names": "topic", "groups": "group", "groups_names": "group"}
#: Arrays that tell something of a row.
DETAILS: Final = frozenset({"assignments", "configs", "forgotten_topics_data", "remaining_partitions"})


class Names(NamedTuple):
    """A topic, a partition and a group; None stands for any, or for none that is named."""

    topic: str | None = None
    partition: int | None = None
    group: str | None = None

    def covers(self, named: Names) -> bool:
        """True if what is given here is what is named there."""
        return all(wanted is None or wanted == is_named for wanted, is_named in zip(self, named, strict=True))


ANY: Final = Names()


class Rows(NamedTuple):
    """An array whose items are about something, or have error codes."""

    field: str
    #: The role of items that are plain values; empty for structures.
    role: str
    #: What the items are, if they are structures.
    inner: Shape | None
    versions: Range


class Shape(NamedTuple):
    """A structure, as far as it matters here."""

    cls: type[Message]
    fields: tuple[FieldSpec, ...]
    #: Role and field of what it names itself.
    names: tuple[tuple[str, str], ...]
    rows: tuple[Rows, ...]

    def has(self, field: str, version: int) -> bool:
        """True if a version has the field."""
        return any(one.name == field and one.versions[0] <= version <= one.versions[1] for one in self.fields)

    def roles(self) -> set[str]:
        """Everything that the structure or its rows name."""
        found = {role for role, _ in self.names}
        for rows in self.rows:
            found |= {rows.role} if rows.inner is None else rows.inner.roles()
        return found

    def coded(self, version: int) -> set[frozenset[str]]:
        """A set of roles for each kind of row with error codes, this structure included: what such a row is about."""
        own = frozenset(role for role, _ in self.names)
        found = {own} if self.has(FIELD, version) else set()
        for rows in self.rows:
            if rows.inner is not None and rows.versions[0] <= version <= rows.versions[1]:
                found |= {own | below for below in rows.inner.coded(version)}
        return found

    def own(self, message: Any, names: Names) -> Names:
        """`names`, and what the message names itself."""
        for role, field in self.names:
            if (value := getattr(message, field)) != "" or getattr(names, role) is None:
                # Else it is of older versions, which name each topic in the rows of its partitions.
                names = names._replace(**{role: value})
        if isinstance(message, FindCoordinatorRequest) and message.key_type:
            names = names._replace(group=None)
        return names


_shapes: dict[type[Message], Shape] = {}


def shape(cls: type[Message]) -> Shape:
    """The shape of a message, with all structures inside it."""
    found = _shapes.get(cls)
    if found is None:
        found = _shapes[cls] = _shape(describe(cls), "")
    return found


def _shape(spec: StructSpec, array: str) -> Shape:
    names = []
    rows = []
    for field in spec.fields:
        if field.type in ("string", "int32"):
            role = ROLES.get(field.name, "topic" if field.name == "name" and array in OF_TOPICS else "")
            if spec.cls is FindCoordinatorRequest and field.name == "key":
                role = "group"
            if role:
                names.append((role, field.name))
        elif isinstance(field.type, tuple) and not isinstance(field.type, StructSpec) and field.name not in DETAILS:
            found = _rows(field)
            if found is not None:
                rows.append(found)
    return Shape(spec.cls, tuple(spec.fields), tuple(names), tuple(rows))


def _rows(field: FieldSpec) -> Rows | None:
    item = field.type[1]
    if isinstance(item, StructSpec):
        inner = _shape(item, field.name)
        is_about = inner.names or inner.rows or any(one.name == FIELD for one in inner.fields)
        return Rows(field.name, "", inner, field.versions) if is_about else None
    role = PLAIN.get(field.name, "partition" if item == "int32" and field.name.startswith("partition") else "")
    return Rows(field.name, role, None, field.versions) if role else None


def named(message: Message) -> Iterator[Names]:
    """Everything that the message is about: its finest rows, or itself if it has none."""
    return _named(message, shape(type(message)), ANY)


def _named(message: Any, its: Shape, names: Names) -> Iterator[Names]:
    names = its.own(message, names)
    is_leaf = True
    for rows in its.rows:
        for item in getattr(message, rows.field) or ():
            is_leaf = False
            if rows.inner is None:
                yield names._replace(**{rows.role: item})
            else:
                yield from _named(item, rows.inner, names)
    if is_leaf:
        yield names


def asks_for_all(message: Message) -> bool:
    """True if a null stands where topics could be named."""
    return any(getattr(message, rows.field) is None for rows in shape(type(message)).rows)


def part(message: Message, wanted: Names, *, is_wanted: bool) -> Message | None:
    """A copy of the message with only those rows that `wanted` covers, or with the others only. None if there are none
    of them.
    """
    found: Message | None = _part(message, shape(type(message)), ANY, wanted, is_wanted)
    return found


def _part(message: Any, its: Shape, names: Names, wanted: Names, is_wanted: bool) -> Any:
    names = its.own(message, names)
    changes = {}
    for rows in its.rows:
        items = getattr(message, rows.field)
        if not items:
            continue
        if rows.inner is None:
            kept = [item for item in items if wanted.covers(names._replace(**{rows.role: item})) is is_wanted]
        else:
            parts = (_part(item, rows.inner, names, wanted, is_wanted) for item in items)
            kept = [one for one in parts if one is not None]
        changes[rows.field] = kept
    if not changes:
        return message if wanted.covers(names) is is_wanted else None
    return msgspec.structs.replace(message, **changes) if any(changes.values()) else None
