"""Random faults, and that a seed has them again."""

from __future__ import annotations

from collections import Counter

import pytest

import ottla
from ottla.errors import BY_CODE
from ottla.wire.k12_heartbeat import HEARTBEAT, HeartbeatRequest
from tests.support.client import Client
from tests.support.faulty import connect, produced
from tests.support.waiting import PATIENCE_S

COUNT = 100
#: No coordinator answers them to this request.
ERRORS = {"Heartbeat": ["GROUP_AUTHORIZATION_FAILED", "FENCED_INSTANCE_ID"]}


def beats(client: Client) -> list[str]:
    """The answers to requests of an unknown member: the error if it is one of `ERRORS`, else nothing."""
    request = HeartbeatRequest(group_id="nobody", generation_id=1, member_id="m")
    names = [BY_CODE[client.call(HEARTBEAT, request).error_code].name for _ in range(COUNT)]
    return [name if name in ERRORS["Heartbeat"] else "" for name in names]


def test_a_seed_has_the_same_requests_fail_again(broker: ottla.Broker, client: Client) -> None:
    with broker.faults.random(7, 0.3, ERRORS) as faults:
        first = beats(client)
    assert faults.hits == len(faults.met) == COUNT - first.count("")
    assert 0 < faults.hits < COUNT
    assert {one.error for one in faults.met} == {*ERRORS["Heartbeat"]}
    assert {(one.client_id, one.api) for one in faults.met} == {("test", "Heartbeat")}
    assert all(first[one.number - 1] == one.error for one in faults.met)
    with broker.faults.random(7, 0.3, ERRORS) as again, connect(broker, "other") as other:
        # Others and other APIs have their own counts, and so have requests that another fault meets.
        beats(other)
        assert isinstance(produced(client), int)
        assert beats(client) == first
    assert [one for one in again.met if (one.client_id, one.api) == ("test", "Heartbeat")] == faults.met
    with broker.faults.random(8, 0.3, ERRORS):
        assert beats(client) != first


def test_a_request_that_meets_another_fault_counts(broker: ottla.Broker, client: Client) -> None:
    with broker.faults.random(7, 0.3, ERRORS):
        first = beats(client)
    other = broker.faults.add("Heartbeat", error="NOT_COORDINATOR", times=10)
    with broker.faults.random(7, 0.3, ERRORS):
        assert beats(client) == [""] * 10 + first[10:]
    assert other.hits == 10


def test_errors_and_clients_may_be_chosen(broker: ottla.Broker, client: Client) -> None:
    with broker.faults.random(1, 1.0, ERRORS) as faults:
        assert produced(client) == 0
        assert set(beats(client)) == {*ERRORS["Heartbeat"]}
        assert Counter(one.api for one in faults.met) == {"Heartbeat": COUNT}
    with broker.faults.random(1, 1.0, client_id="other") as faults:
        assert produced(client) == 0
        assert faults.hits == 0


def test_a_seed_is_chosen_and_told(broker: ottla.Broker) -> None:
    with broker.faults.random() as one, broker.faults.random() as other:
        assert one.seed != other.seed
        assert repr(one) == f"<random faults of seed {one.seed} in 5% of all requests, 0 hits>"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"share": 1.1}, "share is 1.1; it is a part"),
        ({"errors": {"Prodcue": ["NOT_COORDINATOR"]}}, "no API is called 'Prodcue'"),
        ({"errors": {"Produce": ["NOT_LEADER"]}}, "no error is called 'NOT_LEADER'"),
        ({"errors": {"Produce": "NOT_COORDINATOR"}}, "they are a list of names"),
        ({"errors": {"Produce": []}}, "they are a list of names"),
    ],
)
def test_a_mistake_is_an_error(broker: ottla.Broker, options: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        broker.faults.random(**options)  # type: ignore[arg-type]
    assert len(broker.faults) == 0


def test_a_client_of_others_gets_over_them(broker: ottla.Broker) -> None:
    ck = pytest.importorskip("confluent_kafka")
    broker.create_topic("stormy")
    quick = {
        "bootstrap.servers": broker.bootstrap_servers,
        "retry.backoff.ms": 1,
        "topic.metadata.refresh.fast.interval.ms": 10,
        # A member that divides a topic of which Metadata has just said that nobody leads it gives nobody a part. It
        # looks at Metadata so often again.
        "topic.metadata.refresh.interval.ms": 200,
    }
    values = [b"%d" % number for number in range(30)]
    with broker.faults.random(seed=3, share=0.2) as faults:
        producer = ck.Producer({**quick, "enable.idempotence": True})
        for value in values:
            producer.produce("stormy", value)
            assert producer.flush(PATIENCE_S) == 0
        consumer = ck.Consumer({**quick, "group.id": "stormy", "auto.offset.reset": "earliest"})
        consumer.subscribe(["stormy"])
        found: list[bytes] = []
        while len(found) < len(values):
            (message,) = consumer.consume(1, PATIENCE_S)
            # It is told that there is no such topic now, where Metadata named no leader, and reads on.
            assert message.error() is None or not message.error().fatal(), message.error()
            found += [message.value()] if message.error() is None else []
        consumer.close()
        assert faults.hits > 0
    assert found == values
