"""A client that may not speak yet is served by nobody: neither by Python nor under leases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.broker.api import k18_api_versions
from ottla.client.errors import ConnectionLost
from ottla.wire.headers import request_frame
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from ottla.wire.k03_metadata import METADATA, MetadataRequest
from ottla.wire.k18_api_versions import API_VERSIONS, ApiVersionsRequest
from tests.support.client import Client, batch, values
from tests.support.leased import One, produce, started
from tests.support.waiting import comes_true

pytestmark = [pytest.mark.trio, pytest.mark.usefixtures("leases_on")]

LONG_MS = 60_000
PRODUCED = ProduceRequest(
    acks=1,
    timeout_ms=1000,
    topics=[TopicProduceData(name="t", partitions=[PartitionProduceData(records=batch(b"no"))])],
)
#: It waits for records.
FETCHED = FetchRequest(
    replica_id=-1,
    max_wait_ms=LONG_MS,
    min_bytes=1,
    topics=[FetchTopic(topic="t", partitions=[FetchPartition(fetch_offset=1, partition_max_bytes=1000)])],
)


def shut(one: One) -> None:
    """Who comes from now on may not speak."""
    one.broker.server.hub.greet("PLAINTEXT", LONG_MS)


async def with_a_lease(one: One) -> None:
    await one.create("t")
    await one.talk(lambda client: produce(client, "t", b"first"))
    await one.writes_quickly()
    assert await one.needed(lambda client: client.fetch("t")) == 0


def refused(conversation: Callable[[Client], Any]) -> Callable[[Client], None]:
    def run(client: Client) -> None:
        with pytest.raises(ConnectionLost):
            conversation(client)

    return run


@pytest.mark.parametrize(
    "conversation",
    [
        lambda client: produce(client, "t", b"no"),
        lambda client: produce(client, "t", b"no", acks=-1),
        lambda client: client.fetch("t"),
        lambda client: client.call(FETCH, FETCHED, 11),
        lambda client: client.call(METADATA, MetadataRequest(topics=None), 8),
    ],
    ids=["produce", "acks=all", "fetch", "waiting fetch", "metadata"],
)
async def test_nothing_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conversation: Callable[[Client], Any]
) -> None:
    async with started(tmp_path, monkeypatch) as one:
        await with_a_lease(one)
        shut(one)
        assert await one.needed(refused(conversation)) == 0
        assert one.broker.server.hub.waiting_fetches == 0
        assert one.broker.replicas.partitions["t", 0].log.end_offset == 1


async def test_nothing_passes_behind_a_greeting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pipelined(client: Client) -> None:
        frames = [
            request_frame(api.key, version, number, "test", api.encode_request(version, asked))
            for number, (api, version, asked) in enumerate(
                [(API_VERSIONS, 2, ApiVersionsRequest()), (PRODUCE, 8, PRODUCED), (FETCH, 11, FETCHED)]
            )
        ]
        client._socket.sendall(b"".join(frames))
        answers = b""
        while some := client._socket.recv(1 << 16):
            answers += some
        # The greeting's: its size, and its number.
        assert int.from_bytes(answers[:4], "big") == len(answers) - 4
        assert answers[4:8] == bytes(4)

    async with started(tmp_path, monkeypatch) as one:
        await with_a_lease(one)
        shut(one)
        assert await one.needed(pipelined) == 0
        assert one.broker.server.hub.waiting_fetches == 0
        assert one.broker.replicas.partitions["t", 0].log.end_offset == 1


async def test_who_is_known_is_served_under_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = k18_api_versions.handle

    def greets(call: Any, rooms: Any) -> None:
        rooms.server.hub.let_speak(call.request.connection_id)
        handle(call, rooms)

    def known(client: Client) -> list[bytes]:
        client.call(API_VERSIONS, ApiVersionsRequest(), 2)
        produce(client, "t", b"second")
        return values(client.fetch("t"))

    monkeypatch.setattr(k18_api_versions, "handle", greets)
    async with started(tmp_path, monkeypatch) as one:
        await with_a_lease(one)
        shut(one)
        before = one.asked
        assert await one.talk(known) == [b"first", b"second"]
        # A write that takes long brings the next append to Python.
        assert one.asked - before <= 1


async def test_the_end_of_a_session_answers_nothing_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    connections: list[int] = []
    handle = k18_api_versions.handle

    def noted(call: Any, rooms: Any) -> None:
        connections.append(call.request.connection_id)
        handle(call, rooms)

    def waits(client: Client) -> None:
        client.call(API_VERSIONS, ApiVersionsRequest(), 2)
        with pytest.raises(ConnectionLost):
            client.call(FETCH, FETCHED, 11)

    monkeypatch.setattr(k18_api_versions, "handle", noted)
    async with started(tmp_path, monkeypatch) as one:
        await with_a_lease(one)
        hub = one.broker.server.hub
        nursery.start_soon(one.talk, waits)
        await comes_true("it waits", lambda: hub.waiting_fetches == 1)
        hub.end_session(connections[-1], "it is over")
        await one.talk(lambda client: produce(client, "t", b"second"))
        assert await one.talk(lambda client: values(client.fetch("t"))) == [b"first", b"second"]
        await comes_true("nobody waits", lambda: hub.waiting_fetches == 0)
