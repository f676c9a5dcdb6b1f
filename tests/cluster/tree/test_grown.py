"""A broker that was a cluster of its own moves its tree into ZooKeeper, and two more join it: what it had is there."""

import subprocess
import sys
from collections.abc import Mapping

import confluent_kafka as ck
import pytest
from confluent_kafka import admin

from ottla.client.blocking import BlockingConnection
from ottla.wire.k03_metadata import METADATA, MetadataRequest
from tests.peers.ottla import Broker, Brokers
from tests.peers.skips import module
from tests.support import confluent
from tests.support.waiting import PATIENCE_S, eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.zookeeper]

ALONE: Mapping[str, object] = {**confluent.SETTINGS, "auto.create.topics.enable": "false"}
MEMBER: Mapping[str, object] = {
    **ALONE,
    "default.replication.factor": 3,
    "zookeeper.session.timeout.ms": 4000,
}
READ_BEFORE = 4


def described(broker: Broker) -> tuple[str | None, list[int]]:
    """The cluster's id and its brokers, as this one knows them."""
    with BlockingConnection.connect("127.0.0.1", broker.port, "test") as connection:
        answer = connection.call(METADATA, MetadataRequest(topics=[]))
    return answer.cluster_id, sorted(row.node_id for row in answer.brokers)


def ottla(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "ottla", *arguments], check=True)


def transact(producer: ck.Producer, topic: str, *values: str) -> None:
    producer.begin_transaction()
    confluent.send(producer, topic, *values)
    producer.commit_transaction(PATIENCE_S)


def read_on(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """The next records for the group, which commits them."""
    consumer = ck.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    while len(values) < count:
        (message,) = consumer.consume(1, PATIENCE_S) or (None,)
        assert message is not None
        assert message.error() is None, message.error()
        values.append(message.value())
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


def test_what_it_had_is_there_and_others_share_what_is_new(brokers: Brokers, zookeeper: str) -> None:
    alone = brokers(broker_id=1, settings=ALONE)
    client = admin.AdminClient({"bootstrap.servers": alone.bootstrap})
    topic = admin.NewTopic("before", 3, 1, config={"retention.ms": "-1"})
    client.create_topics([topic])["before"].result(PATIENCE_S)
    old = confluent.producer(alone, "mover")
    values = [f"value-{number}" for number in range(9)]
    transact(old, "before", *values)
    seen = read_on(alone.bootstrap, "before", READ_BEFORE)
    cluster_id, ids = described(alone)
    assert ids == [1]
    alone.stop()

    ottla("tree", "export", "--data-dir", str(alone.data), "--zookeeper", zookeeper)
    first = brokers.restart(alone, broker_id=1, zookeeper=zookeeper, settings=MEMBER)
    others = [brokers(broker_id=number, zookeeper=zookeeper, settings=MEMBER) for number in (2, 3)]
    for member in (first, *others):
        eventually("all know all", lambda: described(member) == (cluster_id, [1, 2, 3]))  # noqa: B023

    # By way of another broker: records, the group's place, and the transactional id, whose former owner is fenced.
    other = others[0].bootstrap
    seen += read_on(other, "before", len(values) - READ_BEFORE)
    assert sorted(seen) == sorted(value.encode() for value in values)
    new = confluent.producer(others[0], "mover")
    with pytest.raises(ck.KafkaException) as fenced:
        transact(old, "before", "fenced")
    assert fenced.value.args[0].code() in (ck.KafkaError._FENCED, ck.KafkaError.INVALID_PRODUCER_EPOCH)

    client = admin.AdminClient({"bootstrap.servers": other})
    client.create_topics([admin.NewTopic("after", 3, 3, config={"min.insync.replicas": "2"})])["after"].result(
        PATIENCE_S
    )
    transact(new, "after", *values)

    # What was there gets as many replicas as what is new, and then the broker that had it all can go.
    old_topics = ["before", "__consumer_offsets", "__transaction_state"]
    ottla("topic", "reassign", *old_topics, "--replicas", "3", "--yes", "-b", other)
    ottla("topic", "alter", "before", "--set", "min.insync.replicas=2", "-b", other)
    first.kill()
    transact(new, "after", *values)
    transact(new, "before", *values)
    assert confluent.read(others[1], "after") == sorted(values * 2)
    assert confluent.read(others[1], "before") == sorted(values * 2)
    assert sorted(read_on(others[1].bootstrap, "before", len(values))) == sorted(value.encode() for value in values)
