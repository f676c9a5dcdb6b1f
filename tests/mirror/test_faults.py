"""Whatever is killed or cut, each acknowledged record arrives, in order; with exactly once none comes twice.

The mirror is a process here, and so are the brokers. Producers write all the time. The seed decides how much is written
between two faults (`OTTLA_FAULT_SEED`).
"""

import os
import random
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import trio

from ottla.client import Consumer, Producer
from ottla.kafka import TopicPartition
from tests.mirror.sides import Side, a_moment, reached
from tests.peers.apache import Apache
from tests.peers.apache import Kafka as ApacheBroker
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.peers.processes import Server
from tests.peers.proxy import CuttingProxy
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.trio, pytest.mark.judge]

FAULTS = ["the mirror", "the source", "the target", "the way to the source", "the way to the target"]
TURNS = 3
#: A broker that is killed may take long to start, and what was begun before may have to time out.
RECOVERS_S = 3 * PATIENCE_S
SETTINGS: dict[str, object] = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
}
FILE = """
clusters = A, B
A.bootstrap.servers = {A}
B.bootstrap.servers = {B}
A->B.enabled = true
B->A.enabled = {back}
topics = t
replication.factor = 1
refresh.topics.interval.seconds = 1
refresh.groups.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
exactly.once.source.support = {once}
"""


class Way(CuttingProxy):
    """Between the mirror and a cluster. It can be cut, and mended."""

    def __init__(self, port: int) -> None:
        super().__init__(port, ())
        self._to = port

    def cut(self) -> None:
        self._target = free_port()
        self._close(*self._sockets)
        self._sockets.clear()

    def mend(self) -> None:
        self._target = self._to


class Stand:
    """Two clusters of one broker each, the ways to them, and a mirror in between."""

    def __init__(self, path: Path, kafka: Apache, kinds: tuple[str, str], *, once: str, back: bool = False) -> None:
        self._kafka = kafka
        self._path = path
        self._stack = ExitStack()
        self._brokers = self._stack.enter_context(Brokers(path, settings=SETTINGS))
        self.servers: dict[str, Broker | ApacheBroker] = {}
        for alias, kind in zip("AB", kinds, strict=True):
            self.servers[alias] = self._brokers() if kind == "ottla" else kafka.broker(kind)
        self.ways = {alias: self._stack.enter_context(Way(each.port)) for alias, each in self.servers.items()}
        self._file = path / "mirror.properties"
        addresses = {alias: way.bootstrap for alias, way in self.ways.items()}
        self._file.write_text(FILE.format(**addresses, once=once, back=str(back).lower()))
        self.mirror = self._start_mirror()

    def __enter__(self) -> "Stand":
        return self

    def __exit__(self, *error: object) -> None:
        self.mirror.kill()
        self._stack.close()

    def _start_mirror(self) -> Server:
        command = [sys.executable, "-m", "ottla", "mirror", str(self._file)]
        return Server("mirror", command, self._path / "mirror.log")

    def kill_mirror(self) -> None:
        self.mirror.kill()
        self.mirror = self._start_mirror()

    def kill(self, alias: str) -> None:
        self.servers[alias].kill()

    def start(self, alias: str) -> None:
        old = self.servers[alias]
        if isinstance(old, Broker):
            self.servers[alias] = self._brokers.restart(old)
        else:
            self.servers[alias] = self._kafka.broker(old.version, port=old.port, directory=old.directory)

    async def fault(self, what: str) -> None:
        """Kills or cuts it, and begins it again. A cut lasts until the mirror has noticed."""
        if what == "the mirror":
            self.kill_mirror()
        elif what in ("the source", "the target"):
            alias = "A" if what == "the source" else "B"
            self.kill(alias)
            self.start(alias)
        else:
            way = self.ways["A" if what == "the way to the source" else "B"]
            said = len(self.mirror.output())
            way.cut()
            with trio.fail_after(PATIENCE_S):
                while len(self.mirror.output()) == said:
                    await a_moment()
            way.mend()


@contextmanager
def seeded() -> Iterator[random.Random]:
    seed = int(os.environ.get("OTTLA_FAULT_SEED") or time.time_ns() % 1_000_000)
    print(f"OTTLA_FAULT_SEED={seed}")
    yield random.Random(seed)


class Writer:
    """Writes numbers to both partitions of `t`, one after the other, until it is stopped."""

    def __init__(self, side: Side, first: int = 0) -> None:
        self._side = side
        self.next = first
        self.acknowledged: list[bytes] = []
        self._is_stopping = False
        self._ended = trio.Event()

    async def stop(self) -> None:
        """Waits until the last record is acknowledged."""
        self._is_stopping = True
        await self._ended.wait()

    async def run(self) -> None:
        async with Producer(self._side.cluster) as producer:
            while not self._is_stopping:
                value = b"%s.%d" % (self._side.alias.encode(), self.next)
                await producer.send_and_wait("t", value, partition=self.next % 2)
                self.acknowledged.append(value)
                self.next += 1
        self._ended.set()

    async def writes(self, count: int) -> None:
        """Waits until it has written so many more."""
        wanted = self.next + count
        with trio.fail_after(RECOVERS_S):
            while self.next < wanted:
                await a_moment()


async def arrived(side: Side, topic: str, last: Callable[[], bytes], partition: int) -> list[bytes]:
    """The values of a partition, once that one is among them."""
    consumer = Consumer(side.cluster, read_committed=True, wait_ms=100)
    found: list[bytes] = []
    with trio.fail_after(RECOVERS_S):
        while not await side.has(topic):
            await a_moment()
        await consumer.assign({TopicPartition(topic, partition): -2})
        seen: set[bytes] = set()
        while last() not in seen:
            found += (news := [each.value or b"" for each in await consumer.poll()])
            seen.update(news)
    return found + [each.value or b"" for each in await consumer.poll()]


@asynccontextmanager
async def written(stand: Stand) -> AsyncIterator[tuple[Side, Side, Writer]]:
    """Both clusters and somebody who writes to A. In the end all of it is looked for in B."""
    async with (
        reached("A", stand.servers["A"].bootstrap) as one,
        reached("B", stand.servers["B"].bootstrap) as two,
        trio.open_nursery() as nursery,
    ):
        await one.admin.create_topic("t", 2, 1)
        writer = Writer(one)
        nursery.start_soon(writer.run)
        yield one, two, writer
        await writer.stop()


@pytest.mark.parametrize("once", ["disabled", "enabled"])
@pytest.mark.parametrize("what", FAULTS)
async def test_what_was_acknowledged_arrives_in_order(kafka: Apache, tmp_path: Path, what: str, once: str) -> None:
    await all_of_it_arrives(kafka, tmp_path, ("ottla", "ottla"), what, once)


@pytest.mark.java
@pytest.mark.parametrize("once", ["disabled", "enabled"])
@pytest.mark.parametrize(("kinds", "what"), [(("3.9.2", "ottla"), "the source"), (("ottla", "3.9.2"), "the target")])
async def test_brokers_of_kafka_are_killed(
    kafka: Apache, tmp_path: Path, kinds: tuple[str, str], what: str, once: str
) -> None:
    await all_of_it_arrives(kafka, tmp_path, kinds, what, once)


async def all_of_it_arrives(kafka: Apache, path: Path, kinds: tuple[str, str], what: str, once: str) -> None:
    with seeded() as rng, Stand(path, kafka, kinds, once=once) as stand:
        async with written(stand) as (one, two, writer):
            for _ in range(TURNS):
                await writer.writes(rng.randrange(50, 300))
                last = writer.acknowledged[-1]
                await arrived(two, "A.t", lambda last=last: last, int(last[2:]) % 2)  # type: ignore[misc]
                await writer.writes(rng.randrange(1, 300))
                await stand.fault(what)
            await writer.writes(50)
            await writer.stop()
            ends = writer.acknowledged[-2:]
            doubles = 0
            for partition in range(2):
                (end,) = [each for each in ends if int(each[2:]) % 2 == partition]
                wanted = await arrived(one, "t", lambda end=end: end, partition)  # type: ignore[misc]
                assert [each for each in writer.acknowledged if int(each[2:]) % 2 == partition] == wanted
                got = await arrived(two, "A.t", lambda end=end: end, partition)  # type: ignore[misc]
                doubles += len(got) - len(wanted)
                if once == "enabled":
                    assert got == wanted
                else:
                    assert list(dict.fromkeys(got)) == wanted
            print(f"{what}, {once}: {len(writer.acknowledged)} records, {doubles} came twice")


class Group:
    """A group that reads in one cluster, then in the other: all that it has read, and where."""

    def __init__(self) -> None:
        self.found: list[tuple[Side, TopicPartition, int, bytes]] = []

    @property
    def values(self) -> set[bytes]:
        return {value for *_, value in self.found}

    async def read(self, side: Side, topics: list[str], wanted: set[bytes]) -> None:
        """Reads until it has had all of these, here or before, and commits that."""
        left = wanted - self.values
        async with Consumer(side.cluster, group="g", start="earliest", auto_commit=False, wait_ms=100) as consumer:
            consumer.subscribe(topics)
            with trio.fail_after(RECOVERS_S):
                while left:
                    for each in await consumer.poll():
                        value = each.value or b""
                        self.found.append((side, TopicPartition(each.topic, each.partition), each.offset, value))
                        left.discard(value)
            await consumer.commit()


async def test_producers_and_a_group_move_over_and_back(kafka: Apache, tmp_path: Path) -> None:
    """A is killed while it is written to. Everybody goes to B. A comes back, what it had left arrives, and everybody
    goes back. The group has read each acknowledged record then, and has nowhere begun from the beginning.
    """
    group = Group()
    with Stand(tmp_path, kafka, ("ottla", "ottla"), once="disabled", back=True) as stand:
        async with reached("B", stand.servers["B"].bootstrap) as two:
            await two.admin.create_topic("t", 2, 1)
            async with written(stand) as (one, _, before):
                await before.writes(500)
                await before.stop()
                await group.read(one, ["t"], set(before.acknowledged))
                # Where the group is comes over.
                with trio.fail_after(PATIENCE_S):
                    while (known := await goes_on(two)) != {"A.t": len(before.acknowledged)}:
                        assert known.get("A.t", 0) <= len(before.acknowledged)
                        await a_moment()
                last = Writer(one, before.next)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(last.run)
                    await last.writes(200)
                    stand.kill("A")
                    nursery.cancel_scope.cancel()
            over = Writer(two)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(over.run)
                await over.writes(300)
                await group.read(two, ["t", "A.t"], set(over.acknowledged))
                stand.start("A")
                await group.read(two, ["t", "A.t"], set(last.acknowledged))
                await over.writes(100)
                await over.stop()
            assert not set(before.acknowledged) & {value for side, *_, value in group.found if side is two}
            async with reached("A", stand.servers["A"].bootstrap) as home:
                back = Writer(home, last.next + 1)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(back.run)
                    await back.writes(300)
                    await back.stop()
                await group.read(home, ["t", "B.t"], {*over.acknowledged, *back.acknowledged})
                again = {value for side, *_, value in group.found if side is home} & set(before.acknowledged)
                assert not again
    assert {*before.acknowledged, *last.acknowledged, *over.acknowledged, *back.acknowledged} <= group.values


async def goes_on(side: Side) -> dict[str, int]:
    """How much of each topic the group has behind it there."""
    found: dict[str, int] = {}
    for partition, committed in (await side.admin.groups.committed("g")).items():
        found[partition.topic] = found.get(partition.topic, 0) + committed.offset
    return found
