"""The classic consumer's fetches and its producer while a cluster changes under them: the same rows as for the clients
of `ottla.client`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest
import trio

from ottla.classic import FailedToSendMessage, KeyedMessage, Producer
from ottla.classic.config import ConsumerConfig
from ottla.classic.fetching import StreamFetcher
from ottla.classic.stream import Chunk
from ottla.client import TopicPartition
from ottla.client.cluster import parse_bootstrap
from tests.client.scripted_cluster import World, values_of
from tests.support.conversations import ROWS, Row
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio
HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World(1, 2)
    made.topic("t", 1, 2)
    async with made.serving():
        yield made


class Stream:
    """What a fetcher fills, as a list of values by partition."""

    is_full = False
    has_room: Callable[[], None]

    def __init__(self) -> None:
        self.values: dict[TopicPartition, list[bytes]] = {HERE: [], THERE: []}
        self.problems: list[Exception] = []

    def start(self, place: TopicPartition, offset: int) -> None:
        pass

    def put(self, chunk: Chunk) -> None:
        self.values[chunk.place] += values_of(bytes(chunk.data))

    def fail(self, problem: Exception) -> None:
        self.problems.append(problem)

    async def holds(self, here: list[bytes], there: list[bytes]) -> None:
        with trio.fail_after(PATIENCE_S):
            while self.values != {HERE: here, THERE: there}:
                assert not self.problems
                await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("began", [True, False], ids=["reads", "begins"])
async def test_others_are_read_on(world: World, row: Row, began: bool) -> None:
    """`began`: whether it befalls a partition that was read before."""
    config = ConsumerConfig.of({"group.id": "g", "zookeeper.connect": "none", "auto.offset.reset": "smallest"})
    world[HERE].add(b"a")
    world[THERE].add(b"b")
    stream = Stream()
    brokers = parse_bootstrap(f"127.0.0.1:{world.brokers[2].port}")
    fetcher = StreamFetcher(config, stream, brokers, lambda call: call())  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fetcher.run)
        if began:
            await fetcher.change({HERE: None, THERE: 0})
            await stream.holds([b"a"], [b"b"])
        await row.befalls(world)
        if not began:
            await fetcher.change({HERE: None, THERE: 0})
        for number, value in enumerate((b"c", b"d", b"e"), 2):
            world[THERE].add(value)
            world.change()
            with trio.fail_after(PATIENCE_S):
                while len(stream.values[THERE]) < number:
                    await trio.lowlevel.checkpoint()
        await row.ends(world)
        world[HERE].add(b"f")
        world.change()
        await stream.holds([b"a", b"f"], [b"b", b"c", b"d", b"e"])
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("name", ["no leader", "dies", "moves", "not leader", "hangs up"])
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_producers_deliver_to_others(world: World, name: str, kind: str) -> None:
    """A message for a partition without leader is the program's after `message.send.max.retries`; the others of its
    batch are delivered. A keyless message goes where there is a leader.
    """
    row = ROWS[name]
    settings: dict[str, Any] = {
        "metadata.broker.list": f"127.0.0.1:{world.brokers[2].port}",
        "request.required.acks": "-1",
        "retry.backoff.ms": "0",
        "message.send.max.retries": "2",
        "producer.type": kind,
        "queue.buffering.max.ms": "10",
        "partitioner.class": ByNumber(),
    }
    work = partial(trio.to_thread.run_sync, abandon_on_cancel=True)
    producer = await work(Producer, settings)
    with trio.fail_after(PATIENCE_S):
        await work(producer.send, [KeyedMessage("t", b"a", b"0"), KeyedMessage("t", b"b", b"1")])
        await wait_for(world, THERE, 1)
        await row.befalls(world)
        both = [KeyedMessage("t", b"late", b"0"), KeyedMessage("t", b"c", b"1")]
        if kind == "sync" and row.ends is not ROWS["moves"].ends:
            with pytest.raises(FailedToSendMessage, match="1 message not delivered after 3 attempts"):
                await work(producer.send, both)
        else:
            await work(producer.send, both)
        await wait_for(world, THERE, 2)
        await row.ends(world)
        await work(producer.send, KeyedMessage("t", b"d", b"0"))
        await work(producer.close)
    assert [value for _, value in world[THERE].records] == [b"b", b"c"]
    assert [value for _, value in world[HERE].records][-1] == b"d"


class ByNumber:
    """Partitions by keys that are their numbers."""

    def partition(self, key: bytes, count: int) -> int:
        return int(key)


async def wait_for(world: World, partition: TopicPartition, count: int) -> None:
    while len(world[partition].records) < count:
        await trio.lowlevel.checkpoint()
