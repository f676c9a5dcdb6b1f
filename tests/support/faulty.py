"""A broker inside the test's program whose faults are tried."""

from __future__ import annotations

from typing import Any

import pytest

import ottla
from ottla.broker.api import k00_produce, k01_fetch
from tests.support.client import Client, batch


def connect(broker: ottla.Broker, client_id: str = "test") -> Client:
    return Client.connect(broker.host, broker.port, client_id)


def produced(client: Client, topic: str = "t", partition: int = 0, **options: Any) -> int:
    """The error code of a Produce."""
    ((row,),) = [
        topic.partitions for topic in client.produce(topic, batch(b"1"), partition=partition, **options).responses
    ]
    return row.error_code


def end(broker: ottla.Broker, topic: str = "t", partition: int = 0) -> int:
    with broker.log(topic, partition) as log:
        return log.end_offset


def asked_of_python(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of brokers that start from now on: the names of APIs of Produces and Fetches, as they come to Python."""
    found: list[str] = []
    for module in (k00_produce, k01_fetch):

        def noted(call: Any, rooms: Any, handle: Any = module.handle) -> None:
            found.append(call.api.name)
            handle(call, rooms)

        monkeypatch.setattr(module, "handle", noted)
    return found


def served_alone(client: Client, asked: list[str]) -> bool:
    """True if a Produce was served by the hub. After a slow write the next one is not, although it could be."""
    before = len(asked)
    assert produced(client, acks=1) == 0
    return len(asked) == before


def rows(response: Any, partitions: str = "partitions") -> list[tuple[str, int, int]]:
    topics = getattr(response, "topics", None) or response.responses
    found = [(topic, row) for topic in topics for row in getattr(topic, partitions)]
    return sorted(
        (
            getattr(topic, "name", None) or topic.topic,
            getattr(row, "partition_index", None) or getattr(row, "partition", 0),
            row.error_code,
        )
        for topic, row in found
    )
