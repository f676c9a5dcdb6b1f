"""Access rules: an entry says who is allowed or denied an operation and from where, and a pattern for which resources.

A filter finds rules. Every part of it that is not `ANY` or None has to match. What comes from the wire or the tree with
a number or a word that Kafka 2.7 does not know is `UNKNOWN`, which is kept and concerns nobody.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from ottla.wire.needs import Operation, Resource

#: The one name of a resource of the kind `CLUSTER`.
CLUSTER_NAME: Final = "kafka-cluster"
#: As the name of a literal pattern: every resource of its kind.
ANY_NAME: Final = "*"
ANY_HOST: Final = "*"
ANY_USER: Final = "User:*"
#: The kinds of resources that rules may be about.
RESOURCES: Final = tuple(kind for kind in Resource if kind > Resource.ANY)

#: The operations on each kind of resource, in the order of their bits in Metadata, DescribeGroups and DescribeCluster.
OPERATIONS: Final[dict[Resource, tuple[Operation, ...]]] = {
    Resource.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    Resource.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    Resource.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
    Resource.DELEGATION_TOKEN: (Operation.DESCRIBE,),
}

_IMPLIED_BY: Final[dict[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
#: The operations of entries that allow an operation, and of those that deny it: who may read may describe as well, but
#: who may not read may still describe.
ALLOWING: Final = {one: frozenset({one, Operation.ALL}) | _IMPLIED_BY.get(one, frozenset()) for one in Operation}
DENYING: Final = {one: frozenset({one, Operation.ALL}) for one in Operation}


class Permission(IntEnum):
    """The word of an entry, by the number on the wire (AclPermissionType)."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class PatternType(IntEnum):
    """How the name of a pattern or of a filter is meant, by the number on the wire.

    In a filter, `MATCH` finds the patterns that cover a resource of the filter's name, and `ANY` those that have this
    very name.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Pattern(NamedTuple):
    """The resources that rules are about. `LITERAL` has the one of this name, or all for "*". `PREFIXED` has those
    whose names begin so.
    """

    resource: Resource
    name: str
    kind: PatternType = PatternType.LITERAL


class Entry(NamedTuple):
    """`principal` has its type, as in "User:alice". `host` is an address as Java writes it, or "*"."""

    principal: str
    host: str
    operation: Operation
    permission: Permission


class Binding(NamedTuple):
    """An access rule."""

    pattern: Pattern
    entry: Entry


class PatternFilter(NamedTuple):
    """name: None matches any."""

    resource: Resource = Resource.ANY
    name: str | None = None
    kind: PatternType = PatternType.ANY

    def matches(self, pattern: Pattern) -> bool:
        """True if it finds this pattern."""
        if self.resource not in (Resource.ANY, pattern.resource):
            return False
        if self.kind not in (PatternType.ANY, PatternType.MATCH, pattern.kind):
            return False
        if self.name is None or self.name == pattern.name:
            return True
        if self.kind is not PatternType.MATCH:
            return False
        return pattern.name == ANY_NAME if pattern.kind is PatternType.LITERAL else self.name.startswith(pattern.name)

    def named(self) -> tuple[Pattern, ...]:
        """The patterns that it names, of which there need not be any; () if it may find others."""
        if self.name is None or self.resource < Resource.TOPIC:
            return ()
        kinds = {
            PatternType.ANY: (PatternType.LITERAL, PatternType.PREFIXED),
            PatternType.LITERAL: (PatternType.LITERAL,),
            PatternType.PREFIXED: (PatternType.PREFIXED,),
        }
        return tuple(Pattern(self.resource, self.name, kind) for kind in kinds.get(self.kind, ()))


class EntryFilter(NamedTuple):
    """principal, host: None matches any."""

    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, entry: Entry) -> bool:
        """True if it finds this entry."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )


class Filter(NamedTuple):
    """Finds rules."""

    pattern: PatternFilter = PatternFilter()
    entry: EntryFilter = EntryFilter()

    def matches(self, binding: Binding) -> bool:
        """True if it finds this rule."""
        return self.pattern.matches(binding.pattern) and self.entry.matches(binding.entry)


Number = TypeVar("Number", bound=IntEnum)


def by_number(kind: type[Number], number: int) -> Number:
    """The value with this number on the wire; `UNKNOWN` for a number that Kafka 2.7 does not know."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)


def is_principal(text: str) -> bool:
    """True if the text has a type and a name."""
    return ":" in text
