"""The client against Apache Kafka 2.7.2."""

import pytest
import trio

from ottla.client import Admin, BlockingConnection, Cluster, Connection, TopicPartition
from ottla.errors import InvalidPartitions, InvalidRequest, TopicAlreadyExists, UnknownTopicOrPartition
from ottla.wire.k03_metadata import METADATA, MetadataRequest
from tests.peers.apache import Kafka

pytestmark = pytest.mark.java


def test_pipelined_calls(apache_kafka: Kafka) -> None:
    async def main() -> None:
        async with await Connection.connect("127.0.0.1", apache_kafka.port) as connection:
            ports = []

            async def call(version: int) -> None:
                answer = await connection.call(METADATA, MetadataRequest(topics=[]), version)
                ports.append(answer.brokers[0].port)

            async with trio.open_nursery() as nursery:
                for number in range(50):
                    nursery.start_soon(call, 1 + number % 9)
            assert ports == [apache_kafka.port] * 50

    trio.run(main)


def test_blocking_calls(apache_kafka: Kafka) -> None:
    with BlockingConnection.connect("127.0.0.1", apache_kafka.port) as connection:
        assert connection.call(METADATA, MetadataRequest(topics=[])).brokers[0].port == apache_kafka.port
        for _ in range(10):
            connection.send(METADATA, MetadataRequest(topics=[]))
        assert [connection.receive().brokers[0].node_id for _ in range(10)] == [1] * 10


def test_the_life_of_a_topic(apache_kafka: Kafka) -> None:
    async def main() -> None:
        async with Cluster(apache_kafka.bootstrap) as cluster:
            admin = Admin(cluster)
            await admin.create_topic("life", partitions=3, replicas=1, settings={"retention.ms": "12345"})
            with pytest.raises(TopicAlreadyExists, match="life"):
                await admin.create_topic("life", partitions=3, replicas=1)
            assert "life" in await admin.list_topics()
            (topic,) = await admin.describe_topics(["life"])
            assert [(each.number, each.leader, each.replicas) for each in topic.partitions] == [
                (n, 1, (1,)) for n in range(3)
            ]
            assert await cluster.leader(TopicPartition("life", 2)) == ("127.0.0.1", apache_kafka.port)

            await admin.create_partitions("life", 5)
            assert await cluster.partitions("life") == [0, 1, 2, 3, 4]
            with pytest.raises(InvalidPartitions):
                await admin.create_partitions("life", 5)

            await admin.alter_settings("life", {"max.message.bytes": "5000", "retention.ms": None})
            settings = {each.name: each for each in await admin.describe_settings("life")}
            assert (settings["max.message.bytes"].value, settings["max.message.bytes"].source) == ("5000", 1)
            assert settings["retention.ms"].source != 1
            with pytest.raises(InvalidRequest, match=r"max\.message\.bytes"):
                await admin.alter_settings("life", {"max.message.bytes": "many"})

            await admin.delete_topic("life")
            with pytest.raises(UnknownTopicOrPartition):
                await admin.delete_topic("never-there")
            with pytest.raises(UnknownTopicOrPartition):
                await cluster.topic("never-there")

    trio.run(main)


def test_nobody_listens(free_port: int) -> None:
    async def main() -> None:
        with pytest.raises(OSError, match=str(free_port)):
            await Connection.connect("127.0.0.1", free_port)
        async with Cluster(f"127.0.0.1:{free_port}", timeout_ms=300) as cluster:
            with pytest.raises(OSError, match=f"no broker answers at 127.0.0.1:{free_port}"):
                await cluster.topic("t")

    trio.run(main)
