"""The served tree, and kazoo's clients of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

from tests.coordination.served import ServedTree

Clients = Callable[..., KazooClient]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedTree]:
    with ServedTree(tmp_path / "tree") as server:
        yield server


@pytest.fixture
def clients() -> Iterator[Clients]:
    """A factory of started clients: clients(HOST:PORT)."""
    opened = []

    def start(address: str, **options: object) -> KazooClient:
        retry = KazooRetry(max_tries=-1, delay=0.05, max_delay=0.5)
        client = KazooClient(hosts=address, timeout=10, connection_retry=retry, **options)
        opened.append(client)
        client.start(timeout=60)
        return client

    yield start
    for client in opened:
        client.stop()
        client.close()
