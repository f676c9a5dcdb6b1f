"""One broker for a module's tests, and a client that says exactly what a test wants said."""

from collections.abc import Iterator

import pytest

from ottla.replication.leases import SWITCH
from tests.peers.ottla import Broker, Brokers
from tests.support.client import Client, connect


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Brokers(tmp_path_factory.mktemp("broker")) as brokers:
        yield brokers(settings={"log.retention.ms": -1})  # records of 1970 are part of the tests


@pytest.fixture
def leases_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of leases, also in a run that has all others served without."""
    monkeypatch.setenv(SWITCH, "on")


@pytest.fixture
def client(shared_broker: Broker) -> Iterator["Client"]:
    with connect(shared_broker) as client:
        yield client
