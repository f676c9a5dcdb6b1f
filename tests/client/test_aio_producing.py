"""The producers under asyncio: records are taken without a switch of loops where that needs no waiting."""

import asyncio

import pytest

from ottla.client import EARLIEST, TopicPartition
from ottla.client.aio import RECORDS_PER_TURN, Admin, Cluster, Consumer, Producer, TransactionalProducer
from ottla.errors import InvalidTxnState, MessageTooLarge
from tests.client.asyncio_runs import numbers, run, taken
from tests.peers.ottla import Broker


async def read(cluster: Cluster, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer(cluster)
    await consumer.assign({TopicPartition(topic, 0): EARLIEST})
    found = await taken(consumer, count)
    assert await consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): count}
    return found


def test_records_wait_for_room_and_keep_their_order(prompt_broker: Broker) -> None:
    async def main() -> None:
        async with Cluster(prompt_broker.bootstrap) as cluster:
            await Admin(cluster).create_topic("aio-order", 1)
            async with Producer(cluster, memory_bytes=4096, batch_bytes=1024) as producer:
                for number in range(3000):
                    await producer.send("aio-order", b"%d" % number)
                assert producer.acknowledged > 2000
            assert await read(cluster, "aio-order", 3000) == numbers(3000)

    run(main)


def test_many_tasks_share_a_producer(prompt_broker: Broker) -> None:
    async def main() -> None:
        async with Cluster(prompt_broker.bootstrap) as cluster, Producer(cluster) as producer:
            await Admin(cluster).create_topic("aio-tasks", 1)

            async def send(name: int) -> list[int]:
                return [(await producer.send_and_wait("aio-tasks", b"%d" % name)).offset for _ in range(10)]

            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(send(name)) for name in range(20)]
            found = await read(cluster, "aio-tasks", 200)
            for name, task in enumerate(tasks):
                assert [offset for offset, value in enumerate(found) if value == b"%d" % name] == task.result()

    run(main)


@pytest.mark.parametrize("method", ["send", "send_with_receipt"])
def test_others_have_their_turn_while_there_is_room(prompt_broker: Broker, method: str) -> None:
    topic = f"aio-room-{method}"

    async def main() -> None:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with Cluster(prompt_broker.bootstrap) as cluster, Producer(cluster) as producer:
            await producer.send_and_wait(topic, b"first")
            task = asyncio.create_task(others())
            for _ in range(5 * RECORDS_PER_TURN):
                await getattr(producer, method)(topic, b"next")
            task.cancel()
            assert turns >= 5

    run(main)


def test_a_producer_takes_records_in_its_block(prompt_broker: Broker) -> None:
    async def main() -> None:
        async with Cluster(prompt_broker.bootstrap) as cluster:
            producer = Producer(cluster)
            with pytest.raises(RuntimeError, match="in its block"):
                await producer.send("aio-block", b"before")
            async with producer:
                await producer.send("aio-block", b"0", partition=0)
            for call in (producer.send, producer.send_with_receipt, producer.send_and_wait):
                with pytest.raises(RuntimeError, match="in its block"):
                    await call("aio-block", b"after")
            assert await read(cluster, "aio-block", 1) == [b"0"]

    run(main)


def test_what_a_transaction_does_not_cover_is_refused(prompt_broker: Broker) -> None:
    async def main() -> None:
        async with Cluster(prompt_broker.bootstrap) as cluster, TransactionalProducer(cluster, "aio-no") as producer:
            async with producer.transaction():
                await producer.send_and_wait("aio-no", b"0", partition=0)
            for call in (producer.send, producer.send_with_receipt, producer.send_and_wait):
                with pytest.raises(InvalidTxnState):
                    await call("aio-no", b"1", partition=0)

    run(main)


def test_a_failed_batch_is_told_to_the_next_call(prompt_broker: Broker) -> None:
    async def main() -> None:
        async with Cluster(prompt_broker.bootstrap) as cluster, Producer(cluster) as producer:
            await Admin(cluster).create_topic("aio-large", 1, settings={"max.message.bytes": "1000"})
            await producer.send("aio-large", b"x" * 2000)
            with pytest.raises(MessageTooLarge):
                await producer.flush()
            receipt = await producer.send_with_receipt("aio-large", b"x" * 2000)
            with pytest.raises(MessageTooLarge):
                await receipt.wait()
            assert (await producer.send_and_wait("aio-large", b"0")).offset == 0

    run(main)
