"""Brokers of one cluster inside a program, `ottla.Cluster`: replication, deaths and returns without another process."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

import ottla
from ottla.coordination import znodes
from ottla.embedded import NotRunning
from ottla.errors import InvalidReplicationFactor, UnknownTopicOrPartition
from tests.support.client import Client, batch
from tests.support.waiting import PATIENCE_S, eventually


@pytest.fixture
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(3) as made:
        yield made


def produce(broker: ottla.Broker, topic: str, *values: bytes) -> int:
    """Writes to all replicas. Returns the error."""
    with Client.connect(broker.host, broker.port, "test") as connection:
        (row,) = connection.produce(topic, batch(*values), acks=-1).responses[0].partitions
    return row.error_code


def values(broker: ottla.Broker, topic: str) -> list[bytes]:
    with broker.log(topic) as log:
        return [record.value for record in log.records() if record.value is not None]


def leader(cluster: ottla.Cluster, topic: str, than: ottla.Broker | None = None) -> ottla.Broker:
    found = eventually(f"{topic} has a leader", lambda: (now := cluster.leader(topic)) is not than and now)
    assert isinstance(found, ottla.Broker)
    return found


def test_a_leader_dies_and_comes_back(cluster: ottla.Cluster) -> None:
    cluster.create_topic("t")
    first = leader(cluster, "t")
    assert produce(first, "t", b"1") == 0
    first.kill()
    second = leader(cluster, "t", first)
    eventually("it writes", lambda: produce(second, "t", b"2") == 0)
    first.start()
    eventually("all are in sync", lambda: cluster.in_sync("t") == [1, 2, 3])
    for broker in cluster:
        eventually("each has both", lambda broker=broker: values(broker, "t")[:2] == [b"1", b"2"])  # type: ignore[misc]


def test_the_controller_dies(cluster: ottla.Cluster) -> None:
    cluster.create_topic("t", 3)
    first = cluster.controller
    assert first is not None
    first.kill()
    eventually("another one controls", lambda: cluster.controller not in (None, first))
    leader(cluster, "t", first)
    first.restart()
    eventually("all are in sync", lambda: cluster.in_sync("t") == [1, 2, 3])


def test_a_group_goes_on_without_its_coordinator(cluster: ottla.Cluster) -> None:
    ck = pytest.importorskip("confluent_kafka")
    cluster.create_topic("t")
    producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    consumer = ck.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["t"])
    for number, broker in enumerate(cluster):
        producer.produce("t", str(number))
        assert producer.flush(PATIENCE_S) == 0
        (message,) = consumer.consume(1, PATIENCE_S)
        assert message.value() == str(number).encode()
        consumer.commit(message, asynchronous=False)
        broker.restart()
    consumer.close()


def test_all_stop_and_start_again(tmp_path: Path) -> None:
    with ottla.Cluster(3, data_dir=tmp_path) as cluster:
        cluster.create_topic("t")
        assert produce(leader(cluster, "t"), "t", b"1") == 0
    with cluster:
        assert values(leader(cluster, "t"), "t") == [b"1"]
        for broker in cluster:
            broker.stop()
        assert cluster.leader("t") is None or not any(broker.is_running for broker in cluster)
        with pytest.raises(NotRunning, match="start one"):
            cluster.create_topic("u")
        for broker in cluster:
            broker.start()
        eventually("it writes", lambda: produce(leader(cluster, "t"), "t", b"2") == 0)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["1", "2", "3"]


def test_a_session_outlives_a_killed_broker() -> None:
    """As in ZooKeeper. Without early removal nobody leads instead before it ends."""
    settings = {"broker.early.removal.enable": False, "zookeeper.session.timeout.ms": 60_000}
    with ottla.Cluster(2, settings) as cluster:
        cluster.create_topic("t")
        path = znodes.broker_path(2)
        tree = cluster._tree
        assert tree is not None
        before = tree._read(path)
        cluster[2].kill()
        assert tree._read(path) == before is not None
        cluster[1].stop()
        assert tree._read(znodes.broker_path(1)) is None, "it has said that it goes"


def test_a_session_ends_in_time() -> None:
    settings = {"broker.early.removal.enable": False, "zookeeper.session.timeout.ms": 300}
    with ottla.Cluster(3, settings) as cluster:
        cluster.create_topic("t")
        first = leader(cluster, "t")
        first.kill()
        leader(cluster, "t", first)


def test_clusters_know_nothing_of_each_other() -> None:
    with ottla.Cluster(1) as one, ottla.Cluster(2) as other:
        one.create_topic("t")
        other.create_topic("t", 2, {"retention.ms": 1_000_000}, replicas=2)
        assert one.in_sync("t") == [1]
        eventually("both are in sync", lambda: other.in_sync("t", 1) == [1, 2])


def test_mistakes_are_told(cluster: ottla.Cluster) -> None:
    with pytest.raises(ValueError, match="at least one broker"):
        ottla.Cluster(0)
    with pytest.raises(ValueError, match="ids from 1 on"):
        ottla.Cluster(2, {"broker.id": 7})
    with pytest.raises(RuntimeError, match="runs already"):
        cluster.start()
    with pytest.raises(RuntimeError, match="closed by its cluster"), cluster[1]:
        pass
    with pytest.raises(KeyError):
        _ = cluster[4]
    with pytest.raises(UnknownTopicOrPartition, match="there is no t-0"):
        cluster.leader("t")
    with pytest.raises(InvalidReplicationFactor):
        cluster.create_topic("t", replicas=4)
    other = ottla.Cluster(2)
    for call in (lambda: other[1], lambda: other.bootstrap_servers, lambda: other.data_dir, lambda: other.controller):
        with pytest.raises(NotRunning, match="with"):
            call()


def test_under_trio() -> None:
    async def main() -> None:
        async with ottla.Cluster(2) as cluster:
            await trio.to_thread.run_sync(cluster.create_topic, "t")

    trio.run(main)


def test_some_in_a_row_leave_nothing() -> None:
    def one() -> None:
        with ottla.Cluster(2) as cluster:
            cluster.create_topic("t")
            cluster[1].kill()

    one()
    gc.collect()
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        one()
    gc.collect()
    assert threading.active_count() <= threads
    assert len(os.listdir("/proc/self/fd")) == descriptors
