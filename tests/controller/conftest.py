from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from pytest_trio import trio_fixture

from ottla.controller import Controller, prepare
from ottla.coordination.embedded import EmbeddedStore, EmbeddedTree
from tests.controller.fakes import FakeBroker


class TestCluster:
    """Brokers that listen, each with a session of its own in one embedded tree, and the controllers that are
    started.
    """

    __test__ = False

    def __init__(self, store: EmbeddedStore, nursery: trio.Nursery) -> None:
        self.store = store
        self.nursery = nursery
        self.trees: dict[int, EmbeddedTree] = {}
        self.admin: EmbeddedTree
        self.brokers: dict[int, FakeBroker] = {}
        self.controllers: dict[int, Controller] = {}
        self._scopes: dict[int, trio.CancelScope] = {}

    async def broker(self, broker_id: int, rack: str | None = None, ottla: str | None = None) -> FakeBroker:
        broker = self.brokers[broker_id] = FakeBroker(broker_id, rack, ottla)
        await self.nursery.start(broker.serve)
        self.trees[broker_id] = await self.store.session()
        await broker.register(self.trees[broker_id])
        return broker

    async def restart(self, broker: FakeBroker) -> None:
        """The same broker in a new process: its old session is gone."""
        await self.kill(broker)
        await self.restart_dead(broker)

    async def restart_dead(self, broker: FakeBroker) -> None:
        self.trees[broker.id] = await self.store.session()
        await broker.register(self.trees[broker.id])

    async def kill(self, broker: FakeBroker) -> None:
        if broker.id in self._scopes:
            self._scopes.pop(broker.id).cancel()
            await trio.testing.wait_all_tasks_blocked()
        await self.trees.pop(broker.id).aclose()

    def controller(self, broker: FakeBroker, **options: Any) -> Controller:
        controller = Controller(self.trees[broker.id], broker.id, registration=broker.registration, **options)
        self.controllers[broker.id] = controller
        self.nursery.start_soon(self._run, controller, broker.id, "session_s" in options)
        return controller

    async def _run(self, controller: Controller, broker_id: int, watches: bool) -> None:
        async with trio.open_nursery() as nursery:
            self._scopes[broker_id] = nursery.cancel_scope
            if watches:
                nursery.start_soon(controller.watch_neighbours)
            await controller.run()


@asynccontextmanager
async def open_cluster(path: Path) -> AsyncIterator[TestCluster]:
    store = await EmbeddedStore.open(str(path))
    async with trio.open_nursery() as nursery:
        cluster = TestCluster(store, nursery)
        cluster.admin = await store.session()
        await prepare(cluster.admin)
        yield cluster
        nursery.cancel_scope.cancel()
    await store.aclose()


@trio_fixture
async def cluster(tmp_path: Path) -> AsyncIterator[TestCluster]:
    async with open_cluster(tmp_path / "tree") as opened:
        yield opened


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
