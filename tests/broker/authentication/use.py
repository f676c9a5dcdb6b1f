"""A cluster in use by librdkafka, by its settings."""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka
from confluent_kafka import admin

from tests.broker.authentication.conftest import PLAIN
from tests.support.authorization_server import LOGIN as TOKENS
from tests.support.authorization_server import UNSIGNED
from tests.support.waiting import PATIENCE_S

#: The login of a broker among others, and its users.
USERS = f'{PLAIN} required username="admin" password="between" user_admin="between" user_alice="secret";'
VALUES = [str(number).encode() for number in range(300)]


SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
#: The session of every connection ends so often.
SESSION_MS = 2_000


def sasl(port: int, mechanism: str = "PLAIN", password: str = "between", **others: object) -> dict[str, object]:
    """Of a broker whose one listener has SASL, for clients and for brokers."""
    own = f"listener.name.sasl_plaintext.{mechanism.lower()}."
    if mechanism == "OAUTHBEARER":
        login = f'{TOKENS} required unsecuredLoginStringClaim_sub="admin";'
        others = {f"{own}sasl.server.callback.handler.class": UNSIGNED, **others}
    else:
        login = USERS if mechanism == "PLAIN" else f'{SCRAM} required username="admin" password="{password}";'
    return {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "sasl.enabled.mechanisms": mechanism,
        f"{own}sasl.jaas.config": login,
        "connections.max.reauth.ms": SESSION_MS,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        **{name if "." in name else name.replace("_", "."): value for name, value in others.items()},
    }


def sasl_client(port: int, mechanism: str = "PLAIN", **others: object) -> dict[str, Any]:
    """Of librdkafka."""
    if mechanism == "OAUTHBEARER":
        others = {"enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": "principal=admin", **others}
    return {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "admin",
        "sasl.password": "between",
        **{name if "." in name else name.replace("_", "."): value for name, value in others.items()},
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
