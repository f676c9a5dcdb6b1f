"""Access rules in a tree that Ottla's broker and Apache Kafka's share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.wire.acls import PatternType, Permission
from ottla.wire.needs import Operation, Resource
from tests.broker.authorization.ruled import ANYTHING, Ruled, flat, rule, settings
from tests.peers.apache import Apache
from tests.peers.ottla import Brokers
from tests.peers.ports import free_port
from tests.support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.judge]

LITERAL = rule("alice", Operation.READ, Resource.TRANSACTIONAL_ID, "a:b")
PREFIXED = rule("bob", Operation.ALL, Resource.GROUP, "bill", Permission.DENY, PatternType.PREFIXED, "10.0.0.1")
MORE = rule("carol", Operation.DESCRIBE_CONFIGS, Resource.TOPIC, "*")


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Ruled, Ruled]]:
    ports = [free_port() for _ in range(4)]
    kafka, ottla = Ruled(*ports[:2]), Ruled(*ports[2:])
    with Apache(tmp_path) as apache, Brokers(tmp_path) as brokers:
        zookeeper = apache.zookeeper("2.7.2")
        given = settings(*ports[:2], users=("root",))
        apache.broker("2.7.2", zookeeper=zookeeper, broker_id=1, port=ports[0], settings=given)
        kafka.settle()
        assert kafka.create(LITERAL) == [0]
        given = settings(*ports[2:], users=("root",))
        brokers(broker_id=2, zookeeper=zookeeper, port=ports[2], settings=given)
        yield kafka, ottla


def test_each_hears_of_the_others_rules(both: tuple[Ruled, Ruled]) -> None:
    kafka, ottla = both
    assert ottla.found(ANYTHING) == {flat(LITERAL)}
    for one, other in (both, both[::-1]):
        assert one.create(PREFIXED, MORE) == [0, 0]
        wanted = {flat(LITERAL), flat(PREFIXED), flat(MORE)}
        eventually("the rules are heard of", lambda other=other, wanted=wanted: other.found(ANYTHING) == wanted)
        # The one who was told deletes them.
        assert other.delete(PREFIXED, MORE) == [(0, [0]), (0, [0])]
        left = {flat(LITERAL)}
        eventually("they are gone", lambda one=one, left=left: one.found(ANYTHING) == left)
    assert kafka.create(PREFIXED) == ottla.create(LITERAL, MORE)[:1] == [0]
    everything = {flat(LITERAL), flat(PREFIXED), flat(MORE)}
    for one in both:
        eventually("both have all", lambda one=one: one.found(ANYTHING) == everything)
