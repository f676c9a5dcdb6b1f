"""The partitions that one request may add to a cluster, all of its rows together."""

from pathlib import Path

import msgspec
import pytest
import trio

from ottla.broker.api.k19_create_topics import CONFIGS_BYTES
from ottla.broker.broker import Broker
from ottla.broker.internal_topics import offsets_topic, transaction_state_topic
from ottla.config import BrokerConfig
from ottla.controller import topic_changes
from ottla.coordination import znodes
from ottla.errors import InvalidPartitions, PolicyViolation
from ottla.kafka import INTERNAL_TOPICS, OFFSETS_TOPIC
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreateTopicsRequest
from ottla.wire.k37_create_partitions import (
    CREATE_PARTITIONS,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from tests.support.client import Client


@pytest.mark.trio
async def test_rows_beyond_what_a_cluster_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that is refused for another reason does not count."""
    monkeypatch.setattr(topic_changes, "REQUEST_PARTITIONS_MAX", 7)

    def ask(port: int) -> tuple[list[int], list[int]]:
        with Client.connect("127.0.0.1", port, "test") as client:
            topics = [CreatableTopic(name, count, 1) for name, count in {"a": 3, "b": 5, "c": 4}.items()]
            made = client.call(CREATE_TOPICS, CreateTopicsRequest(topics=topics, timeout_ms=60_000)).topics
            client.call(CREATE_TOPICS, CreateTopicsRequest(topics=[CreatableTopic("d", 1, 1)], timeout_ms=60_000))
            rows = [CreatePartitionsTopic(name, count, None) for name, count in {"c": 4, "a": 8, "d": 4}.items()]
            grown = client.call(CREATE_PARTITIONS, CreatePartitionsRequest(topics=rows, timeout_ms=60_000)).results
            return [row.error_code for row in made], [row.error_code for row in grown]

    settings = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0", "broker.id": "1"}
    async with Broker.start(BrokerConfig(settings)) as broker:
        made, grown = await trio.to_thread.run_sync(ask, broker.addresses.listening[0].port)
    assert made == [0, PolicyViolation.code, 0]
    assert grown == [InvalidPartitions.code, 0, PolicyViolation.code]


@pytest.mark.trio
@pytest.mark.parametrize("name", sorted(INTERNAL_TOPICS))
async def test_what_coordinators_keep_stays_where_they_look_for_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """With another number of partitions keys belong to others. Kafka 2.7 adds them, and loses what is stored."""

    def ask(port: int, validate_only: bool) -> CreatePartitionsTopicResult:
        request = CreatePartitionsRequest([CreatePartitionsTopic(name, 3, None)], 60_000, validate_only)
        with Client.connect("127.0.0.1", port, "test") as client:
            return client.call(CREATE_PARTITIONS, request).results[0]

    settings = {
        "log.dirs": str(tmp_path),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "broker.id": "1",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
    }
    async with Broker.start(BrokerConfig(settings)) as broker:
        topic = offsets_topic(broker) if name == OFFSETS_TOPIC else transaction_state_topic(broker)
        await topic.ensure()
        for validate_only in (True, False):
            refused = await trio.to_thread.run_sync(ask, broker.addresses.listening[0].port, validate_only)
            assert refused.error_code == InvalidPartitions.code
            assert "look elsewhere" in (refused.error_message or "")
        assert topic.partition_count() == 2
        assert not said(caplog)
        # Past every check, by a tool that writes into the tree.
        path = znodes.topic_path(name)
        node = await broker.tree.get(path)
        assignment = znodes.TopicAssignment.decode(path, node.data)
        grown = msgspec.structs.replace(assignment, partitions={**assignment.partitions, 2: (1,)})
        await broker.tree.set(path, grown.encode())
        await broker.metadata.wait_until(lambda: len(broker.metadata.topics[name]) == 3)
        assert topic.partition_count() == 2
        (line,) = said(caplog)
        assert f"given {name} 3 partitions" in line


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "past every check" in record.getMessage()]


@pytest.mark.trio
async def test_an_answer_that_would_be_too_large_leaves_settings_out(tmp_path: Path) -> None:
    """The topics are made by then: their creator must hear of it."""

    def ask(port: int) -> list[tuple[int, int, bool]]:
        with Client.connect("127.0.0.1", port, "test") as client:
            topics = [CreatableTopic(name, 1, 1) for name in "abc"]
            rows = client.call(CREATE_TOPICS, CreateTopicsRequest(topics=topics, timeout_ms=60_000)).topics
            return [(row.error_code, row.topic_config_error_code, bool(row.configs)) for row in rows]

    settings = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0", "broker.id": "1"}
    settings["socket.request.max.bytes"] = str(2 * 2 * CONFIGS_BYTES)
    async with Broker.start(BrokerConfig(settings)) as broker:
        rows = await trio.to_thread.run_sync(ask, broker.addresses.listening[0].port)
    assert rows == [(0, 0, True), (0, 0, True), (0, PolicyViolation.code, False)]
