"""A broker starts on a tree with nodes that nobody understands, says so once for each, and serves everything else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.broker.broker import Broker
from ottla.config import BrokerConfig
from ottla.controller.admin import notify_config_change
from ottla.coordination import znodes
from ottla.coordination.embedded import TREE_FILE, EmbeddedTree
from ottla.errors import InvalidConfig
from ottla.kafka import TOPIC_RESOURCE
from tests.support.client import Client, batch, values
from tests.support.waiting import comes_true

pytestmark = pytest.mark.trio


@asynccontextmanager
async def started(path: Path) -> AsyncIterator[Broker]:
    settings = {
        "log.dirs": str(path),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "broker.id": "1",
        "log.retention.check.interval.ms": "10",
    }
    async with Broker.start(BrokerConfig(settings)) as broker:
        yield broker


async def told(broker: Broker, ask: Any) -> Any:
    def run() -> Any:
        with Client.connect("127.0.0.1", broker.addresses.listening[0].port, "test") as client:
            return ask(client)

    return await trio.to_thread.run_sync(run)


async def overwrite(path: Path, nodes: dict[str, bytes]) -> None:
    tree = await EmbeddedTree.open(str(path / TREE_FILE))
    async with tree:
        for node, data in nodes.items():
            await tree.ensure(node)
            await tree.set(node, data)


def said(caplog: pytest.LogCaptureFixture, path: str) -> int:
    return sum(path in record.getMessage() for record in caplog.records if record.levelname == "ERROR")


async def test_a_broker_starts_and_serves_the_rest(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    topics = ("kept", "lost", "healthy")
    async with started(tmp_path) as broker:
        for topic in topics:
            await broker.admin.create_topic(topic)
            await broker.metadata.wait_until(lambda topic=topic: topic in broker.metadata.topics)  # type: ignore[misc]
            if topic == "kept":
                await broker.tree.set(znodes.config_path("topics", topic), znodes.encode_config({"retention.ms": "-1"}))
                await notify_config_change(broker.tree, "topics", topic)
                await comes_true("no retention", lambda: bool(broker.settings.topics.get("kept")))
            # Its record is of 2023: with the default settings it is deleted as soon as somebody looks.
            answer = await told(broker, lambda client, topic=topic: client.produce(topic, batch(b"1")))
            assert [row.error_code for each in answer.responses for row in each.partitions] == [0]
    bad = {
        znodes.config_path("topics", "kept"): b"no json",
        znodes.config_path("brokers", "1"): b"no json",
        znodes.config_path("brokers", "<default>"): b"[]",
        znodes.config_path("users", "u"): b"{",
        znodes.topic_path("lost"): b"{}",
    }
    await overwrite(tmp_path, bad | {znodes.topic_path("a b"): b'{"partitions":{"0":[1]}}'})
    caplog.clear()
    began = trio.current_time()
    async with started(tmp_path) as broker:
        # Nobody waits for partitions of which nobody will be told.
        assert trio.current_time() - began < 10
        assert {path: said(caplog, path) for path in bad} == dict.fromkeys(bad, 1)
        assert said(caplog, '"a b"') == 1
        assert broker.metadata.topics.keys() == {"kept", "healthy"}
        await comes_true("retention", lambda: broker.replicas.partitions["healthy", 0].log.start_offset == 1)
        assert values(await told(broker, lambda client: client.fetch("kept", 0))) == [b"1"]
        # A topic whose settings cannot be read is described as such, and put right.
        with pytest.raises(InvalidConfig):
            await broker.admin.topic_overrides("kept")
        await broker.admin.alter_configs(TOPIC_RESOURCE, "kept", [], False, replace=True)
        assert await broker.admin.topic_overrides("kept") == {}
        await comes_true("retention", lambda: broker.replicas.partitions["kept", 0].log.start_offset == 1)


async def test_settings_that_held_go_on_to_hold(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with started(tmp_path) as broker:
        await broker.admin.create_topic("t")
        await broker.metadata.wait_until(lambda: "t" in broker.metadata.topics)
        wanted = {"t": {"retention.ms": "5000"}, "u": {"retention.ms": "6000"}}
        for topic, settings in wanted.items():
            path = znodes.config_path("topics", topic)
            await broker.tree.ensure(path)
            await broker.tree.set(path, znodes.encode_config(settings))
            await notify_config_change(broker.tree, "topics", topic)
        await comes_true("the settings", lambda: all(broker.settings.topics.get(topic) for topic in wanted))
        await broker.tree.set(znodes.config_path("topics", "t"), b"no json")
        await notify_config_change(broker.tree, "topics", "t")
        await comes_true("a line", lambda: said(caplog, "/config/topics/t") == 1)
        assert broker.settings.topics["t"] == wanted["t"]
        # A new topic with such settings is made all the same.
        await broker.tree.create(znodes.config_path("topics", "new"), b"no json")
        await broker.tree.create(znodes.topic_path("new"), b'{"version":2,"partitions":{"0":[1]}}')
        with trio.fail_after(10):
            await broker.metadata.wait_until(lambda: "new" in broker.metadata.topics)
        assert broker.replicas.partitions["new", 0].is_leader
        assert said(caplog, "/config/topics/new") == 1
