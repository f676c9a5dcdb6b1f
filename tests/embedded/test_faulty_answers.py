"""Faults that are no errors: answers that are late, or never come, and connections that end."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import ottla
from ottla.errors import NotLeaderOrFollower
from ottla.wire.k03_metadata import METADATA, MetadataRequest
from tests.support.client import Client, batch
from tests.support.faulty import connect, end, produced, rows
from tests.support.waiting import PATIENCE_S

NOT_LEADER = NotLeaderOrFollower.code


def ended(ask: Callable[[], object]) -> bool:
    """True if the connection ends instead of an answer."""
    try:
        ask()
    except ConnectionError:
        return True
    return False


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("error", [None, "NOT_LEADER_OR_FOLLOWER"])
def test_an_answer_is_late(broker: ottla.Broker, client: Client, when: Any, error: str | None) -> None:
    before = end(broker)
    with broker.faults.add("Produce", delay=0.1, when=when, error=error) as fault:
        began = time.monotonic()
        code = produced(client)
        took = time.monotonic() - began
    assert took >= 0.1
    assert code == (0 if error is None else NOT_LEADER)
    assert fault.hits == 1
    assert end(broker) == before + (error is None or when == "after")
    assert produced(client) == 0


def test_a_late_fetch_and_a_late_request_of_another_kind(broker: ottla.Broker, client: Client) -> None:
    assert produced(client) == 0
    with broker.faults.add(client_id="test", delay=0.001) as fault:
        assert rows(client.fetch("t"), "partition_responses") == [("t", 0, 0)]
        assert client.call(METADATA, MetadataRequest(None), 9).brokers
        assert produced(client, acks=1) == 0
        assert fault.hits == 3


@pytest.mark.parametrize("close", ["before", "after"])
@pytest.mark.parametrize("delay", [0, 0.001])
@pytest.mark.parametrize("acks", [-1, 0])
def test_a_connection_is_closed(broker: ottla.Broker, close: Any, delay: float, acks: int) -> None:
    before = end(broker)
    with broker.faults.add("Produce", close=close, delay=delay, times=1) as fault, connect(broker) as client:
        if acks:
            assert ended(lambda: produced(client))
        else:
            client.produce_silently("t", batch(b"1"))
            assert ended(lambda: client.call(METADATA, MetadataRequest([]), 9))
        assert fault.hits == 1
    assert end(broker) == before + (close == "after")
    with connect(broker) as client:
        assert produced(client) == 0


class Unanswered:
    """A client that asks in a thread, and gets no answer while its broker lives."""

    def __init__(self, broker: ottla.Broker, client_id: str, ask: Callable[[Client], object]) -> None:
        self._broker = broker
        self._client_id = client_id
        self._ask = ask
        self.has_ended: list[bool] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.has_ended.append(ended(self._talk))

    def _talk(self) -> None:
        with connect(self._broker, self._client_id) as client:
            self._ask(client)

    def join(self) -> None:
        """Returns when its connection has ended, without an answer."""
        self._thread.join(PATIENCE_S)
        assert self.has_ended == [True]


@pytest.mark.parametrize("options", [{"answer": False}, {"delay": math.inf}, {"answer": False, "when": "after"}])
def test_nothing_is_answered_until_the_broker_ends(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    # It waits for no answer that will never come.
    monkeypatch.setattr("ottla.broker.broker.DRAIN_SECONDS", math.inf)
    with ottla.Broker() as broker:
        broker.create_topic("t")
        fault = broker.faults.add(client_id="silenced", **options)
        silenced = Unanswered(broker, "silenced", lambda client: client.call(METADATA, MetadataRequest([]), 9))
        fault.wait()
        fault.remove()
        fault = broker.faults.add("Produce", client_id="producer", **options)
        producer = Unanswered(broker, "producer", produced)
        fault.wait()
        with connect(broker) as client:
            assert produced(client) == 0
        assert silenced.has_ended == producer.has_ended == []
        assert end(broker) == 1 + (options.get("when") == "after")
        broker.stop()
        silenced.join()
        producer.join()


def test_a_producer_of_others_tries_again(broker: ottla.Broker) -> None:
    ck = pytest.importorskip("confluent_kafka")
    broker.create_topic("retried")
    faults = [
        broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER", topic="retried", times=1),
        broker.faults.add("Produce", error="REQUEST_TIMED_OUT", topic="retried", times=1, when="after"),
        broker.faults.add("Produce", close="after", topic="retried", times=1),
        broker.faults.add("Metadata", error="LEADER_NOT_AVAILABLE", topic="retried", times=1),
    ]
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "enable.idempotence": True,
        "retry.backoff.ms": 1,
        "reconnect.backoff.ms": 1,
        "topic.metadata.refresh.fast.interval.ms": 10,
    }
    producer = ck.Producer(settings)
    producer.produce("retried", b"1 pear")
    assert producer.flush(PATIENCE_S) == 0
    assert [fault.hits for fault in faults] == [1, 1, 1, 1]
    with broker.log("retried") as log:
        assert [record.value for record in log.records()] == [b"1 pear"]
