"""Brokers with an authorizer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.authorization.ruled import Ruled, settings
from tests.peers.apache import Apache
from tests.peers.ottla import Brokers
from tests.peers.ports import free_port

USERS = ("root", "alice", "bob", "carol", "describer", "alterer")


@pytest.fixture(
    scope="package",
    params=["ottla", pytest.param("apache", marks=[pytest.mark.java, pytest.mark.judge])],
)
def ruled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ruled]:
    """Ottla's broker, and Kafka's 2.7.2."""
    folder = tmp_path_factory.mktemp(f"ruled-{request.param}")
    plaintext, sasl = free_port(), free_port()
    given = settings(plaintext, sasl, USERS)
    found = Ruled(plaintext, sasl)
    if request.param == "ottla":
        with Brokers(folder) as brokers:
            brokers(port=plaintext, settings=given)
            yield found
    else:
        with Apache(folder) as apache:
            apache.broker("2.7.2", zookeeper=apache.zookeeper("2.7.2"), port=plaintext, settings=given)
            found.settle()
            yield found
