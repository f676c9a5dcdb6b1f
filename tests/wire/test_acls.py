"""Filters of access rules, by Kafka's AclBindingFilter and ResourcePatternFilter."""

from __future__ import annotations

import pytest

from ottla.wire.acls import (
    OPERATIONS,
    RESOURCES,
    Binding,
    Entry,
    EntryFilter,
    Filter,
    Pattern,
    PatternFilter,
    PatternType,
    Permission,
)
from ottla.wire.needs import Operation, Resource

LITERAL = Pattern(Resource.TOPIC, "orders")
PREFIXED = Pattern(Resource.TOPIC, "ord", PatternType.PREFIXED)
EVERY = Pattern(Resource.TOPIC, "*")
OF_GROUP = Pattern(Resource.GROUP, "orders")
PATTERNS = (LITERAL, PREFIXED, EVERY, OF_GROUP)
ENTRY = Entry("User:alice", "10.0.0.1", Operation.READ, Permission.ALLOW)


@pytest.mark.parametrize(
    ("found", "name", "kind"),
    [
        ({LITERAL, PREFIXED, EVERY}, None, PatternType.ANY),
        ({LITERAL, PREFIXED, EVERY}, None, PatternType.MATCH),
        ({LITERAL, EVERY}, None, PatternType.LITERAL),
        ({PREFIXED}, None, PatternType.PREFIXED),
        ({LITERAL}, "orders", PatternType.ANY),
        ({PREFIXED}, "ord", PatternType.ANY),
        ({EVERY}, "*", PatternType.ANY),
        ({LITERAL, PREFIXED, EVERY}, "orders", PatternType.MATCH),
        ({PREFIXED, EVERY}, "ord", PatternType.MATCH),
        ({EVERY}, "or", PatternType.MATCH),
        ({LITERAL}, "orders", PatternType.LITERAL),
        (set(), "orders", PatternType.PREFIXED),
        (set(), "orders", PatternType.UNKNOWN),
    ],
)
def test_filters_of_patterns(found: set[Pattern], name: str | None, kind: PatternType) -> None:
    asked = PatternFilter(Resource.TOPIC, name, kind)
    assert {one for one in PATTERNS if asked.matches(one)} == found
    others = {OF_GROUP} if (name is None and kind is not PatternType.PREFIXED) or name == "orders" else set()
    if kind in (PatternType.PREFIXED, PatternType.UNKNOWN):
        others = set()
    anything = PatternFilter(Resource.ANY, name, kind)
    assert {one for one in PATTERNS if anything.matches(one)} == found | others


def test_filters_of_entries() -> None:
    assert EntryFilter().matches(ENTRY)
    assert EntryFilter(*ENTRY).matches(ENTRY)
    for wrong in (
        EntryFilter(principal="User:bob"),
        EntryFilter(host="*"),
        EntryFilter(operation=Operation.ALL),
        EntryFilter(permission=Permission.DENY),
    ):
        assert not wrong.matches(ENTRY)
    assert Filter().matches(Binding(LITERAL, ENTRY))
    assert not Filter(PatternFilter(Resource.GROUP)).matches(Binding(LITERAL, ENTRY))
    assert not Filter(entry=EntryFilter(host="*")).matches(Binding(LITERAL, ENTRY))


def test_patterns_that_a_filter_names() -> None:
    """Kafka's `matchesAtMostOne`, which is true of ANY as well."""
    prefixed = Pattern(Resource.TOPIC, "orders", PatternType.PREFIXED)
    for kind, named in (
        (PatternType.ANY, (LITERAL, prefixed)),
        (PatternType.LITERAL, (LITERAL,)),
        (PatternType.PREFIXED, (prefixed,)),
        (PatternType.MATCH, ()),
        (PatternType.UNKNOWN, ()),
    ):
        assert PatternFilter(Resource.TOPIC, "orders", kind).named() == named
    assert PatternFilter(Resource.ANY, "orders").named() == ()
    assert PatternFilter(Resource.TOPIC, None, PatternType.LITERAL).named() == ()


def test_every_kind_of_resource_has_operations() -> None:
    assert list(OPERATIONS) == list(RESOURCES)
