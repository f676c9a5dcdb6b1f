"""A broker starts on a tree with nodes that nobody understands, says so once for each, and serves everything else."""

from pathlib import Path

import pytest
import trio

from ottla.broker.admin import Resource
from ottla.controller.configs import notify_config_change
from ottla.coordination import znodes
from ottla.errors import InvalidConfig
from ottla.kafka import TOPIC_RESOURCE
from ottla.replication import upkeep
from tests.support.client import batch, values
from tests.support.waiting import PATIENCE_S, comes_true
from tests.support.written_tree import overwrite, started, told

pytestmark = pytest.mark.trio


def said(caplog: pytest.LogCaptureFixture, path: str) -> int:
    return sum(path in record.getMessage() for record in caplog.records if record.levelname == "ERROR")


async def test_a_broker_starts_and_serves_the_rest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    # No partition that no request will name is waited for: this start would not end.
    monkeypatch.setattr("ottla.broker.broker.READY_SECONDS", 3600.0)
    async with started(tmp_path) as broker:
        assert {path: said(caplog, path) for path in bad} == dict.fromkeys(bad, 1)
        assert said(caplog, '"a b"') == 1
        assert broker.metadata.topics.keys() == {"kept", "healthy"}
        # What the brokers' nodes said of retention is not known: nothing is deleted before they are mended.
        await told(broker, lambda client: client.produce("healthy", batch(b"2")))
        upkeep.delete_old_segments(broker.logs.directories)
        log = broker.replicas.partitions["healthy", 0].log
        assert log.start_offset < log.end_offset
        for name in ("1", "<default>"):
            await broker.tree.set(znodes.config_path("brokers", name), znodes.encode_config({}))
            await notify_config_change(broker.tree, "brokers", name)
        await comes_true("retention", lambda: log.start_offset == log.end_offset)
        assert values(await told(broker, lambda client: client.fetch("kept", 0))) == [b"1"]
        # A topic whose settings cannot be read is described as such, and put right.
        with pytest.raises(InvalidConfig):
            await broker.admin.topic_overrides("kept")
        assert await broker.admin.alter_configs([Resource(TOPIC_RESOURCE, "kept", [])], replace=True) == [None]
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
        with trio.fail_after(PATIENCE_S):
            await broker.metadata.wait_until(lambda: "new" in broker.metadata.topics)
        assert broker.replicas.partitions["new", 0].is_leader
        assert said(caplog, "/config/topics/new") == 1
