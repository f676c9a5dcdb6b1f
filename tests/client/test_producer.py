"""The producer: receipts, what it refuses, and idempotence where answers are lost, brokers die and leaders move."""

from collections.abc import Awaitable, Callable

import pytest
import trio

from ottla.client import (
    EARLIEST,
    Admin,
    Cluster,
    ClusterAdmin,
    Consumer,
    Delivered,
    Producer,
    Receipt,
    Record,
    TopicPartition,
    TransactionalProducer,
)
from ottla.client.batches import EPOCH_MAX
from ottla.errors import InvalidTimestamp, KafkaError, MessageTooLarge, NetworkException
from ottla.wire.k03_metadata import MetadataResponsePartition, MetadataResponseTopic
from tests.peers.apache import Kafka
from tests.peers.ottla import Broker, Brokers
from tests.peers.proxy import CuttingProxy
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = pytest.mark.trio


async def read_all(cluster: Cluster, topic: str, partitions: int) -> list[list[Record]]:
    """The records of each partition."""
    found: list[list[Record]] = [[] for _ in range(partitions)]
    consumer = Consumer(cluster, wait_ms=100)
    await consumer.assign({TopicPartition(topic, number): EARLIEST for number in range(partitions)})
    ends = await consumer.ends()
    with trio.fail_after(PATIENCE_S):
        while consumer.positions != ends:
            for record in await consumer.poll():
                found[record.partition].append(record)
    return found


def first_difference(values: list[int], expected: list[int]) -> str:
    at = next((index for index, (a, b) in enumerate(zip(values, expected, strict=False)) if a != b), len(values))
    more = {value for value in values if values.count(value) > 1} if len(values) > len(expected) else set()
    lost = sorted(set(expected) - set(values))
    return f"from {at} of {len(expected)}: {values[at - 2 : at + 8]}, lost {lost[:5]}, doubled {sorted(more)[:5]}"


async def check_once_in_order(cluster: Cluster, topic: str, partitions: int, count: int) -> None:
    """Record n is in partition n % partitions, once, after those that were sent before."""
    for number, records in enumerate(await read_all(cluster, topic, partitions)):
        values, expected = [int(record.value or b"") for record in records], list(range(number, count, partitions))
        assert values == expected, f"{topic}-{number}: {first_difference(values, expected)}"
        assert [record.offset for record in records] == list(range(len(records)))


@pytest.mark.parametrize("acks", [0, 1])
async def test_idempotence_needs_all_acks(acks: int) -> None:
    cluster = Cluster("127.0.0.1:1")
    with pytest.raises(ValueError, match=f"acks={acks} needs idempotent=False"):
        Producer(cluster, acks=acks)
    assert Producer(cluster, acks=acks, idempotent=False).acks == acks
    with pytest.raises(ValueError, match="acks=2"):
        Producer(cluster, acks=2)
    with pytest.raises(ValueError, match="transactional"):
        TransactionalProducer(cluster, "t", idempotent=False)


@pytest.mark.parametrize("idempotent", [True, False])
async def test_receipts_say_where_a_record_is(server: Kafka | Broker, idempotent: bool) -> None:
    topic = f"receipts-{idempotent}"
    async with Cluster(server.bootstrap) as cluster:
        await Admin(cluster).create_topic(topic, 2)
        async with Producer(cluster, idempotent=idempotent) as producer:
            assert await producer.send_and_wait(topic, b"a", partition=1, timestamp_ms=5) == Delivered(
                TopicPartition(topic, 1), 0, 5
            )
            receipts: list[Receipt] = []
            for number in range(10):
                await producer.send(topic, b"between", partition=1)
                receipts.append(await producer.send_with_receipt(topic, b"", partition=1, timestamp_ms=number))
            assert not receipts[0].is_over
            await producer.flush()
            assert receipts[0].is_over
            got = [await receipt.wait() for receipt in receipts]
            assert [(each.offset, each.timestamp_ms) for each in got] == [(2 + 2 * i, i) for i in range(10)]


async def test_the_brokers_time_is_in_the_receipt(server: Kafka | Broker) -> None:
    async with Cluster(server.bootstrap) as cluster:
        await Admin(cluster).create_topic("stamped", 1, settings={"message.timestamp.type": "LogAppendTime"})
        async with Producer(cluster) as producer:
            delivered = await producer.send_and_wait("stamped", b"a", timestamp_ms=5)
        ((record,),) = await read_all(cluster, "stamped", 1)
        assert delivered.timestamp_ms == record.timestamp_ms > 5


async def test_without_acks_nobody_says_where(server: Kafka | Broker) -> None:
    async with Cluster(server.bootstrap) as cluster:
        await Admin(cluster).create_topic("unasked", 1)
        async with Producer(cluster, acks=0, idempotent=False) as producer:
            assert (await producer.send_and_wait("unasked", b"a")).offset == -1


async def test_an_error_is_told_by_the_receipt_or_by_flush(server: Kafka | Broker) -> None:
    async with Cluster(server.bootstrap) as cluster:
        await Admin(cluster).create_topic("told", 1, settings={"max.message.bytes": "1000"})
        async with Producer(cluster) as producer:
            receipt = await producer.send_with_receipt("told", b"x" * 2000)
            await producer.flush()
            for _ in range(2):
                with pytest.raises(MessageTooLarge, match="told-0"):
                    await receipt.wait()
            await producer.send("told", b"x" * 2000)
            with pytest.raises(MessageTooLarge, match="told-0"):
                await producer.flush()
            with pytest.raises(InvalidTimestamp):
                await producer.send("told", b"x", timestamp_ms=-2)
            # Its sequence is after those of two that were never appended.
            assert (await producer.send_and_wait("told", b"fits")).offset == 0


async def test_a_receipt_of_a_producer_that_is_closed_first(server: Kafka | Broker) -> None:
    async with Cluster(server.bootstrap) as cluster:
        await Admin(cluster).create_topic("closed", 1)
        receipts: list[Receipt] = []

        async def fails() -> None:
            async with Producer(cluster, linger_ms=60_000) as producer:
                receipts.append(await producer.send_with_receipt("closed", b"a"))
                raise KeyError

        with pytest.raises(KeyError):
            await fails()
        with pytest.raises(NetworkException, match="closed-0: the producer was closed first"):
            await receipts[0].wait()


async def test_a_refused_batch_between_others(server: Kafka | Broker) -> None:
    """Those behind it are under way already, and their sequences follow a gap: they come once, in order."""
    async with Cluster(server.bootstrap) as cluster:
        await Admin(cluster).create_topic("gap", 1, settings={"max.message.bytes": "1000"})
        async with Producer(cluster, batch_bytes=1) as producer:
            receipts = []
            for number in range(60):
                size = 2000 if number % 20 == 10 else 4
                receipts.append(await producer.send_with_receipt("gap", b"%d" % number + b" " * size))
            refused = []
            for number, receipt in enumerate(receipts):
                try:
                    await receipt.wait()
                except MessageTooLarge:
                    refused.append(number)
            assert refused == [10, 30, 50]
            assert producer.producer_epoch >= 1
        (records,) = await read_all(cluster, "gap", 1)
        assert [int(record.value or b"") for record in records] == [n for n in range(60) if n not in refused]


async def test_after_the_last_epoch_comes_another_id(server: Kafka | Broker) -> None:
    async with Cluster(server.bootstrap) as cluster:
        await Admin(cluster).create_topic("last-epoch", 1, settings={"max.message.bytes": "1000"})
        async with Producer(cluster, batch_bytes=1) as producer:
            await producer.send_and_wait("last-epoch", b"0")
            before, producer.producer_epoch = producer.producer_id, EPOCH_MAX
            await producer.send_and_wait("last-epoch", b"1")
            receipts = [await producer.send_with_receipt("last-epoch", b"x" * 2000)]
            receipts += [await producer.send_with_receipt("last-epoch", b"%d" % number) for number in (2, 3)]
            with pytest.raises(MessageTooLarge):
                await receipts[0].wait()
            assert [(await receipt.wait()).offset for receipt in receipts[1:]] == [2, 3]
            assert producer.producer_id != before
        await check_once_in_order(cluster, "last-epoch", 1, 4)


async def lose_answers(server: Kafka | Broker, topic: str) -> None:
    count, partitions = 3000, 3
    with CuttingProxy(server.port, {2, 5, 6, 11, 20, 33}) as proxy:
        async with Cluster(proxy.bootstrap) as cluster:
            await Admin(cluster).create_topic(topic, partitions)
            async with Producer(cluster, batch_bytes=500, linger_ms=1) as producer:
                receipts = [
                    await producer.send_with_receipt(topic, b"%d" % number, partition=number % partitions)
                    for number in range(count)
                ]
                await producer.flush()
            assert producer.acknowledged == count
            for number, receipt in enumerate(receipts):
                assert (await receipt.wait()).offset in (number // partitions, -1)
    assert proxy.lost >= 3, "of requests that were under way together, the answers of some were not even waited for"
    async with Cluster(server.bootstrap) as cluster:
        await check_once_in_order(cluster, topic, partitions, count)


async def test_answers_are_lost(server: Kafka | Broker) -> None:
    for turn in range(3):
        await lose_answers(server, f"lost-{turn}")


@pytest.mark.soak
async def test_answers_are_lost_again_and_again(server: Kafka | Broker) -> None:
    """What is taken while a connection ends must not pass, on the next one, what has to be sent again."""
    for turn in range(100):
        await lose_answers(server, f"lost-again-{turn}")


async def test_without_idempotence_a_lost_answer_doubles(server: Kafka | Broker) -> None:
    """What the others are for, and that this proxy does lose answers of what was appended."""
    with CuttingProxy(server.port, {1}) as proxy:
        async with Cluster(proxy.bootstrap) as cluster:
            await Admin(cluster).create_topic("doubled", 1)
            async with Producer(cluster, idempotent=False) as producer:
                await producer.send("doubled", b"0")
    async with Cluster(server.bootstrap) as cluster:
        (records,) = await read_all(cluster, "doubled", 1)
        assert [record.value for record in records] == [b"0", b"0"]


async def produce_meanwhile(
    bootstrap: str, topic: str, partitions: int, trouble: Callable[[Producer], Awaitable[None]]
) -> int:
    """Produces until `trouble` is over, and a little more. Gives how many records there are."""
    sent = 0
    is_over = False
    async with Cluster(bootstrap) as cluster, Producer(cluster, batch_bytes=2000, linger_ms=1) as producer:

        async def send() -> None:
            nonlocal sent
            rest = 1000
            while not is_over or rest > 0:
                rest -= is_over
                await producer.send(topic, b"%d" % sent, partition=sent % partitions)
                sent += 1
                if sent % 100 == 0:
                    await trio.lowlevel.checkpoint()
                # Not so far ahead that reading it all takes long.
                while not is_over and sent - producer.acknowledged > 5000:
                    await trio.lowlevel.checkpoint()

        with trio.fail_after(120):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                await comes_true("the first records", lambda: producer.acknowledged > 1000)
                await trouble(producer)
                is_over = True
            await producer.flush()
        assert producer.acknowledged == sent
    return sent


async def more(producer: Producer, records: int) -> None:
    wanted = producer.acknowledged + records
    await comes_true("more records", lambda: producer.acknowledged >= wanted)


async def test_a_broker_is_killed(brokers: Brokers) -> None:
    broker = brokers()

    async def trouble(producer: Producer) -> None:
        nonlocal broker
        for _ in range(2):
            broker.kill()
            broker = await trio.to_thread.run_sync(brokers.restart, broker)
            await more(producer, 1000)

    async with Cluster(broker.bootstrap) as cluster:
        await Admin(cluster).create_topic("killed", 3)
    count = await produce_meanwhile(broker.bootstrap, "killed", 3, trouble)
    async with Cluster(broker.bootstrap) as cluster:
        await check_once_in_order(cluster, "killed", 3, count)


@pytest.mark.java
async def test_leaders_move(brokers: Brokers, zookeeper: str) -> None:
    there = [brokers(broker_id=number, zookeeper=zookeeper) for number in (1, 2)]
    bootstrap = ",".join(broker.bootstrap for broker in there)
    async with Cluster(bootstrap) as cluster:
        await Admin(cluster).create_topic("moved", 3, 2)
        admin = ClusterAdmin(cluster)
        names = [TopicPartition("moved", number) for number in range(3)]

        async def trouble(producer: Producer) -> None:
            for turn in range(6):
                first = 1 + turn % 2
                assert not await admin.reassign(dict.fromkeys(names, (first, 3 - first)))
                with trio.fail_after(PATIENCE_S):
                    while await admin.moves():
                        await trio.lowlevel.checkpoint()
                    while set((await admin.overview()).leaders().values()) != {first}:
                        await admin.elect(names)
                await more(producer, 500)

        count = await produce_meanwhile(bootstrap, "moved", 3, trouble)
        await check_once_in_order(cluster, "moved", 3, count)


@pytest.mark.java
async def test_a_leader_dies(brokers: Brokers, zookeeper: str) -> None:
    there = [brokers(broker_id=number, zookeeper=zookeeper) for number in (1, 2)]
    bootstrap = ",".join(broker.bootstrap for broker in there)
    async with Cluster(bootstrap) as cluster:
        await Admin(cluster).create_topic("died", 2, 2)

        async def trouble(producer: Producer) -> None:
            for index in (0, 1):
                there[index].kill()
                await more(producer, 500)
                there[index] = await trio.to_thread.run_sync(
                    lambda index=index: brokers.restart(there[index], broker_id=index + 1, zookeeper=zookeeper)
                )
                with trio.fail_after(PATIENCE_S):
                    while any(len(each) < 2 for each in (await ClusterAdmin(cluster).overview()).in_sync().values()):
                        await trio.lowlevel.checkpoint()

        count = await produce_meanwhile(bootstrap, "died", 2, trouble)
        await check_once_in_order(cluster, "died", 2, count)


async def test_nobody_gives_an_id(free_port: int) -> None:
    cluster = Cluster(f"127.0.0.1:{free_port}", timeout_ms=300)
    cluster.metadata.topics["t"] = MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition()])
    async with cluster, Producer(cluster, delivery_timeout_ms=300) as producer:
        receipt = await producer.send_with_receipt("t", b"a", partition=0)
        with pytest.raises(NetworkException, match="t-0: not delivered within 300 ms"):
            await receipt.wait()
        for partition in (None, 0):
            with pytest.raises((KafkaError, OSError)):
                await producer.send("unknown", b"a", partition=partition)
