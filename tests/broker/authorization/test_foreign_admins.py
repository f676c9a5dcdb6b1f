"""Access rules by the administrators of other people's clients."""

from __future__ import annotations

import warnings

import pytest
from confluent_kafka import admin as librdkafka

from ottla.wire.acls import PatternType, Permission
from ottla.wire.needs import Operation, Resource
from tests.broker.authorization.ruled import ANYTHING, Ruled, flat, rule, settings
from tests.peers.ottla import Brokers
from tests.peers.ports import free_port
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture
def own(brokers: Brokers) -> Ruled:
    ports = free_port(), free_port()
    brokers(port=ports[0], settings=settings(*ports, users=("root",)))
    return Ruled(*ports)


def test_rules_by_librdkafka(own: Ruled) -> None:
    client = librdkafka.AdminClient({"bootstrap.servers": f"127.0.0.1:{own.plaintext}"})
    given = (
        librdkafka.ResourceType.TOPIC,
        "or",
        librdkafka.ResourcePatternType.PREFIXED,
        "User:alice",
        "127.0.0.1",
        librdkafka.AclOperation.READ,
        librdkafka.AclPermissionType.DENY,
    )
    binding = librdkafka.AclBinding(*given)
    for made in client.create_acls([binding]).values():
        assert made.result(PATIENCE_S) is None
    wanted = rule("alice", Operation.READ, Resource.TOPIC, "or", Permission.DENY, PatternType.PREFIXED, "127.0.0.1")
    assert own.found(ANYTHING) == {flat(wanted)}
    asked = librdkafka.AclBindingFilter(*given)
    assert client.describe_acls(asked).result(PATIENCE_S) == [binding]
    for deleted in client.delete_acls([asked]).values():
        assert deleted.result(PATIENCE_S) == [binding]
    assert own.found(ANYTHING) == set()


def test_rules_by_kafka_python(own: Ruled) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from kafka import admin
    client = admin.KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{own.plaintext}")
    pattern = admin.ResourcePattern(admin.ResourceType.GROUP, "b", admin.ACLResourcePatternType.PREFIXED)
    made = admin.ACL("User:bob", "*", admin.ACLOperation.ALL, admin.ACLPermissionType.ALLOW, pattern)
    answer = client.create_acls([made])
    assert (answer["succeeded"], answer["failed"]) == ([made], [])
    wanted = rule("bob", Operation.ALL, Resource.GROUP, "b", kind=PatternType.PREFIXED)
    assert own.found(ANYTHING) == {flat(wanted)}
    asked = admin.ACLFilter("User:bob", "*", admin.ACLOperation.ALL, admin.ACLPermissionType.ALLOW, pattern)
    assert client.describe_acls(asked)[0] == [made]
    ((_, deleted, _),) = client.delete_acls([asked])
    assert deleted == [made]
    assert own.found(ANYTHING) == set()
    client.close()
