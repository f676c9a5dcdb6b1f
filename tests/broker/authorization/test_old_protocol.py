"""Rules for prefixes, in a cluster that has brokers from before KIP-290."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.errors import InvalidRequest
from ottla.wire.acls import PatternType
from ottla.wire.needs import Operation, Resource
from tests.broker.authorization.ruled import ANYTHING, Ruled, flat, rule, settings
from tests.peers.apache import Apache
from tests.peers.ottla import Brokers
from tests.peers.ports import free_port

LITERAL = rule("alice", Operation.READ, Resource.TOPIC, "orders")
PREFIXED = rule("alice", Operation.READ, Resource.TOPIC, "or", kind=PatternType.PREFIXED)
PROTOCOL = {"inter.broker.protocol.version": "1.1", "log.message.format.version": "1.1"}


def check(broker: Ruled) -> None:
    assert broker.create(PREFIXED, LITERAL) == [InvalidRequest.code, 0]
    assert broker.found(ANYTHING) == {flat(LITERAL)}
    assert broker.delete(PREFIXED, LITERAL) == [(0, []), (0, [0])]


def test_prefixes_are_refused(brokers: Brokers) -> None:
    ports = free_port(), free_port()
    given = {**settings(*ports, users=("root",)), **PROTOCOL}
    brokers(port=ports[0], settings=given)
    check(Ruled(*ports))


@pytest.mark.java
@pytest.mark.judge
def test_kafka_refuses_them(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    given = {**settings(*ports, users=("root",)), **PROTOCOL}
    with Apache(tmp_path) as apache:
        apache.broker("2.7.2", zookeeper=apache.zookeeper("2.7.2"), port=ports[0], settings=given)
        found = Ruled(*ports)
        found.settle()
        check(found)
