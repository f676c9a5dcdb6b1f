"""Other people's clients and tools, with the few rights that they need."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla.wire.acls import Binding, PatternType, Permission
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreateTopicsRequest
from ottla.wire.needs import Operation, Resource
from tests.broker.authorization.ruled import ANYTHING, Ruled, flat, rule, settings
from tests.peers.apache import tool
from tests.peers.ottla import Brokers
from tests.peers.ports import free_port
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.clients
TOPIC, GROUP, TRANSACTION = Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID


@pytest.fixture
def own(brokers: Brokers) -> Ruled:
    ports = free_port(), free_port()
    brokers(port=ports[0], settings=settings(*ports, users=("alice", "bob")))
    found = Ruled(*ports)
    found.ask(None, CREATE_TOPICS, CreateTopicsRequest(topics=[CreatableTopic("orders", 1, 1)]))
    return found


def given(own: Ruled, user: str, **others: object) -> dict[str, Any]:
    return {
        "bootstrap.servers": f"127.0.0.1:{own.sasl}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": "p",
        **{name.replace("_", "."): value for name, value in others.items()},
    }


def write(own: Ruled, user: str, **others: object) -> int:
    """The error code of a record, or of the producer."""
    told: list[KafkaError | None] = []
    failed: list[KafkaError] = []
    producer = confluent_kafka.Producer({**given(own, user, **others), "error_cb": failed.append})
    try:
        if "transactional_id" in others:
            producer.init_transactions(PATIENCE_S)
            producer.begin_transaction()
        producer.produce("orders", b"v", on_delivery=lambda error, _: told.append(error))
        eventually("it is written, or refused", lambda: producer.poll(0.1) or told or failed)
        if "transactional_id" in others:
            producer.commit_transaction(PATIENCE_S)
    except KafkaException as refused:
        return int(refused.args[0].code())
    return next((int(error.code()) for error in (*failed, *told) if error is not None), 0)


def read(own: Ruled, user: str) -> bytes | int | None:
    """The value of a record, or the code of an error."""
    consumer = confluent_kafka.Consumer(given(own, user, group_id="billing", auto_offset_reset="earliest"))
    consumer.subscribe(["orders"])
    try:
        message = eventually("something comes", lambda: consumer.poll(0.1))
        error = message.error()
        if error is not None:
            return int(error.code())
        consumer.commit(message, asynchronous=False)
        return message.value()
    except KafkaException as refused:
        return int(refused.args[0].code())
    finally:
        consumer.close()


def test_librdkafka_with_rights_and_without(own: Ruled) -> None:
    assert write(own, "alice") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert read(own, "bob") == KafkaError.GROUP_AUTHORIZATION_FAILED
    own.create(
        rule("alice", Operation.WRITE, TOPIC, "ord", kind=PatternType.PREFIXED),
        rule("bob", Operation.READ, GROUP, "billing"),
    )
    assert write(own, "alice") == 0
    assert write(own, "bob") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert read(own, "bob") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    own.create(rule("bob", Operation.READ, TOPIC, "*"))
    assert read(own, "bob") == b"v"
    own.create(rule("bob", Operation.READ, TOPIC, "orders", Permission.DENY))
    # DESCRIBE is implied by what is allowed, and not denied by what is denied: the Fetch is refused.
    assert read(own, "bob") == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_librdkafka_in_transactions(own: Ruled) -> None:
    own.create(rule("alice", Operation.WRITE, TOPIC, "orders"))
    assert write(own, "alice", enable_idempotence=True) == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    assert write(own, "alice", transactional_id="x") == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    own.create(
        rule("alice", Operation.WRITE, TRANSACTION, "x"),
        rule("alice", Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, "kafka-cluster"),
    )
    assert write(own, "alice", enable_idempotence=True) == 0
    assert write(own, "alice", transactional_id="x") == 0
    assert write(own, "alice", transactional_id="y") == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


ALICE = rule("alice", Operation.READ, TOPIC, "orders", host="127.0.0.1")
PREFIXED = rule("bob", Operation.ALL, GROUP, "b", Permission.DENY, PatternType.PREFIXED)


@pytest.mark.java
@pytest.mark.judge
@pytest.mark.parametrize("version", ["2.7.2", "3.9.2", "4.3.1"])
def test_kafka_acls(own: Ruled, version: str) -> None:
    server = ("--bootstrap-server", f"127.0.0.1:{own.plaintext}")
    alice = ("--allow-principal", "User:alice", "--allow-host", "127.0.0.1", "--operation", "Read", "--topic", "orders")
    bob = ("--deny-principal", "User:bob", "--operation", "All", "--group", "b", "--resource-pattern-type", "prefixed")

    def found() -> object:
        return own.found(ANYTHING)

    def seen(*rules: Binding) -> object:
        return {flat(one) for one in rules}

    tool(version, "acls", *server, "--add", *alice)
    tool(version, "acls", *server, "--add", *bob)
    assert found() == seen(ALICE, PREFIXED)
    printed = tool(version, "acls", *server, "--list")
    assert "principal=User:alice, host=127.0.0.1, operation=READ, permissionType=ALLOW" in printed
    assert "principal=User:bob, host=*, operation=ALL, permissionType=DENY" in printed
    tool(version, "acls", *server, "--remove", "--force", *bob)
    assert found() == seen(ALICE)
    tool(version, "acls", *server, "--remove", "--force", "--topic", "orders")
    assert found() == seen()


@pytest.mark.java
@pytest.mark.judge
@pytest.mark.parametrize("version", ["2.7.2", "3.9.2"])
def test_the_roles_of_kafka_acls(own: Ruled, version: str) -> None:
    """The same rules as those of `ottla acl`, by name of the tool's own options."""
    server = ("--bootstrap-server", f"127.0.0.1:{own.plaintext}")
    topics = ("--allow-principal", "User:alice", "--topic", "orders")
    producer = (*topics, "--producer", "--transactional-id", "x", "--idempotent")
    consumer = (*topics, "--consumer", "--group", "b")
    tool(version, "acls", *server, "--add", *producer)
    tool(version, "acls", *server, "--add", *consumer)
    of_topic = (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE, Operation.READ)
    wanted = [rule("alice", each, TOPIC, "orders") for each in of_topic]
    wanted += [rule("alice", each, TRANSACTION, "x") for each in (Operation.WRITE, Operation.DESCRIBE)]
    wanted += [rule("alice", Operation.READ, GROUP, "b")]
    wanted += [rule("alice", Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, "kafka-cluster")]
    assert own.found(ANYTHING) == {flat(one) for one in wanted}
    printed = tool(version, "acls", *server, "--list", "--principal", "User:alice", "--topic", "orders")
    assert printed.count("principal=User:alice, host=*") == len(of_topic)
    tool(version, "acls", *server, "--remove", "--force", *consumer)
    left = {flat(one) for one in wanted if one.entry.operation is not Operation.READ}
    left.remove(flat(rule("alice", Operation.DESCRIBE, TOPIC, "orders")))
    assert own.found(ANYTHING) == left
    tool(version, "acls", *server, "--add", *topics, "--operation", "Describe")
    tool(version, "acls", *server, "--remove", "--force", *producer)
    assert own.found(ANYTHING) == set()
