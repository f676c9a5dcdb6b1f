"""The client under asyncio: the same things as under trio, and nothing half done where a task is cancelled."""

import ast
import asyncio
from collections.abc import Collection
from pathlib import Path

import pytest

from ottla.client import EARLIEST, RebalanceListener, TopicPartition, aio_facade, aio_stub
from ottla.client.aio import RECORDS_PER_TURN, Admin, Cluster, Consumer, Producer, Receipt, TransactionalProducer
from ottla.client.facade import LEFT_OUT
from ottla.errors import InvalidGroupId, MessageTooLarge, TopicAlreadyExists
from tests.client.asyncio_runs import filled, numbers, run, taken
from tests.peers.ottla import Broker


def test_records_go_out_and_come_in(prompt_broker: Broker) -> None:
    async def main() -> None:
        async with Cluster(prompt_broker.bootstrap) as cluster:
            admin = Admin(cluster)
            await admin.create_topic("aio", 1)
            with pytest.raises(TopicAlreadyExists, match="aio"):
                await admin.create_topic("aio", 1)
            async with Producer(cluster) as producer:
                for number in range(100):
                    await producer.send("aio", b"%d" % number, headers=[("n", b"1")])
                assert (await producer.send_and_wait("aio", b"100")).offset == 100
                receipt = await producer.send_with_receipt("aio", b"101")
                assert isinstance(receipt, Receipt)
                assert (await receipt.wait()).offset == 101
                assert receipt.is_over
            assert producer.acknowledged == 102
            consumer = Consumer(cluster)
            await consumer.assign({TopicPartition("aio", 0): EARLIEST})
            assert await taken(consumer, 102) == numbers(102)
            assert await consumer.ends() == {TopicPartition("aio", 0): 102}
            assert (await admin.groups.describe("nobody")).state == "Dead"
            assert (await admin.brokers.describe()).controller == prompt_broker.id
            assert admin.brokers.cluster is cluster

    run(main)


def test_a_loop_that_is_left_goes_on_where_it_was(prompt_broker: Broker) -> None:
    here = TopicPartition("aio-left", 0)

    async def main() -> None:
        async with Cluster(prompt_broker.bootstrap) as cluster:
            await filled(cluster, "aio-left", 30)
            async with Consumer(cluster, group="aio-left", start="earliest") as consumer:
                consumer.subscribe(["aio-left"])
                assert await taken(consumer, 5) == numbers(5)
                assert await consumer.position(here) == 5
                await consumer.commit()
                assert (await consumer.committed([here]))[here].offset == 5
                assert await taken(consumer, 5) == numbers(5, 10)
                assert [record.value for record in await consumer.poll()] == numbers(10, 30)
                consumer.seek(here, 3)
                assert await taken(consumer, 4) == numbers(3, 7)
                consumer.seek(here, 20)
                assert await taken(consumer, 4) == numbers(20, 24)
                consumer.pause([here])
                assert await consumer.poll(0) == []
                consumer.resume([here])
                assert await taken(consumer, 4) == numbers(24, 28)
            assert (await Admin(cluster).groups.committed("aio-left"))[here].offset == 28

    run(main)


def test_others_have_their_turn_while_records_are_there(prompt_broker: Broker) -> None:
    async def main() -> None:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with Cluster(prompt_broker.bootstrap) as cluster:
            await filled(cluster, "aio-turns", 10 * RECORDS_PER_TURN)
            consumer = Consumer(cluster)
            await consumer.assign({TopicPartition("aio-turns", 0): EARLIEST})
            await taken(consumer, 1)
            task = asyncio.create_task(others())
            await taken(consumer, 5 * RECORDS_PER_TURN)
            task.cancel()
            assert turns >= 5

    run(main)


def test_others_have_their_turn_between_the_partitions_of_an_answer(prompt_broker: Broker) -> None:
    async def main() -> None:
        what: list[str] = []

        async def others() -> None:
            while True:
                what.append("turn")
                await asyncio.sleep(0)

        async with Cluster(prompt_broker.bootstrap) as cluster:
            await filled(cluster, "aio-parts", 9, partitions=3)
            consumer = Consumer(cluster)
            await consumer.assign({TopicPartition("aio-parts", number): 0 for number in range(3)})
            unpacked = consumer._inner._records

            def records(*arguments: object) -> None:
                what.append("unpacked")
                unpacked(*arguments)

            consumer._inner._records = records
            task = asyncio.create_task(others())
            assert len(await consumer.poll()) == 9
            task.cancel()
            first, second, third = (at for at, each in enumerate(what) if each == "unpacked")
            assert "turn" in what[first:second]
            assert "turn" in what[second:third]

    run(main)


def test_a_wait_that_is_cancelled_loses_nothing(prompt_broker: Broker) -> None:
    async def main() -> None:
        async with Cluster(prompt_broker.bootstrap) as cluster, Producer(cluster) as producer:
            await filled(cluster, "aio-waits", 3)
            async with Consumer(cluster, group="aio-waits", start="earliest", wait_ms=60_000) as consumer:
                consumer.subscribe(["aio-waits"])
                assert await taken(consumer, 3) == numbers(3)
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await taken(consumer, 1)
                task = asyncio.create_task(consumer.poll())
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await producer.send_and_wait("aio-waits", b"3")
                assert await taken(consumer, 1) == [b"3"]

    run(main)


def test_records_that_come_as_their_task_is_cancelled_are_given_next(prompt_broker: Broker) -> None:
    here = TopicPartition("aio-late", 0)

    async def main() -> None:
        async with Cluster(prompt_broker.bootstrap) as cluster:
            await filled(cluster, "aio-late", 10)
            consumer = Consumer(cluster)
            await consumer.assign({here: 0})
            polled = consumer._inner.poll

            async def poll(wait_ms: int | None = None) -> object:
                found = await polled(wait_ms)
                task.cancel()
                return found

            consumer._inner.poll = poll
            task = asyncio.create_task(consumer.poll())
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await consumer.position(here) == 0
            consumer._inner.poll = polled
            assert [record.value for record in await consumer.poll()] == numbers(10)

    run(main)


def test_a_block_that_is_cancelled_leaves_its_group_and_commits_nothing(prompt_broker: Broker) -> None:
    async def main() -> None:
        async with Cluster(prompt_broker.bootstrap) as cluster:
            await filled(cluster, "aio-cut", 3)
            inside = asyncio.Event()

            async def read() -> None:
                async with Consumer(cluster, group="aio-cut", start="earliest") as consumer:
                    consumer.subscribe(["aio-cut"])
                    async for record in consumer:
                        if record.offset == 2:
                            inside.set()

            task = asyncio.create_task(read())
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            groups = Admin(cluster).groups
            assert (await groups.describe("aio-cut")).members == ()
            assert await groups.committed("aio-cut") == {}

    run(main)


def test_the_end_of_a_consumers_block_is_carried_out_though_it_is_cancelled(prompt_broker: Broker) -> None:
    here = TopicPartition("aio-end", 0)

    async def main() -> None:
        async with Cluster(prompt_broker.bootstrap) as cluster:
            await filled(cluster, "aio-end", 3)
            inside, over = asyncio.Event(), asyncio.Event()

            async def read() -> None:
                async with Consumer(cluster, group="aio-end", start="earliest") as consumer:
                    consumer.subscribe(["aio-end"])
                    await taken(consumer, 2)
                    inside.set()
                over.set()

            task = asyncio.create_task(read())
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not over.is_set()
            groups = Admin(cluster).groups
            assert (await groups.describe("aio-end")).members == ()
            assert (await groups.committed("aio-end"))[here].offset == 2

    run(main)


def test_a_block_whose_beginning_is_cancelled_is_not_open(prompt_broker: Broker) -> None:
    async def main() -> None:
        cut = 0
        for turns in range(1, 12):
            async with Cluster(prompt_broker.bootstrap) as cluster:
                producer = TransactionalProducer(cluster, "aio-begins")
                task = asyncio.create_task(producer.__aenter__())
                for _ in range(turns):
                    await asyncio.sleep(0)
                cut += task.cancel()
                await asyncio.wait([task])
                with pytest.raises(RuntimeError, match="entered once"):
                    await producer.__aenter__()
                await producer.aclose()
        assert cut

    run(main)


class Told(RebalanceListener):
    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.what: list[str] = []

    async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        await asyncio.sleep(0)
        self.what.append("assigned")

    async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        await self.consumer.commit()
        self.what.append("revoked")

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.what.append("lost")


def test_listeners_and_callbacks_are_tasks_of_asyncio(prompt_broker: Broker) -> None:
    here = TopicPartition("aio-told", 0)

    async def main() -> None:
        async with Cluster(prompt_broker.bootstrap) as cluster:
            await filled(cluster, "aio-told", 3)
            async with Consumer(cluster, group="aio-told", start="earliest", auto_commit=False) as consumer:
                told = Told(consumer)
                consumer.subscribe(["aio-told"], told)
                assert await taken(consumer, 3) == numbers(3)
                tasks: list[object] = []
                consumer.commit_soon({here: 1}, lambda offsets, problem: tasks.append(asyncio.current_task()))
                while not tasks:
                    await consumer.poll(0)
            assert told.what == ["assigned", "revoked"]
            assert (await Admin(cluster).groups.committed("aio-told"))[here].offset == 3

    run(main)


def test_a_listener_is_cancelled_with_its_poll(prompt_broker: Broker) -> None:
    async def main() -> None:
        entered, ended = asyncio.Event(), asyncio.Event()

        class Waits(RebalanceListener):
            async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
                entered.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.set()

        async with Cluster(prompt_broker.bootstrap) as cluster:
            await filled(cluster, "aio-stuck", 1)
            async with Consumer(cluster, group="aio-stuck") as consumer:
                consumer.subscribe(["aio-stuck"], Waits())
                task = asyncio.create_task(taken(consumer, 1))
                await entered.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert ended.is_set()

    run(main)


def test_transactions(prompt_broker: Broker) -> None:
    async def fails(producer: TransactionalProducer) -> None:
        async with producer.transaction():
            await producer.send("aio-transacted", b"aborted")
            await producer.flush()
            raise ZeroDivisionError

    async def is_cut(producer: TransactionalProducer) -> None:
        async with producer.transaction():
            await producer.send("aio-transacted", b"cut")
            await producer.flush()
            await asyncio.Event().wait()

    async def main() -> None:
        async with Cluster(prompt_broker.bootstrap) as cluster:
            await Admin(cluster).create_topic("aio-transacted", 1)
            async with TransactionalProducer(cluster, "aio") as producer:
                async with producer.transaction():
                    await producer.send("aio-transacted", b"0")
                with pytest.raises(ZeroDivisionError):
                    await fails(producer)
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await is_cut(producer)
                producer.begin()
                await producer.send("aio-transacted", b"1")
                await producer.commit()
            consumer = Consumer(cluster, read_committed=True)
            await consumer.assign({TopicPartition("aio-transacted", 0): EARLIEST})
            assert await taken(consumer, 2) == numbers(2)

    run(main)


def test_errors_of_the_block_and_of_its_end(prompt_broker: Broker) -> None:
    async def fails(producer: Producer) -> None:
        async with producer:
            await producer.send("aio-ends", b"not delivered")
            raise ZeroDivisionError

    async def main() -> None:
        async with Cluster(prompt_broker.bootstrap) as cluster:
            await Admin(cluster).create_topic("aio-ends", 1, settings={"max.message.bytes": "1000"})
            with pytest.raises(ZeroDivisionError):
                await fails(Producer(cluster, linger_ms=60_000))
            with pytest.raises(MessageTooLarge, match="aio-ends-0"):
                async with Producer(cluster) as producer:
                    await producer.send("aio-ends", b"x" * 2000)
            assert await Consumer(cluster).end_offsets([TopicPartition("aio-ends", 0)]) == {
                TopicPartition("aio-ends", 0): 0
            }
            with pytest.raises(InvalidGroupId):
                Consumer(cluster).subscribe(["aio-ends"])

    run(main)


def test_each_method_has_its_signature() -> None:
    """The stub is what its program writes, and names each public method of the classes under trio."""
    written, made = (
        {each.name: ast.dump(each) for each in ast.parse(text).body if isinstance(each, ast.ClassDef)}
        for text in (Path(aio_stub.FILE).read_text(), aio_stub.render())
    )
    assert written == made, "python -m ottla.client.aio_stub writes it anew"
    for kind, ours in aio_facade.FACADES.items():
        for name in dir(kind):
            if not name.startswith("_") and name not in LEFT_OUT and callable(getattr(kind, name)):
                assert name in dir(ours)
