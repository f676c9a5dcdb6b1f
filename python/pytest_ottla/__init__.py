"""Fixtures for pytest: `ottla_broker` is a broker that all tests of a run share, and `ottla_topic` a topic of its own
for each test. Faults (`ottla_broker.faults`), jumps of its clock and pauses end with their test.

Pytest finds them by itself. This package lies beside `ottla`, so that runs that do not use it import nothing of that.

The fixtures are plain functions, so tests may be written for asyncio, anyio or trio as well. With pytest-xdist each
worker has a broker of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.embedded import Broker


#: The broker that tests share, while there is one.
_shared: list[Broker] = []


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """The faults of a test end with it, the clock is right again, and a broker that stood still goes on."""
    for broker in _shared:
        if broker.is_paused:
            broker.resume()
        broker.faults.clear()
        broker.clock.reset()


@pytest.fixture(scope="session")
def ottla_settings() -> Mapping[str, object]:
    """The settings of `ottla_broker`, by Kafka's names. A fixture of this name in a conftest.py takes its place."""
    return {}


@pytest.fixture(scope="session")
def ottla_broker(ottla_settings: Mapping[str, object]) -> Iterator[Broker]:
    """A running broker (`ottla.Broker`), one for the whole run. It starts with the first test that asks for it."""
    from ottla.embedded import Broker

    with Broker(ottla_settings) as broker:
        _shared.append(broker)
        yield broker
        _shared.remove(broker)


@pytest.fixture
def ottla_topic(ottla_broker: Broker) -> str:
    """The name of a topic with one partition that no other test uses."""
    name = f"test-{uuid.uuid4().hex}"
    ottla_broker.create_topic(name)
    return name
