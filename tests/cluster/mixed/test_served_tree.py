"""Apache Kafka's brokers in a cluster of `ottla cluster start`, whose tree is Ottla's by ZooKeeper's protocol."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition, admin

from ottla.local_cluster import running
from ottla.local_cluster.ports import is_free
from ottla.local_cluster.processes import send
from ottla.local_cluster.state import LocalCluster, existing
from tests.peers.apache import Apache
from tests.peers.ports import free_port
from tests.peers.skips import module
from tests.support.waiting import PATIENCE_S, eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
TOPIC, PARTITIONS, KAFKA = "shared", 4, 3
#: Three replicas, of which one is enough: each broker is alone for a while.
SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "1",
    "zookeeper.session.timeout.ms": "4000",
    "auto.leader.rebalance.enable": "false",
}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    """Two brokers of Ottla's."""
    monkeypatch.setattr(running, "ZOOKEEPER_PORT", free_port())  # another test may take the usual one
    folder = tmp_path / "cluster"
    try:
        while True:
            port = free_port()
            if is_free(port + 1):
                break
        yield running.start(folder, count=2, port=port, settings=SETTINGS)
    finally:
        running.stop(folder, kill=True)


class View:
    """The cluster as a client sees it."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = admin.AdminClient({"bootstrap.servers": bootstrap})
        # One for all: no broker gives out an id while the tree is away.
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})

    def brokers(self) -> set[int]:
        return set(self.admin.list_topics(timeout=PATIENCE_S).brokers)

    def controller(self) -> int:
        found: int = self.admin.list_topics(timeout=PATIENCE_S).controller_id
        return found

    def in_sync(self) -> list[set[int]]:
        partitions = self.admin.list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC].partitions
        return [set(one.isrs) for one in partitions.values()]

    def leaders(self) -> set[int]:
        partitions = self.admin.list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC].partitions
        return {one.leader for one in partitions.values()}

    def writes(self, numbers: range) -> None:
        failed: list[object] = []
        for number in numbers:
            self._producer.produce(
                TOPIC,
                str(number).encode(),
                partition=number % PARTITIONS,
                on_delivery=lambda error, _: error and failed.append(error),
            )
        assert self._producer.flush(PATIENCE_S) == 0
        assert failed == []

    def reads(self, count: int) -> list[int]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
        found: list[int] = []
        eventually("all are read", lambda: found.extend(_values(consumer)) or len(found) >= count)  # type: ignore[func-returns-value]
        consumer.close()
        return sorted(found)


def _values(consumer: Consumer) -> list[int]:
    messages = consumer.consume(1000, 0.5)
    return [int(message.value()) for message in messages if message.error() is None]


@pytest.mark.parametrize("version", ["2.7.2", pytest.param("3.9.2", marks=pytest.mark.judge)])
def test_a_broker_of_kafka_is_a_member(cluster: LocalCluster, kafka: Apache, version: str) -> None:
    """It joins, leads and controls; so do Ottla's beside it, and all of them when the tree was killed and is back."""
    settings = {**SETTINGS, "inter.broker.protocol.version": "2.7"}
    member = kafka.broker(version, zookeeper=cluster.zookeeper, broker_id=KAFKA, settings=settings)
    view = View(f"{cluster.bootstrap},{member.bootstrap}")
    eventually("it is known", lambda: view.brokers() == {1, 2, KAFKA})
    view.admin.create_topics([admin.NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(PATIENCE_S)
    eventually("all are in sync", lambda: view.in_sync() == [{1, 2, KAFKA}] * PARTITIONS)
    view.writes(range(100))

    running.stop(cluster.directory, (1, 2), kill=True)
    eventually("Kafka controls", lambda: view.controller() == KAFKA)
    eventually("Kafka leads all", lambda: view.leaders() == {KAFKA})
    view.writes(range(100, 200))
    running.start(cluster.directory)
    eventually("all are in sync again", lambda: view.in_sync() == [{1, 2, KAFKA}] * PARTITIONS)

    own = existing(cluster.directory).own_zookeeper
    assert own is not None
    assert own.process is not None
    send(own.process, signal.SIGKILL)
    eventually("the tree is gone", lambda: not own.runs)
    view.writes(range(200, 300))
    running.start(cluster.directory)
    eventually("it is known again", lambda: view.brokers() == {1, 2, KAFKA})

    member.kill()
    eventually("Ottla controls", lambda: view.controller() in {1, 2})
    eventually("Ottla leads all", lambda: view.leaders() <= {1, 2})
    view.writes(range(300, 400))
    assert view.reads(400) == [*range(400)]
