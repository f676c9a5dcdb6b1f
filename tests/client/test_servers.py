"""The client against real servers: Apache Kafka 2.7.2 and our own broker."""

import pytest
import trio

from ottla.client import (
    EARLIEST,
    LATEST,
    Admin,
    At,
    BlockingConnection,
    Cluster,
    Connection,
    Consumer,
    Producer,
    Record,
    TopicPartition,
)
from ottla.errors import (
    InvalidPartitions,
    InvalidRequest,
    MessageTooLarge,
    OffsetOutOfRange,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from ottla.kafka import ACKS_ALL
from ottla.wire.k03_metadata import METADATA, MetadataRequest
from tests.peers.apache import Kafka
from tests.peers.ottla import Broker
from tests.peers.skips import module


def test_pipelined_calls(server: Kafka | Broker) -> None:
    async def main() -> None:
        async with await Connection.connect("127.0.0.1", server.port) as connection:
            ports = []

            async def call(version: int) -> None:
                answer = await connection.call(METADATA, MetadataRequest(topics=[]), version)
                ports.append(answer.brokers[0].port)

            async with trio.open_nursery() as nursery:
                for number in range(50):
                    nursery.start_soon(call, 1 + number % 9)
            assert ports == [server.port] * 50

    trio.run(main)


def test_blocking_calls(server: Kafka | Broker) -> None:
    with BlockingConnection.connect("127.0.0.1", server.port) as connection:
        assert connection.call(METADATA, MetadataRequest(topics=[])).brokers[0].port == server.port
        for _ in range(10):
            connection.send(METADATA, MetadataRequest(topics=[]))
        assert [connection.receive().brokers[0].node_id for _ in range(10)] == [server.id] * 10


def test_the_life_of_a_topic(server: Kafka | Broker) -> None:
    async def main() -> None:
        async with Cluster(server.bootstrap) as cluster:
            admin = Admin(cluster)
            await admin.create_topic("life", partitions=3, replicas=1, settings={"retention.ms": "12345"})
            with pytest.raises(TopicAlreadyExists, match="life"):
                await admin.create_topic("life", partitions=3, replicas=1)
            assert "life" in await admin.list_topics()
            (topic,) = await admin.describe_topics(["life"])
            assert [(each.number, each.leader, each.replicas) for each in topic.partitions] == [
                (n, server.id, (server.id,)) for n in range(3)
            ]
            assert await cluster.leader(TopicPartition("life", 2)) == ("127.0.0.1", server.port)

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


CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("codec", CODECS)
def test_what_is_produced_is_consumed(server: Kafka | Broker, codec: str, acks: int) -> None:
    topic = f"records-{codec}-{acks}"
    sent: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]] = [
        (
            None if number % 3 == 0 else b"key %d" % (number % 100),
            None if number % 50 == 1 else b"value %d" % number * (number % 7),
            [("one", b"1"), ("two", None)] if number % 10 == 0 else [],
            1_700_000_000_000 + number,
        )
        for number in range(10_000)
    ]

    async def main() -> None:
        async with Cluster(server.bootstrap) as cluster:
            # The records are years old, and a broker looks for such every five minutes.
            await Admin(cluster).create_topic(topic, partitions=3, replicas=1, settings={"retention.ms": "-1"})
            async with Producer(
                cluster, acks=acks, idempotent=acks == ACKS_ALL, compression=codec, batch_bytes=5000
            ) as producer:
                for key, value, headers, timestamp_ms in sent:
                    await producer.send(topic, value, key=key, headers=headers, timestamp_ms=timestamp_ms)
            assert producer.acknowledged == len(sent)
            consumer = Consumer(cluster, partition_bytes=20_000)
            await consumer.assign({TopicPartition(topic, number): EARLIEST for number in range(3)})
            got: list[Record] = []
            with trio.fail_after(60):
                while len(got) < len(sent):
                    got += await consumer.poll()
            assert sorted((each[3], each[:3]) for each in sent) == sorted(
                (each.timestamp_ms, (each.key, each.value, each.headers)) for each in got
            )
            assert len({each.partition for each in got}) == 3
            for key in {each.key for each in got} - {None}:
                assert len({each.partition for each in got if each.key == key}) == 1
            assert await consumer.ends() == consumer.positions

    trio.run(main)


def test_where_to_start(server: Kafka | Broker) -> None:
    async def main() -> None:
        async with Cluster(server.bootstrap) as cluster:
            await Admin(cluster).create_topic("starts", partitions=1, replicas=1, settings={"retention.ms": "-1"})
            here = TopicPartition("starts", 0)
            async with Producer(cluster) as producer:
                for number in range(10):
                    await producer.send("starts", b"%d" % number, timestamp_ms=1000 * number, partition=0)
            consumer = Consumer(cluster, wait_ms=100)
            for start, first in ((EARLIEST, 0), (LATEST, 10), (7, 7), (At(4500), 5), (At(99_000), 10)):
                await consumer.assign({here: start})
                assert consumer.positions == {here: first}
                assert [record.offset for record in await consumer.poll()] == list(range(first, 10))
            await consumer.assign({here: 11})
            with pytest.raises(OffsetOutOfRange, match="starts-0 at offset 11"):
                await consumer.poll()

    trio.run(main)


@pytest.mark.java
def test_aborted_transactions_are_not_seen(apache_kafka: Kafka) -> None:
    """Judged by the flag alone: the same records with and without read_committed."""
    confluent = module("clients", "confluent_kafka")
    producer = confluent.Producer(
        {"bootstrap.servers": apache_kafka.bootstrap, "transactional.id": "aborting", "linger.ms": 0}
    )

    async def values(read_committed: bool) -> list[bytes | None]:
        async with Cluster(apache_kafka.bootstrap) as cluster:
            consumer = Consumer(cluster, read_committed=read_committed, wait_ms=100)
            await consumer.assign({TopicPartition("transactions", 0): EARLIEST})
            ends = await consumer.ends()
            got: list[Record] = []
            with trio.fail_after(60):
                while consumer.positions != ends:
                    got += await consumer.poll()
            return [record.value for record in got]

    async def create() -> None:
        async with Cluster(apache_kafka.bootstrap) as cluster:
            await Admin(cluster).create_topic("transactions", partitions=1, replicas=1)

    trio.run(create)
    producer.init_transactions(30)
    for number, commit in enumerate([True, False, False, True, False]):
        producer.begin_transaction()
        for part in range(3):
            producer.produce("transactions", b"%d-%d" % (number, part))
        producer.flush()
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    committed = [b"%d-%d" % (number, part) for number in (0, 3) for part in range(3)]
    assert trio.run(values, True) == committed
    assert trio.run(values, False) == [b"%d-%d" % (number, part) for number in range(5) for part in range(3)]


def test_a_record_too_large_is_the_senders_problem(server: Kafka | Broker) -> None:
    async def main() -> None:
        async with Cluster(server.bootstrap) as cluster:
            await Admin(cluster).create_topic("small", partitions=1, replicas=1, settings={"max.message.bytes": "1000"})
            producer = Producer(cluster, linger_ms=0)
            async with producer:
                await producer.send("small", b"x" * 5000)
                with pytest.raises(MessageTooLarge, match="small-0"):
                    await producer.flush()
                await producer.send("small", b"fits")
            assert producer.acknowledged == 1

    trio.run(main)


def test_an_error_in_the_block_stays_itself(server: Kafka | Broker) -> None:
    async def main() -> None:
        async with Cluster(server.bootstrap) as cluster:
            with pytest.raises(KeyError):
                async with Producer(cluster):
                    raise KeyError

    trio.run(main)


def test_nobody_listens(free_port: int) -> None:
    async def main() -> None:
        with pytest.raises(ConnectionRefusedError, match=f"^127.0.0.1:{free_port}: Connection refused$"):
            await Connection.connect("127.0.0.1", free_port)
        async with Cluster(f"127.0.0.1:{free_port}", timeout_ms=300) as cluster:
            with pytest.raises(OSError, match=f"no broker answers at 127.0.0.1:{free_port}: Connection refused$"):
                await cluster.topic("t")

    trio.run(main)
