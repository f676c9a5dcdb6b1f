"""A broker whose faults are tried, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ottla
from tests.support.client import Client
from tests.support.faulty import connect


@pytest.fixture(scope="package")
def shared() -> Iterator[ottla.Broker]:
    with ottla.Broker() as broker:
        broker.create_topic("t", 2)
        broker.create_topic("u")
        yield broker


@pytest.fixture
def broker(shared: ottla.Broker) -> Iterator[ottla.Broker]:
    yield shared
    shared.faults.clear()


@pytest.fixture
def client(broker: ottla.Broker) -> Iterator[Client]:
    with connect(broker) as client:
        yield client
