"""DescribeAcls, CreateAcls and DeleteAcls, as Kafka answers them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from ottla.client.errors import ConnectionLost
from ottla.errors import ClusterAuthorizationFailed, InvalidRequest, UnknownServerError
from ottla.wire.acls import Binding, PatternType, Permission
from ottla.wire.k29_describe_acls import DESCRIBE_ACLS, DescribeAclsRequest
from ottla.wire.k30_create_acls import CREATE_ACLS, CreateAclsRequest
from ottla.wire.k31_delete_acls import DELETE_ACLS, DeleteAclsRequest
from ottla.wire.needs import Operation, Resource
from tests.broker.authorization.ruled import ANYTHING, Ruled, creation, flat, of_filter, rule, told

TOPIC, GROUP, CLUSTER = Resource.TOPIC, Resource.GROUP, Resource.CLUSTER
READ, WRITE = Operation.READ, Operation.WRITE
PREFIXED = PatternType.PREFIXED
DENIED = ClusterAuthorizationFailed.code

ALICE = rule("alice", READ, TOPIC, "orders")
BOB = rule("bob", WRITE, TOPIC, "orders", Permission.DENY, host="10.0.0.1")
PREFIX = rule("alice", READ, TOPIC, "or", kind=PREFIXED)
EVERY = rule("carol", Operation.ALL, TOPIC, "*")
OF_GROUP = rule("alice", READ, GROUP, "orders")
RULES = (ALICE, BOB, PREFIX, EVERY, OF_GROUP)


@pytest.fixture(autouse=True)
def empty(ruled: Ruled) -> Iterator[None]:
    """Every test begins without rules."""
    yield
    ruled.ask(None, DELETE_ACLS, DeleteAclsRequest([_anything()]))
    assert ruled.found(ANYTHING) == set()


def _anything() -> object:
    found = of_filter(ALICE)
    found.resource_type_filter = found.pattern_type_filter = found.operation = found.permission_type = 1
    found.resource_name_filter = found.principal_filter = found.host_filter = None
    return found


def seen(*rules: Binding) -> set[tuple[object, ...]]:
    return {flat(one) for one in rules}


def test_rules_are_made_and_found(ruled: Ruled) -> None:
    assert ruled.create(*RULES, ALICE) == [0] * 6
    assert ruled.found(ANYTHING) == seen(*RULES)
    for found, changes in (
        ((ALICE, BOB, PREFIX, EVERY), {"resource_type_filter": TOPIC}),
        ((ALICE, BOB, OF_GROUP), {"resource_name_filter": "orders"}),
        ((ALICE, BOB, PREFIX, EVERY, OF_GROUP), {"resource_name_filter": "orders", "pattern_type_filter": 2}),
        ((PREFIX, EVERY), {"resource_name_filter": "orb", "pattern_type_filter": 2, "resource_type_filter": 2}),
        ((PREFIX,), {"pattern_type_filter": PREFIXED}),
        ((BOB,), {"host_filter": "10.0.0.1"}),
        ((ALICE, PREFIX, OF_GROUP), {"principal_filter": "User:alice"}),
        ((EVERY,), {"operation": Operation.ALL}),
        ((BOB,), {"permission_type": Permission.DENY}),
        ((), {"operation": Operation.DESCRIBE}),
        ((), {"operation": 99}),
    ):
        asked: DescribeAclsRequest = msgspec.structs.replace(ANYTHING, **changes)
        assert ruled.found(asked) == seen(*found), changes


def test_rules_are_deleted_by_filters(ruled: Ruled) -> None:
    ruled.create(*RULES)
    absent = rule("nobody", READ, TOPIC, "orders")
    assert ruled.delete(ALICE, absent, ALICE) == [(0, [0]), (0, []), (0, [])]
    assert ruled.found(ANYTHING) == seen(BOB, PREFIX, EVERY, OF_GROUP)
    match = of_filter(BOB)
    match.pattern_type_filter = PatternType.MATCH
    match.principal_filter = match.host_filter = None
    match.operation = match.permission_type = 1
    answer = ruled.ask(None, DELETE_ACLS, DeleteAclsRequest([match]))
    (row,) = answer.filter_results
    assert {told(one) for one in row.matching_acls} == seen(BOB, PREFIX, EVERY)
    assert ruled.found(ANYTHING) == seen(OF_GROUP)


def test_rules_that_cannot_be(ruled: Ruled) -> None:
    wrong = (
        rule("alice", READ, CLUSTER, "another-cluster"),
        rule("alice", READ, TOPIC, ""),
    )
    assert ruled.create(*wrong, ALICE) == [InvalidRequest.code] * 2 + [0]
    assert ruled.found(ANYTHING) == seen(ALICE)


@pytest.mark.parametrize(
    "wrong",
    [
        rule("alice", Operation.UNKNOWN, TOPIC, "orders"),
        rule("alice", READ, Resource.UNKNOWN, "orders"),
        rule("alice", READ, TOPIC, "orders", Permission.UNKNOWN),
        rule("alice", READ, TOPIC, "orders", kind=PatternType.UNKNOWN),
    ],
)
def test_numbers_that_nobody_knows(ruled: Ruled, wrong: Binding) -> None:
    with pytest.raises(ConnectionLost):
        ruled.create(ALICE, wrong)
    assert ruled.found(ANYTHING) == set()


@pytest.mark.parametrize(
    "wrong",
    [
        rule("alice", READ, Resource.ANY, "orders"),
        rule("alice", Operation.ANY, TOPIC, "orders"),
        rule("alice", READ, TOPIC, "orders", Permission.ANY),
        rule("alice", READ, TOPIC, "orders", kind=PatternType.MATCH),
        rule("alice", READ, TOPIC, "orders", kind=PatternType.ANY),
    ],
)
def test_filters_are_no_rules(ruled: Ruled, wrong: Binding) -> None:
    """The whole request fails."""
    assert ruled.create(ALICE, wrong) == [UnknownServerError.code] * 2


def test_principals_without_a_type(ruled: Ruled) -> None:
    nobody, other = creation(ALICE), creation(OF_GROUP)
    nobody.principal = "alice"
    answer = ruled.ask(None, CREATE_ACLS, CreateAclsRequest([nobody, creation(BOB), other]))
    # All rules of the pattern fail.
    assert [row.error_code for row in answer.results] == [-1, -1, 0]
    assert ruled.found(ANYTHING) == seen(OF_GROUP)


def test_names_that_are_no_nodes(ruled: Ruled) -> None:
    assert ruled.create(rule("alice", READ, GROUP, "a/b"), OF_GROUP) == [UnknownServerError.code, 0]
    assert ruled.delete(rule("alice", READ, GROUP, "a/b")) == [(0, [])]


def test_version_0_knows_literal_rules(ruled: Ruled) -> None:
    answer = ruled.ask(None, CREATE_ACLS, CreateAclsRequest([creation(ALICE)]), 0)
    assert [row.error_code for row in answer.results] == [0]
    assert ruled.found(ANYTHING) == seen(ALICE)


def test_who_may(ruled: Ruled) -> None:
    describer = rule("describer", Operation.DESCRIBE, CLUSTER, "kafka-cluster")
    alterer = rule("alterer", Operation.ALTER, CLUSTER, "kafka-cluster")
    assert ruled.create(describer, alterer) == [0, 0]
    for user, may_describe, may_alter in (
        ("alice", False, False),
        ("describer", True, False),
        ("alterer", True, True),
        ("root", True, True),
    ):
        found = ruled.found(ANYTHING, user)
        assert found == (seen(describer, alterer) if may_describe else DENIED)
        assert ruled.create(ALICE, OF_GROUP, user=user) == [0 if may_alter else DENIED] * 2
        deleted = ruled.delete(ALICE, OF_GROUP, user=user)
        assert deleted == ([(0, [0])] * 2 if may_alter else [(DENIED, [])] * 2)


def test_rules_of_the_others_hold_at_once(ruled: Ruled) -> None:
    assert ruled.found(ANYTHING, "bob") == DENIED
    given = rule("bob", Operation.DESCRIBE, CLUSTER, "kafka-cluster")
    with ruled.enter("bob") as connection:
        for is_allowed in (False, True, False):
            if is_allowed:
                ruled.create(given)
            else:
                ruled.delete(given)
            assert connection.call(DESCRIBE_ACLS, ANYTHING).error_code == (0 if is_allowed else DENIED)
