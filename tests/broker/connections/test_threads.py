"""Threads beside the loop serve the connections (`OTTLA_NETWORK_THREADS`)."""

import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from ottla.broker import parts
from ottla.broker.network_threads import VARIABLE as THREADS
from ottla.config import BrokerConfig
from ottla.errors import InvalidConfig
from ottla.wire.k00_produce import PRODUCE
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from tests.support.client import Client, values
from tests.support.leased import One, produce, started
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = pytest.mark.trio


@asynccontextmanager
async def served(
    path: Path, monkeypatch: pytest.MonkeyPatch, clients: int, **settings: str
) -> AsyncIterator[tuple[One, list[Client]]]:
    """A broker with two threads beside its loop, and clients of it."""
    monkeypatch.setenv(THREADS, "2")
    async with started(path, monkeypatch, **settings) as one, AsyncExitStack() as stack:
        port = one.broker.addresses.listening[0].port
        connected = []
        for _ in range(clients):
            client = await trio.to_thread.run_sync(Client.connect, "127.0.0.1", port, "test")
            stack.callback(client.close)
            connected.append(client)
        with trio.fail_after(2 * PATIENCE_S):
            yield one, connected


async def test_what_leases_allow_does_not_come_to_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path, monkeypatch, 4) as (one, clients):
        await one.create("t")
        # The first one gets the lease.
        assert await trio.to_thread.run_sync(produce, clients[0], "t", b"0") == (0, 0)
        await one.writes_quickly()
        asked, turns = one.asked, one.broker.server.hub.turns_total

        def talk() -> list[bytes]:
            for offset in range(1, 41):
                assert produce(clients[offset % 4], "t", b"%d" % offset) == (0, offset)
            return values(clients[0].fetch("t"))

        assert await trio.to_thread.run_sync(talk) == [b"%d" % offset for offset in range(41)]
        # A log that is taken, or whose disk is slow at the moment, is not waited for: Python does.
        assert one.asked - asked <= 10
        assert one.broker.server.hub.turns_total > turns


async def test_all_threads_are_measured_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path, monkeypatch, 4) as (one, clients):
        await one.create("t")
        hub = one.broker.server.hub
        hub.measure(one.broker.logs.directories.traffic)

        def counts() -> Counter[int]:
            return Counter({api.key: api.total_us.count for api in hub.measured()})

        before = counts()

        def talk() -> None:
            for client in clients:
                assert produce(client, "t", b"a")[0] == 0
                client.fetch("t")

        await trio.to_thread.run_sync(talk)
        # An answer is measured when it was sent.
        await comes_true("all are measured", lambda: (counts() - before)[FETCH.key] == len(clients))
        assert (counts() - before)[PRODUCE.key] == len(clients)
        elapsed_us, busy_us = hub.served_us
        assert 0 < busy_us < elapsed_us


async def test_equal_connections_are_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path, monkeypatch, 50) as (one, _):
        hub = one.broker.server.hub
        await comes_true("all are counted", lambda: hub.connections >= 50)
        counts = [count for count, _ in hub.threads]
        assert max(counts) <= 1.3 * sum(counts) / len(counts)


async def test_a_busy_thread_hands_connections_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All clients of one thread are busy, and those of the other are silent."""
    async with served(tmp_path, monkeypatch, 0) as (one, _), AsyncExitStack() as stack:
        await one.create("t")
        hub, port = one.broker.server.hub, one.broker.addresses.listening[0].port
        clients: list[list[Client]] = [[], []]
        # The controller has a connection of its own.
        own = sum(held for held, _ in hub.threads)
        for count in range(own + 1, own + 9):
            before = [held for held, _ in hub.threads]
            client = await trio.to_thread.run_sync(Client.connect, "127.0.0.1", port, "test")
            stack.callback(client.close)
            await comes_true("it is counted", lambda count=count: sum(held for held, _ in hub.threads) == count)
            (place,) = [place for place, (held, _) in enumerate(hub.threads) if held > before[place]]
            clients[place].append(client)
        busy = next(some for some in clients if len(some) > 1)
        assert await trio.to_thread.run_sync(produce, busy[0], "t", bytes(1_000_000)) == (0, 0)
        first = hub.threads

        deadline = time.monotonic() + PATIENCE_S
        row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(replica_id=-1, topics=[FetchTopic(topic="t", partitions=[row])])

        def talk(client: Client) -> None:
            """Has more answers on their way than a look at records would leave time for, and does not look."""
            space, socket = bytearray(1 << 20), client._socket
            socket.settimeout(PATIENCE_S)
            while not hub.moved_total and time.monotonic() < deadline:
                for _ in range(8):
                    client.send_only(FETCH, 11, request)
                for _ in range(8):
                    size = bytearray()
                    while len(size) < 4:
                        size += socket.recv(4 - len(size))
                    left = int.from_bytes(size, "big")
                    assert left > 1_000_000
                    while left:
                        left -= socket.recv_into(space, min(left, len(space)))

        async with trio.open_nursery() as nursery:
            for client in busy:
                nursery.start_soon(trio.to_thread.run_sync, talk, client)
        assert hub.moved_total > 0
        assert [held for held, _ in hub.threads] != [held for held, _ in first]
        # It is served as before, and Python finds it.
        for offset, client in enumerate(busy, 1):
            assert await trio.to_thread.run_sync(produce, client, "t", b"a") == (0, offset)


async def test_a_stop_ends_the_connections_of_all_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path, monkeypatch, 4) as (one, clients):
        hub = one.broker.server.hub
        await comes_true("all are counted", lambda: hub.connections >= len(clients))
    assert hub.connections == 0
    for client in clients:
        with pytest.raises((ConnectionError, EOFError)):
            await trio.to_thread.run_sync(produce, client, "t", b"a")


async def test_a_number_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(THREADS, "many")
    with pytest.raises(InvalidConfig, match="OTTLA_NETWORK_THREADS is 'many': it may be a number, 0 or more"):
        parts.hub(BrokerConfig({}))
