"""A broker that starts tells nobody a half of what the controller is about to tell it.

librdkafka takes a broker that is missing in Metadata for gone, and a topic for deleted.
"""

import threading
from contextlib import closing, suppress
from pathlib import Path

import trio

from ottla.broker.broker import Broker
from ottla.client.errors import ConnectionLost
from ottla.config import BrokerConfig
from ottla.errors import UnknownTopicOrPartition
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.k20_delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from ottla.wire.k60_describe_cluster import DESCRIBE_CLUSTER, DescribeClusterRequest
from tests.peers.ottla import Brokers
from tests.support.client import Client, connect
from tests.support.waiting import PATIENCE_S, eventually

TOPICS = [f"t-{number}" for number in range(20)]


def first_answers(port: int) -> tuple[MetadataResponse, list[int]]:
    """The first answers to a client that was there before the broker: its metadata, and the brokers it describes."""
    found: list[tuple[MetadataResponse, list[int]]] = []

    def answered() -> bool:
        with suppress(ConnectionLost, ConnectionError), closing(Client.connect("127.0.0.1", port, "early")) as client:
            rows = [MetadataRequestTopic(name=topic) for topic in TOPICS]
            cluster = client.call(METADATA, MetadataRequest(topics=rows, allow_auto_topic_creation=False), 8)
            described = client.call(DESCRIBE_CLUSTER, DescribeClusterRequest(), 0)
            found.append((cluster, [broker.broker_id for broker in described.brokers]))
        return bool(found)

    eventually("an answer", answered)
    return found[0]


def test_who_comes_first_after_a_kill_is_told_of_everything(brokers: Brokers) -> None:
    broker = brokers(broker_id=7)
    with connect(broker) as client:
        for topic in TOPICS:
            client.create(topic, 2)
    for _ in range(2):
        broker.kill()
        found: list[tuple[MetadataResponse, list[int]]] = []
        early = threading.Thread(target=lambda: found.append(first_answers(broker.port)), daemon=True)  # noqa: B023
        early.start()
        broker = brokers.restart(broker, broker_id=7)
        early.join(PATIENCE_S)
        ((cluster, described),) = found
        assert [each.node_id for each in cluster.brokers] == described == [7]
        assert cluster.controller_id == 7
        leaders = {(topic.name, row.leader_id) for topic in cluster.topics for row in topic.partitions}
        assert [topic.error_code for topic in cluster.topics] == [0] * len(TOPICS)
        assert leaders == {(topic, 7) for topic in TOPICS}


def test_a_topic_that_was_not_told_of_yet_is_deleted(tmp_path: Path) -> None:
    """Between the orders to lead it and the news of it: an answer "unknown" would say that it is gone."""
    config = BrokerConfig({"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"})

    def delete(port: int) -> list[int]:
        with closing(Client.connect("127.0.0.1", port, "owner")) as client:
            request = DeleteTopicsRequest(topic_names=["t", "none"], timeout_ms=60_000)
            return [row.error_code for row in client.call(DELETE_TOPICS, request).responses]

    async def main() -> None:
        async with Broker.start(config) as broker:
            (listener,) = broker.addresses.listening
            await broker.admin.create_topic("t")
            await broker.metadata.wait_until(lambda: "t" in broker.metadata.topics)
            del broker.metadata.topics["t"]
            assert await trio.to_thread.run_sync(delete, listener.port) == [0, UnknownTopicOrPartition.code]
            assert ("t", 0) not in broker.replicas.partitions

    trio.run(main)
