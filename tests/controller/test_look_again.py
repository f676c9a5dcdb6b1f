"""A new controller, or another way to the tree: everything is read and watched again, in few steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from ottla.controller import Controller, NewTopic, create_partitions, create_topic, create_topics, prepare
from ottla.controller.events import LookAgain, PartitionModifications
from ottla.coordination import znodes
from ottla.coordination.tree import Tree
from ottla.coordination.zookeeper import ZooKeeperTree
from tests.controller.conftest import TestCluster
from tests.controller.fakes import FakeBroker
from tests.coordination.proxy import LossyProxy

pytestmark = pytest.mark.trio

#: Without "exists": that asks whose place it is, as often as somebody may have taken it.
READS = ("get", "get_many", "children")


@pytest.fixture
def proxy(zookeeper: str) -> Iterator[LossyProxy]:
    host, _, port = zookeeper.partition("/")[0].partition(":")
    with LossyProxy((host, int(port))) as relay:
        yield relay


def counted(patch: pytest.MonkeyPatch, tree: Tree) -> Counter[str]:
    """How often each read of the tree is called from now on."""
    calls: Counter[str] = Counter()

    def counting(name: str) -> Any:
        read = getattr(tree, name)

        async def call(*arguments: Any) -> Any:
            calls[name] += 1
            return await read(*arguments)

        return call

    for name in READS:
        patch.setattr(tree, name, counting(name))
    return calls


async def has_topics(broker: FakeBroker, many: int) -> None:
    await broker.until(lambda: all(len(broker.metadata(f"t{number}")) == 1 for number in range(many)))


async def test_topics_are_read_together(cluster: TestCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new controller asks for 40 topics as often as for 10: it waits for the tree a few times, not once for each."""
    counts = []
    for many in (1, 10, 40):  # the first also makes the cluster's nodes
        await create_topics(cluster.admin, [NewTopic(f"t{number}", assignment={0: (0,)}) for number in range(many)])
        broker = await cluster.broker(0)
        with monkeypatch.context() as patch:
            calls = counted(patch, cluster.trees[0])
            cluster.controller(broker)
            await has_topics(broker, many)
            counts.append([calls[name] for name in READS])
        await cluster.kill(broker)
    assert counts[1] == counts[2]
    assert sum(counts[2]) < 40
    # And each of them is watched.
    broker = await cluster.broker(0)
    cluster.controller(broker)
    await broker.until(lambda: len(broker.metadata("t39")) == 1)
    await create_partitions(cluster.admin, "t39", 3)
    await broker.until(lambda: len(broker.metadata("t39")) == 3)


@pytest.mark.zookeeper
async def test_a_change_of_connection_is_one_event(
    zookeeper: str, proxy: LossyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kazoo gives up every watch with the connection: that is one look at everything. What changed meanwhile is seen,
    brokers first.
    """
    chroot = zookeeper.partition("/")[2]
    topics = [f"t{number}" for number in range(60)]
    async with (
        await ZooKeeperTree.connect(zookeeper) as direct,
        await ZooKeeperTree.connect(f"127.0.0.1:{proxy.port}/{chroot}") as tree,
        trio.open_nursery() as nursery,
    ):
        await prepare(tree)
        one, two = FakeBroker(1), FakeBroker(2)
        for broker in (one, two):
            await nursery.start(broker.serve)
        await one.register(tree)
        controller = Controller(tree, 1, registration=one.registration)
        nursery.start_soon(controller.run)
        await create_topics(direct, [NewTopic(topic, assignment={0: (1,)}) for topic in topics])
        await one.until(lambda: all(len(one.metadata(topic)) == 1 for topic in topics))

        handled: list[Any] = []
        take = controller._events.take

        async def recorded() -> Any:
            event = await take()
            handled.append(event)
            return event

        with monkeypatch.context() as patch:
            patch.setattr(controller._events, "take", recorded)
            # What is waited for was taken with the old function.
            await create_topic(direct, NewTopic("first", assignment={0: (1,)}))
            await one.until(lambda: len(one.metadata("first")) == 1)
            calls = counted(patch, tree)
            told = len(one.received)
            proxy.refuse = True
            proxy.cut()
            await two.register(direct)
            await create_partitions(direct, "t7", 2, assignments=[(1,)])
            await create_topic(direct, NewTopic("last", assignment={0: (1,)}))
            handled.clear()
            proxy.refuse = False
            await one.until(lambda: len(one.metadata("last")) == 1 and len(one.metadata("t7")) == 2)
            await two.until(lambda: len(two.metadata("last")) == 1)
        assert handled.count(LookAgain()) == 1
        assert not any(isinstance(event, PartitionModifications) for event in handled), "one for each topic"
        assert sum(calls.values()) < 25
        news = one.received[told:]
        assert [broker.id for broker in news[0].message.live_brokers] == [1, 2], "before anything else"
        assert controller.epoch == 1

        # Everything is watched again.
        await create_partitions(direct, "t8", 2, assignments=[(1,)])
        await one.until(lambda: len(one.metadata("t8")) == 2)
        await direct.delete(znodes.broker_path(2))
        await one.until(lambda: one.live_brokers() == [1])
        nursery.cancel_scope.cancel()
