"""A broker in this process on its own tree, whose nodes a test writes past every check.

It looks for old records and for what there is to compact every ten milliseconds.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from ottla.broker.broker import Broker
from ottla.config import BrokerConfig
from ottla.coordination.embedded import TREE_FILE, EmbeddedTree
from tests.support.client import Client


@asynccontextmanager
async def started(path: Path, *, adopt: bool = False) -> AsyncIterator[Broker]:
    settings = {
        "log.dirs": str(path),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "broker.id": "1",
        "log.retention.check.interval.ms": "10",
        "log.cleaner.backoff.ms": "10",
    }
    async with Broker.start(BrokerConfig(settings), adopt=adopt) as broker:
        yield broker


async def told(broker: Broker, ask: Callable[[Client], Any]) -> Any:
    """The answer to a client's question, asked on a thread."""

    def run() -> Any:
        with Client.connect("127.0.0.1", broker.addresses.listening[0].port, "test") as client:
            return ask(client)

    return await trio.to_thread.run_sync(run)


async def overwrite(path: Path, nodes: dict[str, bytes]) -> None:
    """Writes nodes while no broker runs."""
    tree = await EmbeddedTree.open(str(path / TREE_FILE))
    async with tree:
        for node, data in nodes.items():
            await tree.ensure(node)
            await tree.set(node, data)
