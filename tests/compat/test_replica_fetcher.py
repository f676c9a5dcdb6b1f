"""Our replica fetcher beside leaders that run: Apache Kafka, which takes it for a broker in sync, and our own broker.

Kafka's controller is told of a second broker by a registration that the test makes, so that it assigns replicas to it.
Nobody listens there; the leader sees a follower that fetches, and that is all it asks of one.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from ottla._core import Fetcher, Hub, LargeAnswers, Log, LogConfig, LogDirectory, PartitionToFetch, ReplicationQuota
from ottla.wire.k19_create_topics import (
    CREATE_TOPICS,
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tests.peers.apache import Apache
from tests.support.client import Client, batch
from tests.support.kafka_on_our_disk import MIGRATION, ZOOKEEPER_MODE
from tests.support.lanes import judged_by
from tests.support.waiting import eventually

FOLLOWER = 2
PARTITIONS = 3


@contextmanager
def registered(zookeeper: str, port: int) -> Iterator[None]:
    """A broker that exists in ZooKeeper alone."""
    client = KazooClient(zookeeper)
    client.start()
    node = {
        "version": 4,
        "host": "127.0.0.1",
        "port": port,
        "jmx_port": -1,
        "timestamp": "1700000000000",
        "endpoints": [f"PLAINTEXT://127.0.0.1:{port}"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "rack": None,
    }
    client.create(f"/brokers/ids/{FOLLOWER}", json.dumps(node).encode(), ephemeral=True)
    try:
        yield
    finally:
        client.stop()
        client.close()


def create(client: Client, replicas: list[int]) -> bool:
    rows = [CreatableReplicaAssignment(partition_index=index, broker_ids=replicas) for index in range(PARTITIONS)]
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=rows)
    answer = client.call(CREATE_TOPICS, CreateTopicsRequest(topics=[topic], timeout_ms=60_000))
    return answer.topics[0].error_code in (0, 36)


@contextmanager
def following(path: Path, port: int, leader_epoch: int, **changed: Any) -> Iterator[tuple[Fetcher, list[Log]]]:
    path.mkdir()
    directory, hub = LogDirectory.open(path), Hub(supported={})
    logs = directory.create("t", list(range(PARTITIONS)), LogConfig())
    settings: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": port,
        "replica_id": FOLLOWER,
        "client_id": "broker-2-fetcher-0",
        "fetch_version": 12,
        "wait_max_ms": 100,
        "bytes_min": 1,
        "response_bytes_max": 200_000,
        "partition_bytes_max": 100_000,
        "batch_bytes_max": 1 << 20,
        "backoff_ms": 100,
        "socket_timeout_ms": 30_000,
        "receive_buffer_bytes": 65536,
        "quota": ReplicationQuota(11, 1),
        "large": LargeAnswers(1),
        "completions": hub.completions,
        "token": 1,
    }
    fetcher = Fetcher(**{**settings, **changed})
    try:
        fetcher.add([PartitionToFetch("t", index, log, leader_epoch=leader_epoch) for index, log in enumerate(logs)])
        yield fetcher, logs
    finally:
        fetcher.close()
        directory.close()


def content(log: Log) -> bytes:
    """All that is in a log of one segment."""
    found = log.read(0, 1 << 30).slice
    return b"" if found is None else found.read()


@pytest.mark.java
@pytest.mark.zookeeper
@pytest.mark.parametrize("version", judged_by(ZOOKEEPER_MODE, ZOOKEEPER_MODE[:1]))
@pytest.mark.parametrize("fetch_version", [pytest.param(11, marks=pytest.mark.judge), 12])
def test_kafka_takes_us_for_a_follower_in_sync(kafka: Apache, tmp_path: Path, version: str, fetch_version: int) -> None:
    zookeeper = kafka.zookeeper()
    settings = {"min.insync.replicas": 2, **(MIGRATION if version.startswith("3.") else {})}
    leader = kafka.broker(version, zookeeper=zookeeper, settings=settings)
    with registered(zookeeper, 1), Client.connect("127.0.0.1", leader.port, "test") as client:
        eventually("the topic", lambda: create(client, [leader.id, FOLLOWER]))
        with following(tmp_path / "follower", leader.port, 0, fetch_version=fetch_version) as (fetcher, logs):
            # acks=all with two in sync: each is answered when we have fetched behind it.
            for number in range(60):
                values = [b"%d" % number * 500 for _ in range(number % 7 + 1)]
                answer = client.produce("t", batch(*values), partition=number % PARTITIONS, acks=-1)
                assert answer.responses[0].partitions[0].error_code == 0
            for index, log in enumerate(logs):
                eventually("the high watermark", lambda log=log: log.high_watermark == log.end_offset > 0)  # type: ignore[misc]
                assert content(log) == (leader.data / f"t-{index}" / f"{0:020}.log").read_bytes()
            assert fetcher.events() == []
            assert {each.lag for each in fetcher.figures().lags} == {0}
