"""The transactional producer against Apache Kafka 2.7.2 and our broker; confluent-kafka reads what is committed."""

import itertools
from collections.abc import Awaitable, Callable

import confluent_kafka as ck
import pytest
import trio

from ottla.client import Admin, Cluster, Prepared, TopicPartition, TransactionalProducer, end_transaction
from ottla.errors import InvalidProducerEpoch, InvalidTxnState, KafkaError, MessageTooLarge, ProducerFenced
from tests.peers.apache import Kafka
from tests.peers.ottla import Broker
from tests.support.confluent import read_until
from tests.support.waiting import PATIENCE_S

FENCED = (ProducerFenced, InvalidProducerEpoch)
_names = (f"transactional-{number}" for number in itertools.count())


def run(server: Kafka | Broker, work: Callable[[Cluster, str], Awaitable[None]]) -> str:
    """Runs `work` with a topic of three partitions, whose name it gives."""
    topic = next(_names)

    async def main() -> None:
        async with Cluster(server.bootstrap) as cluster:
            await Admin(cluster).create_topic(topic, 3)
            await work(cluster, topic)

    trio.run(main)
    return topic


def test_commit_and_abort(server: Kafka | Broker) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        async with TransactionalProducer(cluster, topic, linger_ms=0) as producer:
            for turn in range(6):
                producer.begin()
                for number in range(200):
                    await producer.send(topic, f"{turn} {number}".encode(), partition=number % 3)
                    if number % 50 == 0:
                        await producer.flush()
                if turn % 2:
                    await producer.abort()
                else:
                    await producer.commit()
            producer.begin()
            await producer.commit()  # of nothing

    topic = run(server, work)
    read_until(server, topic, [f"{turn} {number}" for turn in (0, 2, 4) for number in range(200)])


def test_an_exception_aborts(server: Kafka | Broker) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        async with TransactionalProducer(cluster, topic) as producer:

            async def fails() -> None:
                async with producer.transaction():
                    await producer.send(topic, b"sent", partition=0)
                    await producer.flush()
                    await producer.send(topic, b"taken", partition=1)
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await fails()
            async with producer.transaction():
                await producer.send(topic, b"after", partition=1)

    read_until(server, run(server, work), ["after"])


def test_a_record_that_is_refused(server: Kafka | Broker) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        async with TransactionalProducer(cluster, topic) as producer:
            producer.begin()
            await producer.send(topic, b"with it", partition=0)
            await producer.send(topic, b"x" * 2_000_000, partition=1)
            with pytest.raises(MessageTooLarge):
                await producer.commit()
            with pytest.raises(MessageTooLarge, match="can only be aborted"):
                await producer.commit()
            await producer.abort()
            async with producer.transaction():
                for partition in range(3):
                    await producer.send(topic, b"after", partition=partition)

    read_until(server, run(server, work), ["after"] * 3)


def test_a_newer_producer_fences(server: Kafka | Broker) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        async with TransactionalProducer(cluster, topic) as zombie:
            zombie.begin()
            await zombie.send(topic, b"zombie", partition=0)
            await zombie.flush()
            async with TransactionalProducer(cluster, topic) as newer:
                with pytest.raises(FENCED):
                    await zombie.commit()
                async with newer.transaction():
                    await newer.send(topic, b"newer", partition=0)
            zombie.begin()
            await zombie.send(topic, b"zombie", partition=1)
            with pytest.raises(KafkaError):
                await zombie.commit()
            with pytest.raises(FENCED):
                await zombie.abort()

    read_until(server, run(server, work), ["newer"])


def test_many_producers_and_one_decision(server: Kafka | Broker) -> None:
    """As a job does: each task prepares, and one place decides for all; its commits may be repeated."""

    async def work(cluster: Cluster, topic: str) -> None:
        async def task(number: int) -> None:
            async with TransactionalProducer(cluster, f"{topic}-{number}") as producer:
                producer.begin()
                for partition in range(3):
                    await producer.send(topic, f"{number}".encode(), partition=partition)
                prepared[number] = await producer.prepare()

        prepared: dict[int, Prepared] = {}
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(task, number)
        for number, each in prepared.items():
            await end_transaction(cluster, each, commit=number < 7)
            await end_transaction(cluster, each, commit=number < 7)
            with pytest.raises(InvalidTxnState):
                await end_transaction(cluster, each, commit=number >= 7)

    read_until(server, run(server, work), [str(number) for number in range(7) for _ in range(3)])


def test_offsets_are_part_of_it(server: Kafka | Broker) -> None:
    def committed(topic: str) -> int:
        consumer = ck.Consumer({"bootstrap.servers": server.bootstrap, "group.id": topic})
        (place,) = consumer.committed([ck.TopicPartition(topic, 1)], 30)
        consumer.close()
        return int(place.offset)

    async def work(cluster: Cluster, topic: str) -> None:
        async with TransactionalProducer(cluster, topic) as producer:
            for offset, commit in ((5, True), (9, False)):
                producer.begin()
                await producer.send(topic, b"answer", partition=0)
                await producer.send_offsets(topic, {TopicPartition(topic, 1): offset})
                await (producer.commit() if commit else producer.abort())
                # Kafka tells its groups of a transaction's end on another thread: if the next one has offsets by then,
                # it takes them for those of the one that ended.
                with trio.fail_after(PATIENCE_S):
                    while await trio.to_thread.run_sync(committed, topic) != 5:
                        await trio.lowlevel.checkpoint()

    topic = run(server, work)
    read_until(server, topic, ["answer"])
    assert committed(topic) == 5


def test_outside_of_a_transaction(server: Kafka | Broker) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        async with TransactionalProducer(cluster, topic) as producer:
            for call in (lambda: producer.send(topic, b"v"), producer.commit, producer.abort):
                with pytest.raises(InvalidTxnState):
                    await call()
            producer.begin()
            with pytest.raises(InvalidTxnState):
                producer.begin()

    run(server, work)
