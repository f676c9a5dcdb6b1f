"""Decisions: Kafka's own facts, and random rules against the definition."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.authorization import snapshot as of_snapshots
from ottla.broker.authorization.snapshot import Snapshot, Standing
from ottla.wire.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    RESOURCES,
    Binding,
    Entry,
    Filter,
    Pattern,
    PatternFilter,
    PatternType,
    Permission,
)
from ottla.wire.needs import Operation, Resource

ALLOW, DENY = Permission.ALLOW, Permission.DENY
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
TOPIC = Resource.TOPIC
PREFIXED = PatternType.PREFIXED
ALICE = "User:alice"


def rule(
    name: str = "orders",
    operation: Operation = READ,
    permission: Permission = ALLOW,
    who: str = ALICE,
    host: str = "*",
    kind: PatternType = PatternType.LITERAL,
    resource: Resource = TOPIC,
) -> Binding:
    return Binding(Pattern(resource, name, kind), Entry(who, host, operation, permission))


def snapshot(*rules: Binding, standing: Standing | None = None) -> Snapshot:
    changes: dict[Pattern, list[Entry]] = {}
    for pattern, entry in rules:
        changes.setdefault(pattern, []).append(entry)
    return Snapshot(standing or Standing()).changed(changes)


def allows(
    found: Snapshot, operation: Operation = READ, name: str = "orders", who: str = "alice", host: str = "h"
) -> bool:
    return found.decide(who, host, operation, TOPIC, name).is_allowed


@pytest.mark.parametrize(
    ("expected", "rules"),
    [
        # testTopicAcl, testWildCardAcls: exactly this user, host and topic.
        (True, [rule()]),
        (True, [rule(host="h")]),
        (False, [rule(host="other")]),
        (False, [rule(who="User:bob")]),
        (False, [rule(name="order")]),
        (False, [rule(name="orders2")]),
        (False, [rule(resource=Resource.GROUP)]),
        (False, [rule(operation=WRITE)]),
        (True, [rule(operation=ALL)]),
        (True, [rule(who="User:*")]),
        (True, [rule(name="*")]),
        # testAllowAccessWithCustomPrincipal
        (False, [rule(who="Group:alice")]),
        # testDenyTakesPrecedence
        (False, [rule(operation=ALL), rule(permission=DENY)]),
        (False, [rule(), rule(permission=DENY, operation=ALL, who="User:*")]),
        (False, [rule(), rule(name="*", permission=DENY)]),
        (False, [rule(), rule(name="o", kind=PREFIXED, permission=DENY)]),
        (True, [rule(), rule(permission=DENY, host="other"), rule(permission=DENY, who="User:bob")]),
        (True, [rule(), rule(permission=DENY, operation=WRITE)]),
        # testAuthorizeWithPrefixedResource, testSingleCharacterResourceAcls
        (True, [rule(name="o", kind=PREFIXED), rule(name="a", kind=PREFIXED), rule(name="z", kind=PREFIXED)]),
        (True, [rule(name="orders", kind=PREFIXED)]),
        (False, [rule(name="orders-", kind=PREFIXED), rule(name="rders", kind=PREFIXED)]),
        (False, [rule(name="*", kind=PREFIXED)]),
        # What a later release writes concerns nobody.
        (False, [rule(operation=Operation.UNKNOWN)]),
        (True, [rule(), rule(permission=Permission.UNKNOWN, operation=ALL)]),
    ],
)
def test_who_may_read(expected: bool, rules: list[Binding]) -> None:
    assert allows(snapshot(*rules)) is expected


@pytest.mark.parametrize("granted", [one for one in Operation if one > ALL])
def test_implied_operations(granted: Operation) -> None:
    """testAclInheritance: what is allowed implies, what is denied does not."""
    implied = {granted}
    if granted in (READ, WRITE, Operation.DELETE, Operation.ALTER):
        implied.add(DESCRIBE)
    if granted is Operation.ALTER_CONFIGS:
        implied.add(Operation.DESCRIBE_CONFIGS)
    every = [one for one in Operation if one > ALL]
    given_one = snapshot(rule(operation=granted))
    assert {one for one in every if allows(given_one, one)} == implied
    without_one = snapshot(rule(operation=ALL), rule(operation=granted, permission=DENY))
    assert {one for one in every if not allows(without_one, one)} == {granted}


def test_super_users_may_do_everything() -> None:
    standing = Standing(frozenset({"User:root", "Group:wheel"}))
    found = snapshot(rule(operation=ALL, permission=DENY, who="User:*"), standing=standing)
    assert allows(found, who="root")
    assert not allows(found, who="wheel")
    assert not allows(found, who="User:root")


def test_resources_without_rules() -> None:
    """testNoAclFoundOverride"""
    for is_open in (False, True):
        found = snapshot(rule(), standing=Standing(allows_without_rules=is_open))
        assert allows(found, name="others") is is_open
        assert allows(found, WRITE) is False
        emptied = found.changed({Pattern(TOPIC, "orders"): []})
        assert allows(emptied, WRITE) is is_open
        assert emptied.patterns() == []


def test_a_damaged_pattern_denies() -> None:
    standing = Standing(frozenset({"User:root"}), allows_without_rules=True)
    damaged = snapshot(rule(), rule(name="o", kind=PREFIXED), standing=standing).changed({Pattern(TOPIC, "*"): None})
    assert not allows(damaged)
    assert not allows(damaged, name="others")
    assert allows(damaged, who="root")
    assert damaged.decide("alice", "h", READ, Resource.GROUP, "g").is_allowed
    assert Pattern(TOPIC, "*") in damaged.patterns()
    assert list(damaged.entries(Pattern(TOPIC, "*"))) == []
    assert allows(damaged.changed({Pattern(TOPIC, "*"): []}))


def test_the_rule_that_decided_is_named() -> None:
    denying, allowing = rule(name="o", kind=PREFIXED, permission=DENY, operation=WRITE), rule()
    found = snapshot(denying, allowing)
    assert found.decide("alice", "h", READ, TOPIC, "orders") == (True, allowing)
    assert found.decide("alice", "h", WRITE, TOPIC, "orders") == (False, denying)
    assert found.decide("bob", "h", READ, TOPIC, "orders") == (False, None)


def test_a_snapshot_does_not_change() -> None:
    before = snapshot(rule())
    assert allows(before)
    after = before.changed({Pattern(TOPIC, "orders"): []})
    assert allows(before)
    assert not allows(after)


def test_decisions_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_snapshots, "DECISIONS_MAX", 5)
    found = snapshot(rule(name="a"))
    for number in range(100):
        assert not allows(found, name=f"topic-{number}")
        assert allows(found, name="a")
        assert sum(map(len, found._decisions.values())) <= found._kept <= 5


def test_many_clients_are_bounded_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_snapshots, "DECISIONS_MAX", 5)
    found = snapshot(rule(name="a"))
    for number in range(100):
        found.decide(f"user-{number}", "h", READ, TOPIC, "a")
        assert len(found._decisions) <= 5


def test_a_decider_decides_about_names_that_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_snapshots, "DECISIONS_MAX", 5)
    found = snapshot(rule(name="a"), rule(name="b", permission=DENY))
    is_allowed = found.decider("alice", "h", READ, TOPIC)
    for number in range(20):
        names = ("a", "b", f"c-{number}")
        assert [is_allowed(name) for name in names] == [allows(found, name=name) for name in names]
        assert sum(map(len, found._decisions.values())) <= found._kept <= 5


# Few of each, so that rules have to do with each other.
NAMES = st.sampled_from(["*", "a", "a", "aa"])
PRINCIPALS = st.sampled_from([ALICE, ALICE, "User:bob", "User:*", "Group:alice", "User:root"])
HOSTS = st.sampled_from(["*", "*", "h", "i"])
RULES = st.builds(
    rule,
    name=NAMES,
    operation=st.sampled_from([READ, READ, READ, ALL, ALL, DESCRIBE, Operation.ALTER_CONFIGS, Operation.UNKNOWN]),
    permission=st.sampled_from([ALLOW, ALLOW, DENY, DENY, Permission.UNKNOWN]),
    who=PRINCIPALS,
    host=HOSTS,
    kind=st.sampled_from([PatternType.LITERAL, PREFIXED]),
    resource=st.sampled_from([TOPIC, TOPIC, TOPIC, Resource.GROUP]),
)


def by_definition(
    rules: list[Binding], standing: Standing, who: str, host: str, operation: Operation, resource: Resource, name: str
) -> bool:
    """AclAuthorizer, word for word, with a walk over all rules."""
    if who in standing.super_users:
        return True
    asked = PatternFilter(resource, name, PatternType.MATCH)
    found = [entry for pattern, entry in rules if asked.matches(pattern)]
    if not found:
        return standing.allows_without_rules

    def exists(permission: Permission, operations: set[Operation]) -> bool:
        return any(
            entry.permission is permission
            and entry.principal in (who, "User:*")
            and entry.operation in operations | {ALL}
            and entry.host in (host, "*")
            for entry in found
        )

    allowing = {operation}
    if operation is DESCRIBE:
        allowing |= {READ, WRITE, Operation.DELETE, Operation.ALTER}
    elif operation is Operation.DESCRIBE_CONFIGS:
        allowing |= {Operation.ALTER_CONFIGS}
    return not exists(DENY, {operation}) and exists(ALLOW, allowing)


@given(
    rules=st.lists(RULES, min_size=2, max_size=12),
    later=st.lists(RULES, max_size=4),
    supers=st.sampled_from([set(), set(), {"User:root"}, {ALICE}, {"Group:alice"}]),
    is_open=st.booleans(),
)
def test_decisions_are_those_of_the_definition(
    rules: list[Binding], later: list[Binding], supers: set[str], is_open: bool
) -> None:
    standing = Standing(frozenset(supers), is_open)
    found = snapshot(*rules, standing=standing)
    replaced = {pattern for pattern, _ in later}
    now = [one for one in rules if one.pattern not in replaced] + later
    changed = found.changed({pattern: [entry for at, entry in later if at == pattern] for pattern in replaced})
    for seen, held in ((found, rules), (changed, now)):
        assert {Binding(at, entry) for at in seen.patterns() for entry in seen.entries(at)} == set(held)
        for who in ("alice", "bob", "root"):
            for host in ("h", "i"):
                for operation in (READ, WRITE, DESCRIBE, Operation.DESCRIBE_CONFIGS):
                    for name in ("a", "aa", "aabc", "c"):
                        expected = by_definition(held, standing, f"User:{who}", host, operation, TOPIC, name)
                        decision = seen.decide(who, host, operation, TOPIC, name)
                        assert decision.is_allowed is expected
                        if decision.rule is not None:
                            assert decision.rule in held


def test_ten_thousand_rules_are_small_and_found_without_a_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {
        Pattern(RESOURCES[number % 3], f"resource-{number:05}", (PatternType.LITERAL, PREFIXED)[number % 2]): [
            Entry(f"User:user-{number % 100}", "*", READ, ALLOW)
        ]
        for number in range(10_000)
    }
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        found = Snapshot(Standing()).changed(changes)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken < 10_000_000
    asked = []
    original = Snapshot._concerning

    def counting(self: Snapshot, pattern: Pattern, who: str) -> object:
        asked.append(pattern)
        return original(self, pattern, who)

    monkeypatch.setattr(Snapshot, "_concerning", counting)
    # Topics have even and odd numbers.
    assert not found.decide("user-1", "h", READ, TOPIC, "resource-00003").is_allowed
    assert found.decide("user-3", "h", READ, TOPIC, "resource-00003-of-mine").is_allowed
    assert found._lengths[TOPIC] == (len("resource-00003"),)
    assert asked == [Pattern(TOPIC, "resource-00003", PREFIXED)] * 2


def test_operations_of_the_cluster() -> None:
    found = snapshot(rule(name=CLUSTER_NAME, operation=Operation.ALTER, resource=Resource.CLUSTER))
    allowed = {
        one
        for one in OPERATIONS[Resource.CLUSTER]
        if found.decide("alice", "h", one, Resource.CLUSTER, CLUSTER_NAME).is_allowed
    }
    assert allowed == {Operation.ALTER, DESCRIBE}
    assert Filter(PatternFilter(Resource.CLUSTER)).matches(rule(name=CLUSTER_NAME, resource=Resource.CLUSTER))
