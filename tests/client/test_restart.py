"""A broker that is killed and started again in the middle of everything: nobody loses a record or reads one twice."""

import trio

from ottla.client import EARLIEST, Admin, Cluster, Consumer, Producer, Record, TopicPartition
from tests.peers.ottla import Broker, Brokers
from tests.support.waiting import comes_true

RECORDS = 20_000


def test_producing_and_consuming_across_a_restart(brokers: Brokers) -> None:
    broker = brokers()
    sent: list[bytes] = []
    got: list[Record] = []

    async def produce() -> None:
        async with Cluster(broker.bootstrap) as cluster, Producer(cluster, batch_bytes=2000, linger_ms=1) as producer:
            for number in range(RECORDS):
                await producer.send("t", b"%d" % number, partition=number % 3)
                sent.append(b"%d" % number)
                if number % 100 == 0:
                    await producer.flush()
            await producer.flush()
            assert producer.acknowledged == RECORDS

    async def consume() -> None:
        async with Cluster(broker.bootstrap) as cluster:
            consumer = Consumer(cluster, wait_ms=100)
            await consumer.assign({TopicPartition("t", number): EARLIEST for number in range(3)})
            while len({record.value for record in got}) < RECORDS:
                got.extend(await consumer.poll())

    async def restart() -> Broker:
        await comes_true("a third of the records", lambda: len(got) >= RECORDS // 3)
        broker.kill()
        return await trio.to_thread.run_sync(brokers.restart, broker)

    async def main() -> None:
        async with Cluster(broker.bootstrap) as cluster:
            await Admin(cluster).create_topic("t", 3, 1)
        with trio.fail_after(120):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(produce)
                nursery.start_soon(consume)
                nursery.start_soon(restart)

    trio.run(main)
    assert {record.value for record in got} == set(sent)
    for number in range(3):
        values = [int(record.value or b"") for record in got if record.partition == number]
        assert values == list(range(number, RECORDS, 3))


def test_a_closed_connection_is_opened_again(broker: Broker) -> None:
    async def main() -> None:
        async with Cluster(broker.bootstrap) as cluster:
            await Admin(cluster).create_topic("t", 1, 1)
            connection = await cluster.connection(await cluster.leader(TopicPartition("t", 0)))
            await connection.aclose()
            assert [topic.name for topic in await Admin(cluster).describe_topics()] == ["t"]

    trio.run(main)
