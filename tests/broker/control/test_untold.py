"""A broker that the controller does not reach says so while it waits."""

from pathlib import Path

import pytest
import trio

from ottla.broker import untold
from ottla.broker.broker import Broker
from ottla.config import BrokerConfig
from ottla.controller import prepare
from ottla.coordination import znodes
from ottla.coordination.znodes import BrokerRegistration, Endpoint
from ottla.coordination.zookeeper import ZooKeeperTree
from tests.peers.ports import free_port
from tests.support.waiting import PATIENCE_S, comes_true


async def hears_nothing(caplog: pytest.LogCaptureFixture, settings: dict[str, str], *words: str) -> None:
    config = BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0", **settings})

    async def start() -> None:
        async with Broker.start(config):
            raise AssertionError("nobody has told it that it is alive")

    def line() -> str:
        return next((each for each in caplog.messages if "told this broker nothing yet" in each), "")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(start)
        await comes_true("a line", lambda: bool(line()))
        assert [word for word in (*words, "advertised.listeners") if word not in line()] == []
        nursery.cancel_scope.cancel()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untold, "UNTOLD_SECONDS", 0.1)


@pytest.mark.trio
async def test_alone_at_an_address_that_leads_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = untold._controller

    async def elected(broker: Broker) -> str:
        """The line is written when the controller is elected, however long that takes here."""
        await comes_true("a controller", lambda: broker.controller.is_active)
        return await named(broker)

    monkeypatch.setattr(untold, "_controller", elected)
    nowhere = f"PLAINTEXT://127.0.0.1:{free_port()}"
    settings = {"log.dirs": str(tmp_path), "broker.id": "4", "advertised.listeners": nowhere}
    await hears_nothing(caplog, settings, "controller 4, in this process", nowhere)


@pytest.mark.trio
@pytest.mark.zookeeper
async def test_the_controller_is_named(tmp_path: Path, zookeeper: str, caplog: pytest.LogCaptureFixture) -> None:
    there, here = "PLAINTEXT://elsewhere.example:9092", "PLAINTEXT://here.example:1234"
    settings = {"log.dirs": str(tmp_path), "broker.id": "4", "zookeeper.connect": zookeeper}
    async with await ZooKeeperTree.connect(zookeeper) as tree:
        await prepare(tree)
        data = BrokerRegistration((Endpoint("PLAINTEXT", "elsewhere.example", 9092),)).encode()
        await tree.create(znodes.broker_path(1), data, ephemeral=True)
        await tree.create(znodes.CONTROLLER, b'{"version":1,"brokerid":1,"timestamp":"1"}', ephemeral=True)
        await hears_nothing(caplog, settings | {"advertised.listeners": here}, f"controller 1 at {there}", here)


@pytest.mark.trio
async def test_who_is_told_says_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(untold, "UNTOLD_SECONDS", PATIENCE_S)  # a busy machine tells it late
    config = BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)})
    async with Broker.start(config) as broker:
        await untold.say_so(broker)
    assert "told this broker nothing" not in caplog.text
