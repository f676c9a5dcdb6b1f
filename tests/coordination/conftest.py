"""The tree under test: the embedded one, the same by ZooKeeper's protocol, and a real ZooKeeper server's, behind one
kind of fixture.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from kazoo.client import KazooClient
from pytest_trio import trio_fixture

from ottla.coordination.embedded import EmbeddedStore, EmbeddedTree
from ottla.coordination.tree import Tree
from ottla.coordination.zookeeper import ZooKeeperTree
from tests.coordination.proxy import LossyProxy
from tests.coordination.served import ServedTree
from tests.peers.apache import Apache


class Trees:
    """Sessions with one tree: `await trees.open()`; `expire(tree)` ends a session as a timeout would."""

    def __init__(self) -> None:
        self.opened: list[Any] = []

    async def open(self) -> Tree:
        tree = await self._open()
        self.opened.append(tree)
        return tree

    async def _open(self) -> Any:
        raise NotImplementedError

    async def expire(self, tree: Tree) -> None:
        raise NotImplementedError

    async def aclose(self) -> None:
        for tree in self.opened:
            await tree.aclose()


class EmbeddedTrees(Trees):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.store: EmbeddedStore | None = None

    async def _open(self) -> EmbeddedTree:
        if self.store is None:
            self.store = await EmbeddedStore.open(str(self.path))
        return await self.store.session()

    async def expire(self, tree: Any) -> None:
        await tree.expire()

    async def aclose(self) -> None:
        await super().aclose()
        if self.store is not None:
            await self.store.aclose()


class ZooKeeperTrees(Trees):
    def __init__(self, servers: str) -> None:
        super().__init__()
        self.servers = servers

    async def _open(self) -> ZooKeeperTree:
        return await ZooKeeperTree.connect(self.servers, session_timeout_ms=10_000)

    async def expire(self, tree: Any) -> None:
        """Take the session over from another connection and close it there: the server ends it at once."""
        await trio.to_thread.run_sync(end_session, self.servers, tree._client.client_id)


def end_session(servers: str, client_id: tuple[int, bytes]) -> None:
    thief = KazooClient(hosts=servers.partition("/")[0], client_id=client_id, timeout=10)
    thief.start()
    thief.stop()
    thief.close()


@pytest.fixture(scope="session")
def old_zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of a ZooKeeper 3.5, Kafka 2.7's own, which reads nodes only one by one."""
    with Apache(tmp_path_factory.mktemp("zookeeper-3.5")) as apache:
        yield apache.zookeeper("2.7.2")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedTree]:
    """The embedded tree behind a server that speaks ZooKeeper's protocol."""
    with ServedTree(tmp_path / "tree") as server:
        yield server


@pytest.fixture
def served_tree(served: ServedTree) -> str:
    """HOST:PORT/chroot of it."""
    return f"{served.address}/test"


_chroots = itertools.count()


@pytest.fixture
def old_zookeeper(old_zookeeper_server: str) -> str:
    return f"{old_zookeeper_server}/test-{next(_chroots)}"


@trio_fixture
async def trees(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Trees]:
    kind = getattr(request, "param", "embedded")
    opener = EmbeddedTrees(tmp_path / "tree") if kind == "embedded" else ZooKeeperTrees(request.getfixturevalue(kind))
    yield opener
    await opener.aclose()


@trio_fixture
async def tree(trees: Trees) -> Tree:
    return await trees.open()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "trees" in metafunc.fixturenames and metafunc.module.__name__.endswith("test_contract"):
        real = [pytest.param(name, marks=pytest.mark.zookeeper) for name in ("zookeeper", "old_zookeeper")]
        metafunc.parametrize("trees", ["embedded", "served_tree", *real], indirect=True)


@pytest.fixture
def proxy(zookeeper: str) -> Iterator[LossyProxy]:
    """A way to the ZooKeeper server on which what comes and goes can be lost."""
    host, _, port = zookeeper.partition("/")[0].partition(":")
    with LossyProxy((host, int(port))) as relay:
        yield relay
