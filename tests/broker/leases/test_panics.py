"""A mistake in native code, on a thread that does a partition's work: its clients get an error, all others go on.

On a thread that serves connections: these are closed, and another thread serves others.
"""

import logging
import queue
from collections.abc import Iterator
from contextlib import ExitStack
from logging.handlers import QueueHandler
from pathlib import Path

import pytest
import trio

from ottla.broker.network_threads import VARIABLE as THREADS
from ottla.client.errors import ConnectionLost
from ottla.errors import StorageError, UnknownServerError
from tests.support.client import Client, values
from tests.support.leased import One, produce, started
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = pytest.mark.trio

#: Left to a thread.
LARGE = b"x" * 200_000


@pytest.fixture
def told() -> Iterator["queue.SimpleQueue[logging.LogRecord]"]:
    """What native threads log: another thread does it for them, at its time."""
    records: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    handler, logger = QueueHandler(records), logging.getLogger("ottla.native")
    logger.addHandler(handler)
    yield records
    logger.removeHandler(handler)


@pytest.mark.parametrize("acks", [1, -1])
async def test_an_append_that_panics_costs_its_partition_until_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: "queue.SimpleQueue[logging.LogRecord]", acks: int
) -> None:
    def honest(client: Client) -> None:
        """Small records are appended on the loop, large ones by the thread that met the panic."""
        for value in (b"small", LARGE):
            assert produce(client, "other", value, acks=acks)[0] == 0
        assert values(client.fetch("other", 0))[-2:] == [b"small", LARGE]

    async with started(tmp_path, monkeypatch) as one:
        partition, _ = await one.create("t"), await one.create("other")
        assert await one.talk(lambda client: produce(client, "t", b"before", acks=acks)) == (0, 0)
        partition.log._panic_in_append()
        with trio.fail_after(PATIENCE_S):
            refused = await one.talk(lambda client: [produce(client, "t", v, acks=acks) for v in (LARGE, b"small")])
            assert refused == [(StorageError.code, -1)] * 2
            await one.talk(honest)
            assert await one.talk(lambda client: values(client.fetch("t", 0))) == [b"before"]
        line = told.get(timeout=PATIENCE_S).getMessage()
        assert "ottla-append-" in line
        assert "rust/log/pending.rs:" in line
        assert "an append that was asked to" in line
        assert told.empty()
    async with started(tmp_path, monkeypatch) as one:
        await one.broker.metadata.wait_until(lambda: {"t", "other"} <= set(one.broker.metadata.topics))
        assert await one.talk(lambda client: produce(client, "t", b"after", acks=acks)) == (0, 1)
        assert await one.talk(lambda client: values(client.fetch("t", 0))) == [b"before", b"after"]
        await one.talk(honest)


def connected(one: One, stack: ExitStack, count: int) -> list[Client]:
    port = one.broker.addresses.listening[0].port
    return [stack.enter_context(Client.connect("127.0.0.1", port, "test")) for _ in range(count)]


def is_served(client: Client) -> bool:
    """False if the connection is closed."""
    try:
        return produce(client, "t", b"a")[0] == 0
    except ConnectionLost:
        return False


async def test_a_thread_that_panics_costs_its_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: "queue.SimpleQueue[logging.LogRecord]"
) -> None:
    monkeypatch.setenv(THREADS, "2")
    async with started(tmp_path, monkeypatch) as one:
        await one.create("t")
        hub = one.broker.server.hub

        def all_served(clients: list[Client]) -> list[bool]:
            return [is_served(client) for client in clients]

        with ExitStack() as stack, trio.fail_after(2 * PATIENCE_S):
            clients = await trio.to_thread.run_sync(connected, one, stack, 8)
            assert all(await trio.to_thread.run_sync(all_served, clients))
            hub._panic_in_thread(0)
            await comes_true("a line in the log", lambda: not told.empty())
            assert told.get().getMessage().startswith("ottla-network-1 met a panic at rust/direct/serving.rs:")
            await comes_true("its connections are closed", lambda: hub.threads[0][0] == 0)
            assert set(await trio.to_thread.run_sync(all_served, clients)) == {True, False}
            others = await trio.to_thread.run_sync(connected, one, stack, 8)
            await comes_true("another thread serves", lambda: hub.threads[0][0] > 0)
            assert all(await trio.to_thread.run_sync(all_served, others))
        assert told.empty()


async def test_two_panics_in_a_minute_stop_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: "queue.SimpleQueue[logging.LogRecord]"
) -> None:
    monkeypatch.setenv(THREADS, "1")
    reason = "ottla-network-1 died twice in a minute, now with a panic at rust/direct/serving.rs:"
    expected = pytest.RaisesExc(UnknownServerError, match=reason)
    with ExitStack() as stack, pytest.RaisesGroup(expected, flatten_subgroups=True):
        async with started(tmp_path, monkeypatch) as one:
            hub = one.broker.server.hub
            with trio.fail_after(2 * PATIENCE_S):
                for _ in range(2):
                    await trio.to_thread.run_sync(connected, one, stack, 1)
                    await comes_true("it is counted", lambda: hub.threads[0][0] > 0)
                    hub._panic_in_thread(0)
                    await comes_true("it is closed", lambda: hub.threads[0][0] == 0)
                await trio.sleep_forever()
