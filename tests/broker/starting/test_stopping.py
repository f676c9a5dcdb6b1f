"""A broker that stops answers what it has read, also those who wait for what will not come any more."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.broker.broker import Broker
from ottla.config import BrokerConfig
from ottla.coordination import znodes
from ottla.errors import RequestTimedOut
from ottla.net import Server
from ottla.wire.k19_create_topics import (
    CREATE_TOPICS,
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tests.support.client import Client
from tests.support.waiting import comes_true


@pytest.mark.trio
async def test_who_is_counted_as_gone_while_it_stops_does_not_register_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its listeners are closed, and its session lives: neighbours take it for dead."""
    config = BrokerConfig({"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"})
    run = Server.run
    started: list[Broker] = []

    async def run_and_be_removed(self: Server, *handlers: Any) -> None:
        await run(self, *handlers)
        (broker,) = started
        await broker.tree.delete(znodes.broker_path(broker.id))
        await comes_true("it is seen", lambda: "its registration was removed" in caplog.text)
        assert "it registers again" not in caplog.text

    monkeypatch.setattr(Server, "run", run_and_be_removed)
    async with Broker.start(config) as broker:
        started.append(broker)
    assert "it stops anyway" in caplog.text


def test_who_waits_for_a_leader_is_told_that_there_is_none(tmp_path: Path) -> None:
    config = BrokerConfig({"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"})
    told: list[tuple[int, str | None]] = []

    def create(port: int) -> None:
        with closing(Client.connect("127.0.0.1", port, "owner", timeout_ms=120_000)) as client:
            elsewhere = [CreatableReplicaAssignment(partition_index=0, broker_ids=[99])]
            row = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=elsewhere)
            answer = client.call(CREATE_TOPICS, CreateTopicsRequest(topics=[row], timeout_ms=120_000))
            told.extend((row.error_code, row.error_message) for row in answer.topics)

    async def main() -> None:
        async with trio.open_nursery() as nursery, Broker.start(config) as broker:
            (listener,) = broker.addresses.listening
            nursery.start_soon(trio.to_thread.run_sync, create, listener.port)
            made = trio.Event()
            if await broker.tree.exists(znodes.topic_path("t"), lambda _: made.set()) is None:
                await made.wait()

    trio.run(main)
    assert told == [(RequestTimedOut.code, "The topic is being created, but was not ready in time.")]
