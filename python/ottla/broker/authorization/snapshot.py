"""All access rules of one moment, and what they allow.

The rules for a resource are those of its own literal pattern, of the pattern "*", and of each prefixed pattern that its
name begins with. As in Kafka's AclAuthorizer:

1. A super user may do everything.
2. Where no pattern that has rules covers the resource, `allow.everyone.if.no.acl.found` decides.
3. A rule that denies the operation, or all of them, to the client is stronger than any that allows it.
4. A rule that allows it, or all operations, or one that implies it, is needed. READ, WRITE, DELETE and ALTER imply
   DESCRIBE; ALTER_CONFIGS implies DESCRIBE_CONFIGS.

A pattern whose node in the tree cannot be understood is damaged: it denies everything that it covers to everybody but
super users, since it may have had a rule that denies. Kafka takes what is no JSON for no rules, and does not start with
JSON that is none of rules.

Literal patterns are found by their names, and prefixed ones by the beginnings of a resource's name: as many as prefixes
have different lengths, however many there are. A pattern's rules are found by their principals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from ottla.wire.acls import (
    ALLOWING,
    ANY_HOST,
    ANY_NAME,
    ANY_USER,
    DENYING,
    Binding,
    Entry,
    Pattern,
    PatternType,
    Permission,
)
from ottla.wire.needs import Operation, Resource

#: Decisions that are kept. Each takes some 300 bytes.
DECISIONS_MAX: Final = 4096

_ByPrincipal = Mapping[str, tuple[Entry, ...]]
#: A principal, its host, an operation and a kind of resource.
_Asked = tuple[str, str, Operation, Resource]


class Decision(NamedTuple):
    """`rule` is the one that decided; None if there was none, or if a super user asked."""

    is_allowed: bool
    rule: Binding | None = None


_NOTHING: Final[Mapping[str, Decision]] = {}
_NONE: Final = Decision(False)
_SUPER: Final = Decision(True)


@dataclass(frozen=True)
class Standing:
    """The settings about everybody's rights.

    super_users: Principals with their types.
    allows_without_rules: Allows everything on resources that no rule is about.
    """

    super_users: frozenset[str] = frozenset()
    allows_without_rules: bool = False


class Snapshot:
    """Never changes, but for the decisions that it has made: they are kept, up to `DECISIONS_MAX`."""

    __slots__ = ("_decisions", "_kept", "_lengths", "_rules", "_standing")

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        #: None: damaged.
        self._rules: Mapping[Pattern, _ByPrincipal | None] = {}
        #: How long prefixes are, by the kind of resource. There may be none of a length any more.
        self._lengths: Mapping[Resource, tuple[int, ...]] = {}
        #: By the names of resources.
        self._decisions: Final[dict[_Asked, dict[str, Decision]]] = {}
        self._kept = 0

    def changed(self, changes: Mapping[Pattern, Iterable[Entry] | None]) -> Self:
        """The rules after changes: all entries that these patterns have now; None for a damaged pattern. Returns this
        snapshot if they are the same.
        """
        rules = dict(self._rules)
        for pattern, entries in changes.items():
            if entries is None:
                rules[pattern] = None
            elif by_principal := _by_principal(entries):
                rules[pattern] = by_principal
            else:
                rules.pop(pattern, None)
        if rules == self._rules:
            return self
        found = type(self)(self._standing)
        found._rules = rules
        found._lengths = _with_lengths(self._lengths, changes)
        return found

    def is_as(self, other: Snapshot) -> bool:
        """True if the same rules are in both."""
        return self._rules == other._rules

    def patterns(self) -> list[Pattern]:
        """The patterns that have rules, damaged ones included."""
        return list(self._rules)

    def entries(self, pattern: Pattern) -> Iterator[Entry]:
        """The entries of a pattern; none of a damaged one."""
        for some in (self._rules.get(pattern) or {}).values():
            yield from some

    def decide(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> Decision:
        """`principal` is a user's name without its type."""
        asked = principal, host, operation, resource
        decision = self._decisions.get(asked, _NOTHING).get(name)
        if decision is None:
            if self._kept >= DECISIONS_MAX:
                self._forget()
            decision = self._decide(f"User:{principal}", host, operation, resource, name)
            self._decisions.setdefault(asked, {})[name] = decision
            self._kept += 1
        return decision

    def decider(self, principal: str, host: str, operation: Operation, resource: Resource) -> Callable[[str], bool]:
        """Decides about the names of many resources of a kind."""
        known = self._decisions.get((principal, host, operation, resource), _NOTHING)

        def is_allowed(name: str) -> bool:
            decision = known.get(name)
            if decision is None:
                decision = self.decide(principal, host, operation, resource, name)
            return decision.is_allowed

        return is_allowed

    def _forget(self) -> None:
        for known in self._decisions.values():
            # One that asks about many names may have it still.
            known.clear()
        self._decisions.clear()
        self._kept = 0

    def _decide(self, who: str, host: str, operation: Operation, resource: Resource, name: str) -> Decision:
        if who in self._standing.super_users:
            return _SUPER
        patterns = self._covering(resource, name)
        if not patterns:
            return Decision(self._standing.allows_without_rules)
        if any(self._rules[pattern] is None for pattern in patterns):
            return _NONE
        allowed = None
        for pattern in patterns:
            for entry in self._concerning(pattern, who):
                if entry.host not in (host, ANY_HOST):
                    continue
                if entry.permission is Permission.DENY and entry.operation in DENYING[operation]:
                    return Decision(False, Binding(pattern, entry))
                if allowed is None and entry.permission is Permission.ALLOW and entry.operation in ALLOWING[operation]:
                    allowed = Binding(pattern, entry)
        return _NONE if allowed is None else Decision(True, allowed)

    def _covering(self, resource: Resource, name: str) -> list[Pattern]:
        """The patterns with rules that a resource is subject to."""
        asked = [Pattern(resource, name)]
        if name != ANY_NAME:
            asked.append(Pattern(resource, ANY_NAME))
        size = len(name)
        asked += [
            Pattern(resource, name[:length], PatternType.PREFIXED)
            for length in self._lengths.get(resource, ())
            if length <= size
        ]
        return [pattern for pattern in asked if pattern in self._rules]

    def _concerning(self, pattern: Pattern, who: str) -> Iterator[Entry]:
        rules = self._rules[pattern]
        assert rules is not None
        yield from rules.get(who, ())
        if who != ANY_USER:
            yield from rules.get(ANY_USER, ())


def _by_principal(entries: Iterable[Entry]) -> dict[str, tuple[Entry, ...]]:
    found: dict[str, list[Entry]] = {}
    for entry in sorted(set(entries)):
        found.setdefault(entry.principal, []).append(entry)
    return {principal: tuple(some) for principal, some in found.items()}


def _with_lengths(
    lengths: Mapping[Resource, tuple[int, ...]], patterns: Iterable[Pattern]
) -> Mapping[Resource, tuple[int, ...]]:
    """The lengths, and those of more prefixes. Without a walk over all patterns: rules may change one by one."""
    found = dict(lengths)
    for resource, name, kind in patterns:
        known = found.get(resource, ())
        if kind is PatternType.PREFIXED and len(name) not in known:
            found[resource] = tuple(sorted((*known, len(name))))
    return found
