"""Brokers for the tests of groups, and members of ours that note what happens to them."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.client import Admin, Cluster, Consumer, Producer, RebalanceListener, Record
from ottla.errors import KafkaError
from ottla.kafka import TopicPartition
from tests.client.conftest import knows_itself
from tests.peers.apache import Apache, Kafka
from tests.peers.ottla import Broker, Brokers
from tests.support.waiting import PATIENCE_S

SETTINGS = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
#: A member that is quick to notice.
QUICK: dict[str, Any] = {"heartbeat_interval_ms": 100, "wait_ms": 100}
#: Kafka 2.7.2 always, the later ones in the long run.
KINDS = [
    "ottla",
    pytest.param("2.7.2", marks=pytest.mark.java),
    pytest.param("3.9.2", marks=[pytest.mark.java, pytest.mark.soak]),
    pytest.param("4.3.1", marks=[pytest.mark.java, pytest.mark.soak]),
]
_names = itertools.count()


@contextmanager
def started(kind: str, folder: Path) -> Iterator[Broker | Kafka]:
    """A broker of ours, or of a release of Kafka."""
    if kind == "ottla":
        with Brokers(folder) as brokers:
            yield brokers(settings=SETTINGS)
        return
    with Apache(folder) as apache:
        tree = apache.zookeeper() if kind.startswith("2.") else None
        broker = apache.broker(kind, zookeeper=tree, settings={**SETTINGS, "offsets.topic.replication.factor": 1})
        broker.wait_until(lambda: knows_itself(broker.port))
        yield broker


class Noting(RebalanceListener):
    """Keeps what was said, and what is owned by it."""

    def __init__(self) -> None:
        self.events: list[tuple[str, list[int]]] = []

    async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(("assigned", [each.partition for each in partitions]))

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(("revoked", [each.partition for each in partitions]))

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(("lost", [each.partition for each in partitions]))


def run(server: Broker | Kafka, work: Callable[[Cluster, str], Awaitable[None]], partitions: int = 6) -> None:
    """Runs `work` with a topic of its own, whose name may be the group's too."""
    topic = f"group-{next(_names)}"

    async def main() -> None:
        async with Cluster(server.bootstrap, timeout_ms=60_000) as cluster:
            await Admin(cluster).create_topic(topic, partitions)
            with trio.fail_after(100):
                await work(cluster, topic)

    trio.run(main)


async def fill(cluster: Cluster, topic: str, count: int, partitions: int = 6, first: int = 0) -> None:
    """Numbers in turns over the partitions."""
    async with Producer(cluster, linger_ms=0) as producer:
        for number in range(first, first + count):
            await producer.send(topic, b"%d" % number, partition=number % partitions)


async def poll_until(
    what: str, members: Sequence[Consumer], holds: Callable[[], object], seen: list[Record] | None = None
) -> None:
    """Polls the members in turns until something is true."""
    deadline = trio.current_time() + PATIENCE_S
    while not holds():
        assert trio.current_time() < deadline, (what, [sorted(each.assignment()) for each in members])
        for member in members:
            records = await member.poll(20)
            if seen is not None:
                seen.extend(records)


def is_shared(members: Sequence[Consumer], partitions: int) -> bool:
    """Whether the members have all partitions, each of them some, and none twice."""
    owned = [partition for member in members for partition in member.assignment()]
    assert len(owned) == len(set(owned)), "owned twice"
    return len(owned) == partitions and all(member.assignment() for member in members)


async def raises_soon(member: Consumer, problem: type[KafkaError]) -> KafkaError:
    """What polls end with, which must be this."""
    try:
        with trio.fail_after(PATIENCE_S):
            while True:
                await member.poll(20)
    except problem as found:
        return found
