"""Access rules by our client: more than one request takes, and those that are refused."""

from __future__ import annotations

import pytest

from ottla.client import acl_admin
from ottla.client.acl_admin import ALL_RULES, exactly
from ottla.client.sync import Admin, Cluster
from ottla.errors import InvalidRequest, SecurityDisabled
from ottla.wire.acls import EntryFilter, Filter, Permission
from ottla.wire.needs import Operation, Resource
from tests.broker.authorization.ruled import rule, settings
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port


@pytest.fixture
def admin(brokers: Brokers) -> Admin:
    ports = free_port(), free_port()
    return Admin(Cluster(brokers(port=ports[0], settings=settings(*ports, ("root",))).bootstrap))


def test_many_rules(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_admin, "ROWS_MAX", 3)
    rules = sorted(rule("a", Operation.READ, Resource.TOPIC, f"t{number}") for number in range(8))
    other = rule("b", Operation.WRITE, Resource.GROUP, "g", Permission.DENY, host="10.0.0.1")
    admin.acls.add([*rules, other])
    assert admin.acls.rules() == admin.acls.rules(ALL_RULES) == [*rules, other]
    assert admin.acls.rules(Filter(entry=EntryFilter(principal="User:b"))) == [other]
    assert admin.acls.remove(map(exactly, rules[1:])) == rules[1:]
    assert admin.acls.remove([exactly(rules[1])]) == []
    assert admin.acls.rules() == [rules[0], other]


def test_a_rule_that_cannot_be(admin: Admin) -> None:
    good = [rule("a", Operation.READ, Resource.TOPIC, name) for name in ("t", "u")]
    bad = rule("a", Operation.ALTER, Resource.CLUSTER, "mine")
    with pytest.raises(InvalidRequest, match="User:a may alter the cluster: The only valid name"):
        admin.acls.add([good[0], bad, good[1]])
    assert admin.acls.rules() == good


def test_without_an_authorizer(our_broker: Broker) -> None:
    acls = Admin(Cluster(our_broker.bootstrap)).acls
    with pytest.raises(SecurityDisabled):
        acls.rules()
    with pytest.raises(SecurityDisabled):
        acls.remove([ALL_RULES])
