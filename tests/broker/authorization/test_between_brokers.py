"""Brokers that are allowed what brokers do, and nothing else."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest
import trio

from ottla.broker.authorization.snapshot import Snapshot, Standing
from ottla.broker.authorization.store import AclStore
from ottla.coordination.zookeeper import ZooKeeperTree
from ottla.wire.acls import Binding
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreateTopicsRequest
from ottla.wire.needs import Operation, Resource
from tests.broker.authorization.ruled import PLAIN, Ruled, rule, settings
from tests.peers.ottla import Brokers
from tests.peers.ports import free_port
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = [pytest.mark.java, pytest.mark.zookeeper, pytest.mark.clients]

OF_BROKERS = rule("broker", Operation.CLUSTER_ACTION, Resource.CLUSTER, "kafka-cluster")
WRITE = rule("alice", Operation.WRITE, Resource.TOPIC, "safe")


def put(zookeeper: str, *rules: Binding) -> None:
    """Makes rules before there is a broker."""

    async def make() -> None:
        async with await ZooKeeperTree.connect(zookeeper, session_timeout_ms=10_000) as tree:
            store = AclStore(tree, Snapshot(Standing()), lambda pattern: None)
            await store.load()
            for pattern, entry in rules:
                await store.alter(pattern, lambda before, entry=entry: before | {entry})

    trio.run(make)


def given(ports: tuple[int, int]) -> dict[str, object]:
    """Brokers come to each other as the user `broker`, where clients come in as well. Who comes to PLAINTEXT may do
    everything.
    """
    found = settings(*ports, users=("broker", "alice"), min_insync_replicas=2)
    name = "listener.name.sasl.plain.sasl.jaas.config"
    known = str(found[name]).removeprefix(f"{PLAIN} required")
    return {
        **found,
        name: f'{PLAIN} required username="broker" password="p"{known}',
        "inter.broker.listener.name": "SASL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "super.users": "User:ANONYMOUS",
    }


def written(ruled: Ruled) -> list[object]:
    """The errors of a record that both brokers have to have."""
    told: list[object] = []
    client: dict[str, Any] = {
        "bootstrap.servers": f"127.0.0.1:{ruled.sasl}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "p",
        "acks": "all",
    }
    producer = confluent_kafka.Producer(client)
    producer.produce("safe", b"v", on_delivery=lambda error, _: told.append(error))
    assert producer.flush(PATIENCE_S) == 0
    return told


def test_brokers_with_the_right_of_brokers(brokers: Brokers, zookeeper: str) -> None:
    put(zookeeper, OF_BROKERS, WRITE)
    ports = {number: (free_port(), free_port()) for number in (1, 2)}
    started = [
        brokers(broker_id=number, port=pair[0], zookeeper=zookeeper, settings=given(pair))
        for number, pair in ports.items()
    ]
    ruled = Ruled(*ports[1])
    eventually("both are known", lambda: len(ruled.ask(None, METADATA, MetadataRequest(topics=[])).brokers) == 2)
    controller = ruled.ask(None, METADATA, MetadataRequest(topics=[])).controller_id
    topics = [CreatableTopic("safe", 1, 2)]
    answer = Ruled(*ports[controller]).ask(None, CREATE_TOPICS, CreateTopicsRequest(topics=topics))
    assert [row.error_code for row in answer.topics] == [0]
    assert written(ruled) == [None]

    def in_sync() -> int:
        asked = MetadataRequest(topics=[MetadataRequestTopic("safe")])
        return len(ruled.ask(None, METADATA, asked).topics[0].partitions[0].isr_nodes)

    assert in_sync() == 2
    # The follower is refused from now on, and falls behind.
    ruled.delete(OF_BROKERS)
    refused = "User:broker at 127.0.0.1 may not CLUSTER_ACTION cluster kafka-cluster"
    eventually("the follower is refused", lambda: any(refused in broker.log.read_text() for broker in started))
    ruled.create(OF_BROKERS)
    eventually("both have all again", lambda: in_sync() == 2)
    assert written(ruled) == [None]
