"""Clusters to mirror between, and mirrors that run in the test's own process."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import trio

from ottla.broker.broker import Broker
from ottla.client import EARLIEST, Admin, Cluster, Consumer, Record
from ottla.config import BrokerConfig
from ottla.kafka import TopicPartition
from ottla.mirror.config import read
from ottla.mirror.daemon import Mirror
from ottla.mirror.figures import Figures
from tests.support.waiting import PATIENCE_S

#: What most tests copy.
T = TopicPartition("t", 0)
ONCE = pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
#: Between two questions to processes, which need the processor more than who asks.
MOMENT_S = 0.02


async def a_moment() -> None:
    """Waits until it is time to ask again."""
    with trio.move_on_after(MOMENT_S):
        await trio.Event().wait()


class Side(NamedTuple):
    """A cluster of one broker."""

    alias: str
    bootstrap: str
    cluster: Cluster
    admin: Admin

    async def records(self, topic: str, count: int, partition: int = 0, *, committed: bool = True) -> list[Record]:
        """The first records of a partition, waited for, and what else is there then."""
        consumer = Consumer(self.cluster, read_committed=committed, wait_ms=100)
        found: list[Record] = []
        with trio.fail_after(PATIENCE_S):
            while not await self.has(topic):
                await a_moment()
            await consumer.assign({TopicPartition(topic, partition): EARLIEST})
            while len(found) < count:
                found += await consumer.poll()
        return found + await consumer.poll()

    async def has(self, topic: str) -> bool:
        return topic in await self.admin.list_topics()


@asynccontextmanager
async def side(alias: str, path: Path, port: int = 0) -> AsyncIterator[Side]:
    settings = {
        "log.dirs": str(path / alias),
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "group.initial.rebalance.delay.ms": "0",
        # Records are of 2023, and settings of retention are among what is copied.
        "log.retention.check.interval.ms": "86400000",
    }
    config = BrokerConfig(settings)
    async with (
        Broker.start(config) as broker,
        reached(alias, f"127.0.0.1:{broker.addresses.listening[0].port}") as found,
    ):
        yield found


@asynccontextmanager
async def reached(alias: str, bootstrap: str) -> AsyncIterator[Side]:
    """A cluster that runs already."""
    async with Cluster(bootstrap) as cluster:
        yield Side(alias, bootstrap, cluster, Admin(cluster))


@asynccontextmanager
async def sides(path: Path) -> AsyncIterator[tuple[Side, Side]]:
    async with side("A", path) as one, side("B", path) as two:
        yield one, two


def mirror(*both: Side, flows: str = "A->B", **settings: str) -> Mirror:
    given = {
        "clusters": ", ".join(each.alias for each in both),
        "replication.factor": "1",
        "refresh.topics.interval.seconds": "1",
        "topics": "t.*",
        **{f"{each.alias}.bootstrap.servers": each.bootstrap for each in both},
        **{f"{flow}.enabled": "true" for flow in flows.split(", ")},
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    return Mirror(read(given, "a test"))


@asynccontextmanager
async def running(*mirrors: Mirror) -> AsyncIterator[None]:
    """Mirrors that are stopped at the end."""
    async with trio.open_nursery() as nursery:
        for each in mirrors:
            await nursery.start(each.run)
        yield
        for each in mirrors:
            await each.stop()


async def holds(condition: Callable[[], bool]) -> None:
    with trio.fail_after(PATIENCE_S):
        while not condition():
            await trio.lowlevel.checkpoint()


def done(figures: Figures, offset: int) -> bool:
    """True when `T` is copied up to this offset."""
    return figures.positions.get(T, 0) >= offset
