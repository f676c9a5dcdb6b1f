"""A batch that cannot be opened, though its checksum is right: what is around it is given, and nothing goes past it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import crc32c
import pytest
import trio

from ottla._core import LogDirectory
from ottla.client import EARLIEST, Cluster, Consumer, Record, TopicPartition
from ottla.errors import CorruptMessage
from ottla.log import LogConfig
from tests.peers.ottla import Broker, Brokers
from tests.support.client import batch, connect
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio
CRC, CRC_COVERS_FROM, RECORDS = 17, 21, 61
BAD, GOOD = TopicPartition("t", 0), TopicPartition("t", 1)


def unopenable(base_offset: int) -> bytes:
    """A batch of one record that cannot be unpacked."""
    made = bytearray(batch(b"lost" * 100, compression="gzip"))
    made[:8] = base_offset.to_bytes(8, "big")
    made[RECORDS:] = b"\xff" * (len(made) - RECORDS)
    made[CRC:CRC_COVERS_FROM] = crc32c.crc32c(bytes(made[CRC_COVERS_FROM:])).to_bytes(4, "big")
    return bytes(made)


def at(base_offset: int, *values: bytes) -> bytes:
    made = batch(*values)
    return base_offset.to_bytes(8, "big") + made[8:]


@pytest.fixture
def damaged(brokers: Brokers, tmp_path: Path) -> Broker:
    """Partition 0 has a batch that cannot be opened at offset 2, partition 1 is whole."""
    data = tmp_path / "data"
    broker = brokers(data=data)
    with connect(broker) as client:
        client.create("t", 2)
        for partition in range(2):
            client.produce("t", batch(b"a", b"b"), partition=partition)
        client.produce("t", batch(b"c"), partition=1)
    broker.stop()
    directory = LogDirectory.open(data)
    log = directory.load("t", 0, LogConfig().native)
    log.append_as_follower(unopenable(2), log.leader_epoch)
    log.append_as_follower(at(3, b"d"), log.leader_epoch)
    directory.close()
    return brokers(data=data)


async def given(consumer: Consumer, count: int) -> list[Record]:
    records: list[Record] = []
    with trio.fail_after(PATIENCE_S):
        while len(records) < count:
            records += await consumer.poll()
    return records


def told(records: list[Record]) -> set[tuple[int, int, bytes | None]]:
    return {(record.partition, record.offset, record.value) for record in records}


AROUND = {(0, 0, b"a"), (0, 1, b"b"), (1, 0, b"a"), (1, 1, b"b"), (1, 2, b"c")}


async def test_what_is_around_it_is_given_and_each_poll_raises_until_somebody_seeks(damaged: Broker) -> None:
    async with Cluster(damaged.bootstrap) as cluster:
        consumer = Consumer(cluster)
        await consumer.assign({BAD: EARLIEST, GOOD: EARLIEST})
        assert told(await given(consumer, 5)) == AROUND
        for _ in range(3):
            with pytest.raises(CorruptMessage, match="t-0: the batch at offset 2 cannot be read: "):
                await consumer.poll()
            assert consumer.positions == {BAD: 2, GOOD: 3}
        # The others are read on while it rests.
        consumer.pause([BAD])
        assert await consumer.poll(0) == []
        consumer.resume([BAD])
        with pytest.raises(CorruptMessage):
            await consumer.poll()
        consumer.seek(BAD, 3)
        assert told(await given(consumer, 1)) == {(0, 3, b"d")}
        assert consumer.positions == {BAD: 4, GOOD: 3}


async def test_nothing_is_committed_past_it(damaged: Broker) -> None:
    async with Cluster(damaged.bootstrap) as cluster:
        for expected in (AROUND, set[tuple[int, int, bytes | None]]()):
            async with Consumer(cluster, group="g", start="earliest") as consumer:
                consumer.subscribe(["t"])
                assert told(await given(consumer, len(expected))) == expected
                with pytest.raises(CorruptMessage):
                    await given(consumer, 1)
            async with Consumer(cluster, group="g") as other:
                assert {each: found.offset for each, found in (await other.committed([BAD, GOOD])).items()} == {
                    BAD: 2,
                    GOOD: 3,
                }


async def test_arrow_batches_around_it_are_given_first(damaged: Broker) -> None:
    pytest.importorskip("pyarrow")
    async with Cluster(damaged.bootstrap) as cluster:
        consumer = Consumer(cluster)
        await consumer.assign({BAD: EARLIEST, GOOD: EARLIEST})
        batches = consumer.batches(["offset"])
        rows: Counter[TopicPartition] = Counter()
        while rows.total() < 5:
            found = await anext(batches)
            rows[found.partition] += found.records.num_rows
        assert rows == {BAD: 2, GOOD: 3}
        for _ in range(2):
            with pytest.raises(CorruptMessage, match="t-0: the batch at offset 2 cannot be read: "):
                await anext(batches)
            assert consumer.positions == {BAD: 2, GOOD: 3}


async def test_a_batch_that_unpacks_to_more_than_the_bound(brokers: Brokers) -> None:
    broker = brokers()
    with connect(broker) as client:
        client.create("t", 2)
        client.produce("t", batch(b"a"))
        client.produce("t", batch(b"x" * 200_000, compression="gzip"))
    async with Cluster(broker.bootstrap) as cluster:
        bounded, default = Consumer(cluster, unpacked_bytes_max=100_000), Consumer(cluster)
        for consumer in (bounded, default):
            await consumer.assign({BAD: EARLIEST})
        assert told(await given(bounded, 1)) == {(0, 0, b"a")}
        limit = (
            "t-0: the batch at offset 1 cannot be read: .* more than the limit of 100000 bytes; .*unpacked_bytes_max"
        )
        with pytest.raises(CorruptMessage, match=limit):
            await bounded.poll()
        assert [len(record.value or b"") for record in await given(default, 2)] == [1, 200_000]
        if pytest.importorskip("pyarrow"):
            bounded.seek(BAD, 0)
            batches = bounded.batches(["value"])
            assert (await anext(batches)).records.num_rows == 1
            with pytest.raises(CorruptMessage, match=limit):
                await anext(batches)
