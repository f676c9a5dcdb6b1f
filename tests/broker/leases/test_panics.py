"""A mistake in native code, on a thread that does a partition's work: its clients get an error, all others go on."""

import logging
import queue
from collections.abc import Iterator
from logging.handlers import QueueHandler
from pathlib import Path

import pytest
import trio

from ottla.errors import StorageError
from tests.support.client import Client, values
from tests.support.leased import produce, started
from tests.support.waiting import PATIENCE_S

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
