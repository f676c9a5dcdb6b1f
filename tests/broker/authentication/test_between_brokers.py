"""Brokers that let each other in by SASL: alone, three of them, and beside Apache Kafka's."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
import trio
from confluent_kafka import admin

from ottla.client import Cluster, Security
from ottla.errors import SaslAuthenticationFailed
from tests.broker.authentication.conftest import PLAIN
from tests.peers.apache import Apache, tool
from tests.peers.ottla import Broker, Brokers
from tests.peers.processes import free_port
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.clients

SASL = {"OTTLA_SASL": "1"}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
USERS = f'{PLAIN} required username="admin" password="between" user_admin="between" user_alice="secret";'
#: The session of every connection ends so often.
SESSION_MS = 2_000
VALUES = [str(number).encode() for number in range(300)]


def settings(port: int, mechanism: str = "PLAIN", **others: object) -> dict[str, object]:
    """Of a broker whose one listener has SASL, for clients and for brokers."""
    login = USERS if mechanism == "PLAIN" else f'{SCRAM} required username="admin" password="between";'
    name = f"listener.name.sasl_plaintext.{mechanism.lower()}.sasl.jaas.config"
    return {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "sasl.enabled.mechanisms": mechanism,
        name: login,
        "connections.max.reauth.ms": SESSION_MS,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        **{name.replace("_", "."): value for name, value in others.items()},
    }


def client(port: int, mechanism: str = "PLAIN", **others: object) -> dict[str, Any]:
    return {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "admin",
        "sasl.password": "between",
        **{name.replace("_", "."): value for name, value in others.items()},
    }


def write(given: dict[str, Any], topic: str) -> None:
    failed: list[object] = []
    producer = confluent_kafka.Producer({"acks": "all", **given})
    for value in VALUES:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(PATIENCE_S) == 0
    assert failed == []


def read(given: dict[str, Any], topic: str, count: int, *, in_group: bool = False) -> list[bytes | None]:
    consumer = confluent_kafka.Consumer({"group.id": f"of-{topic}", "auto.offset.reset": "earliest", **given})
    if in_group:
        consumer.subscribe([topic])
    else:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[bytes | None] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        found += [message.value() for message in consumer.consume(count, 0.2)]
    consumer.close()
    return found


def create(given: dict[str, Any], topic: str, replicas: int) -> None:
    asks = admin.AdminClient(given)
    asks.create_topics([admin.NewTopic(topic, 1, replicas)])[topic].result(PATIENCE_S)


def brokers_known(given: dict[str, Any]) -> set[int]:
    return set(admin.AdminClient(given).list_topics(timeout=PATIENCE_S).brokers)


def state(given: dict[str, Any], topic: str) -> tuple[int, set[int]]:
    """The leader, and who is in sync."""
    partition = admin.AdminClient(given).list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions[0]
    return partition.leader, set(partition.isrs)


def test_a_broker_lets_itself_in(brokers: Brokers) -> None:
    port = free_port()
    broker = brokers(port=port, settings=settings(port), environment=SASL)
    given = client(port)
    write(given, "alone")
    assert read(given, "alone", len(VALUES), in_group=True) == VALUES
    assert "after the end of the session" not in broker.log.read_text()


@pytest.mark.java
@pytest.mark.zookeeper
def test_three_brokers(brokers: Brokers, zookeeper: str) -> None:
    """Followers come in anew before their sessions end, and another leads when a broker dies."""
    ports = {number: free_port() for number in (1, 2, 3)}
    every: dict[int, Broker] = {}
    for number, port in ports.items():
        given = settings(port, min_insync_replicas=2)
        every[number] = brokers(broker_id=number, port=port, zookeeper=zookeeper, settings=given, environment=SASL)
    given = client(ports[1])
    given["bootstrap.servers"] = ",".join(f"127.0.0.1:{port}" for port in ports.values())
    create(given, "three", 3)
    began = time.monotonic()
    written = 0
    while time.monotonic() - began < 3 * SESSION_MS / 1000 or not written:
        write(given, "three")
        written += 1
    eventually("all are in sync", lambda: state(given, "three")[1] == {1, 2, 3})
    leader, _ = state(given, "three")
    for broker in every.values():
        said = broker.log.read_text()
        assert "after the end of the session" not in said
        assert "did not say in time" not in said
    every.pop(leader).kill()
    eventually("another leads", lambda: state(given, "three")[0] in every)
    write(given, "three")
    assert read(given, "three", (written + 1) * len(VALUES)) == (written + 1) * VALUES
    for broker in every.values():
        broker.stop()


@pytest.mark.java
@pytest.mark.zookeeper
def test_a_broker_with_another_password_is_not_let_in(brokers: Brokers, zookeeper: str) -> None:
    first, second = free_port(), free_port()
    given = settings(first)
    one = brokers(broker_id=1, port=first, zookeeper=zookeeper, settings=given, environment=SASL)
    wrong = settings(second)
    name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    wrong[name] = f'{PLAIN} required username="admin" password="other" user_admin="other";'
    two = brokers(broker_id=2, port=second, zookeeper=zookeeper, settings=wrong, environment=SASL, wait=False)
    eventually(
        "the first says why",
        lambda: "authentication by PLAIN failed: wrong password of 'admin'" in two.log.read_text(),
        facts=lambda: (one.log.read_text(), two.log.read_text()),
    )
    two.kill()


@pytest.mark.java
@pytest.mark.zookeeper
@pytest.mark.judge
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_beside_apache_kafka(tmp_path: Path, mechanism: str) -> None:
    """Each leads and follows, and each is the controller."""
    (tmp_path / "ottla").mkdir()
    with Apache(tmp_path / "kafka") as apache, Brokers(tmp_path / "ottla") as brokers:
        zookeeper = apache.zookeeper()
        if mechanism != "PLAIN":
            change = f"{mechanism}=[iterations=4096,password=between]"
            names = ("--entity-type", "users", "--entity-name", "admin")
            tool("2.7.2", "configs", "--zookeeper", zookeeper, "--alter", "--add-config", change, *names)
        ports = free_port(), free_port()
        theirs = settings(ports[0], mechanism)
        apache.broker("2.7.2", zookeeper=zookeeper, port=ports[0], broker_id=1, settings=theirs, wait=False)
        own = settings(ports[1], mechanism)
        ours = brokers(broker_id=2, port=ports[1], zookeeper=zookeeper, settings=own, environment=SASL)
        given = client(ports[1], mechanism)
        eventually("both are there", lambda: brokers_known(given) == {1, 2})
        for topic in ("first", "second"):
            # The replicas of the second begin with another broker, as a rule.
            create(given, topic, 2)
            write(given, topic)
            eventually("both are in sync", lambda: state(given, topic)[1] == {1, 2})  # noqa: B023
        ours.stop()
        their = client(ports[0], mechanism)
        eventually("Kafka's leads", lambda: {state(their, topic)[0] for topic in ("first", "second")} == {1})
        for topic in ("first", "second"):
            write(their, topic)
        again = brokers(data=ours.data, broker_id=2, port=ports[1], zookeeper=zookeeper, settings=own, environment=SASL)
        for topic in ("first", "second"):
            eventually("both are in sync", lambda: state(their, topic)[1] == {1, 2})  # noqa: B023
            assert read(given, topic, 2 * len(VALUES)) == 2 * VALUES
        assert "after the end of the session" not in again.log.read_text()


def test_a_client_with_a_wrong_password_is_told(brokers: Brokers) -> None:
    port = free_port()
    brokers(port=port, settings=settings(port), environment=SASL)

    async def ask() -> None:
        login = f'{PLAIN} required username="alice" password="wrong";'
        java = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
        async with Cluster(f"127.0.0.1:{port}", security=Security.of(java)) as cluster:
            await cluster.refresh()

    with pytest.raises(SaslAuthenticationFailed, match="Invalid username or password"):
        trio.run(ask)
