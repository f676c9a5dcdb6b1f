"""Apache Kafka 2.7.2's ZooKeeper-based tools change topics under our controller and see what it did.

What the controller then sends is compared, byte by byte, with what Kafka's own message classes make of it: they decode
each recorded request and encode it again.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import trio
from pytest_trio import trio_fixture

from ottla.controller import Controller, NewTopic, create_topic, get_config, prepare, watch_config_changes
from ottla.coordination import znodes
from ottla.coordination.zookeeper import ZooKeeperTree
from tests.controller.fakes import FakeBroker
from tests.peers.apache import tool
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.trio, pytest.mark.zookeeper, pytest.mark.java]


class Served:
    """A broker that only listens, a controller, and the settings that were heard of, over ZooKeeper."""

    def __init__(self, servers: str, tree: ZooKeeperTree, broker: FakeBroker, controller: Controller) -> None:
        self.servers = servers
        self.tree = tree
        self.broker = broker
        self.controller = controller
        self.heard: list[tuple[str, str]] = []
        self._heard = trio.Event()

    async def on_change(self, entity_type: str, entity_name: str) -> None:
        self.heard.append((entity_type, entity_name))
        self._heard.set()

    async def until_heard(self, count: int) -> None:
        with trio.fail_after(PATIENCE_S):
            while len(self.heard) < count:
                await self._heard.wait()
                self._heard = trio.Event()

    async def tool(self, name: str, *arguments: str) -> str:
        return await trio.to_thread.run_sync(lambda: tool("2.7.2", name, "--zookeeper", self.servers, *arguments))


@trio_fixture
async def served(zookeeper: str) -> AsyncIterator[Served]:
    async with await ZooKeeperTree.connect(zookeeper) as tree, trio.open_nursery() as nursery:
        await prepare(tree)
        broker = FakeBroker(1)
        await nursery.start(broker.serve)
        await broker.register(tree)
        controller = Controller(tree, 1)
        nursery.start_soon(controller.run)
        await broker.until(lambda: broker.live_brokers() == [1])
        opened = Served(zookeeper, tree, broker, controller)
        await nursery.start(watch_config_changes, tree, opened.on_change, trio.lowlevel.checkpoint)
        yield opened
        nursery.cancel_scope.cancel()


@pytest.mark.judge
async def test_topics_tool(served: Served) -> None:
    broker = served.broker
    await served.tool("topics", "--create", "--topic", "made", "--partitions", "3", "--replication-factor", "1",
                      "--config", "retention.ms=1000")  # fmt: skip
    await broker.until(lambda: len(broker.metadata("made")) == 3)
    assert sorted(broker.roles("made")) == [0, 1, 2]
    assert await get_config(served.tree, "topics", "made") == {"retention.ms": "1000"}

    await create_topic(served.tree, NewTopic("ours", 2, 1, config={"cleanup.policy": "compact"}))
    await broker.until(lambda: len(broker.metadata("ours")) == 2)
    listed = await served.tool("topics", "--list")
    assert listed.split() == ["made", "ours"]
    described = await served.tool("topics", "--describe", "--topic", "ours")
    assert "PartitionCount: 2" in described
    assert "cleanup.policy=compact" in described
    assert described.count("Leader: 1\tReplicas: 1\tIsr: 1") == 2

    await served.tool("topics", "--alter", "--topic", "ours", "--partitions", "5")
    await broker.until(lambda: len(broker.metadata("ours")) == 5)
    described = await served.tool("topics", "--describe", "--topic", "ours")
    assert described.count("Leader: 1\tReplicas: 1\tIsr: 1") == 5

    gone = trio.Event()
    await served.tree.exists(znodes.topic_path("made"), lambda _: gone.set())
    await served.tool("topics", "--delete", "--topic", "made")
    with trio.fail_after(PATIENCE_S):
        await gone.wait()
    assert sorted(broker.stopped("made")) == [0, 1, 2]
    assert (await served.tool("topics", "--list")).split() == ["ours"]


async def test_configs_tool(served: Served) -> None:
    await create_topic(served.tree, NewTopic("t", 1, 1))
    await served.tool("configs", "--alter", "--entity-type", "topics", "--entity-name", "t",
                      "--add-config", "retention.ms=777,cleanup.policy=[compact,delete]")  # fmt: skip
    await served.until_heard(1)
    assert served.heard == [("topics", "t")]
    assert await get_config(served.tree, "topics", "t") == {"retention.ms": "777", "cleanup.policy": "compact,delete"}

    from ottla.controller import set_topic_config

    await set_topic_config(served.tree, "t", {"retention.ms": "888"})
    await served.until_heard(2)
    described = await served.tool("configs", "--describe", "--entity-type", "topics", "--entity-name", "t")
    assert "retention.ms=888" in described
    assert "cleanup.policy" not in described


async def test_the_tree_is_what_kafka_would_have_made(served: Served) -> None:
    await create_topic(served.tree, NewTopic("t", 1, 1))
    await served.broker.until(lambda: len(served.broker.metadata("t")) == 1)
    topic = json.loads((await served.tree.get(znodes.topic_path("t"))).data)
    assert topic == {"version": 2, "partitions": {"0": [1]}, "adding_replicas": {}, "removing_replicas": {}}
    state = json.loads((await served.tree.get(znodes.state_path("t", 0))).data)
    assert state == {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1]}
    controller = json.loads((await served.tree.get(znodes.CONTROLLER)).data)
    assert (controller["version"], controller["brokerid"]) == (1, 1)
    assert (await served.tree.get(znodes.CONTROLLER_EPOCH)).data == b"1"
    assert json.loads((await served.tree.get(znodes.FEATURE)).data) == {"version": 1, "status": 1, "features": {}}
