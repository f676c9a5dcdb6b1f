"""`broker.clock`: which times of a broker jump with it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from tests.support.faulty import asked_of_python, connect, produced, served_alone
from tests.support.waiting import PATIENCE_S, eventually

HOUR_S = 3600.0
SETTINGS = {
    "log.retention.check.interval.ms": 20,
    "offsets.retention.minutes": 60,
    "offsets.retention.check.interval.ms": 20,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 20,
}


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(SETTINGS) as broker:
        yield broker


def written_at(broker: ottla.Broker) -> float:
    """The time that the broker gives to a record, in seconds."""
    with connect(broker) as client:
        assert produced(client) == 0
    with broker.log("t") as log:
        *_, last = log.records()
    return last.timestamp_ms / 1000


def is_now(broker: ottla.Broker) -> bool:
    """True if the broker gives the time of its clock to records."""
    before = broker.clock.now
    # Less than a millisecond is cut off.
    return before - 0.001 <= written_at(broker) <= broker.clock.now


def test_records_get_the_time_of_the_clock(broker: ottla.Broker) -> None:
    broker.create_topic("t", settings={"message.timestamp.type": "LogAppendTime"})
    assert is_now(broker)
    broker.clock.jump(2 * HOUR_S)
    assert broker.clock.ahead == 2 * HOUR_S
    assert is_now(broker)
    broker.clock.jump(-3 * HOUR_S)
    assert broker.clock.ahead == -HOUR_S
    assert is_now(broker)
    broker.restart()
    assert is_now(broker)
    broker.clock.reset()
    assert broker.clock.ahead == 0
    assert is_now(broker)


def test_records_that_come_by_a_lease_get_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_LEASES", "on")
    asked = asked_of_python(monkeypatch)
    with ottla.Broker() as broker, connect(broker) as client:
        broker.create_topic("t", settings={"message.timestamp.type": "LogAppendTime"})
        broker.clock.jump(HOUR_S)
        before = broker.clock.now
        eventually("a lease", lambda: served_alone(client, asked))
        with broker.log("t") as log:
            *_, last = log.records()
        assert before - 0.001 <= last.timestamp_ms / 1000 <= broker.clock.now


def test_a_record_too_far_from_the_clock_is_refused(broker: ottla.Broker) -> None:
    broker.create_topic("t", settings={"message.timestamp.difference.max.ms": 60_000})
    ck = pytest.importorskip("confluent_kafka")
    told = []
    producer = ck.Producer({"bootstrap.servers": broker.bootstrap_servers})
    for ahead in (0, HOUR_S):
        broker.clock.jump(ahead)
        producer.produce("t", b"1", on_delivery=lambda error, _: told.append(error and error.name()))
        assert producer.flush(PATIENCE_S) == 0
    assert told == [None, "INVALID_TIMESTAMP"]


def test_records_grow_old(broker: ottla.Broker) -> None:
    broker.create_topic("t", settings={"retention.ms": 3_600_000, "message.timestamp.type": "LogAppendTime"})
    written_at(broker)
    broker.clock.jump(2 * HOUR_S)

    def start() -> int:
        with broker.log("t") as log:
            return log.start_offset

    eventually("the record is deleted", lambda: start() == 1)
    assert is_now(broker)
    assert start() == 1


def test_committed_offsets_grow_old(broker: ottla.Broker) -> None:
    """Those of an hour ago are forgotten, and those of now are not: commits have the time of the clock, too."""
    ck = pytest.importorskip("confluent_kafka")
    broker.create_topic("t")
    older, newer = (ck.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": name}) for name in "ab")

    def commit(consumer: Any) -> None:
        consumer.commit(offsets=[ck.TopicPartition("t", 0, 7)], asynchronous=False)

    def committed(consumer: Any) -> int:
        (place,) = consumer.committed([ck.TopicPartition("t", 0)], PATIENCE_S)
        return int(place.offset)

    broker.clock.jump(2 * HOUR_S)
    commit(older)
    broker.clock.jump(0.7 * HOUR_S)
    commit(newer)
    assert (committed(older), committed(newer)) == (7, 7)
    broker.clock.jump(0.7 * HOUR_S)
    eventually("the older one is forgotten", lambda: committed(older) == ck.OFFSET_INVALID)
    assert committed(newer) == 7
    older.close()
    newer.close()


def test_transactions_time_out(broker: ottla.Broker) -> None:
    ck = pytest.importorskip("confluent_kafka")
    broker.create_topic("t")
    producer = ck.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x", "transaction.timeout.ms": 600_000}
    )
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("t", b"1")
    assert producer.flush(PATIENCE_S) == 0
    broker.clock.jump(HOUR_S)

    def ends() -> int:
        with broker.log("t") as log:
            return log.end_offset

    eventually("a mark of the abort", lambda: ends() == 2)
    with pytest.raises(ck.KafkaException):
        producer.commit_transaction(PATIENCE_S)


def test_each_broker_has_its_own() -> None:
    with ottla.Broker(SETTINGS) as one, ottla.Broker(SETTINGS) as other:
        for broker in (one, other):
            broker.create_topic("t", settings={"message.timestamp.type": "LogAppendTime"})
        one.clock.jump(HOUR_S)
        assert is_now(one)
        assert is_now(other)
        assert (one.clock.ahead, other.clock.ahead) == (HOUR_S, 0)
        assert repr(one.clock) == "<clock, 3600 s ahead>"


@pytest.mark.parametrize("seconds", [math.nan, math.inf, 1e12, -1e12])
def test_a_clock_stays_in_its_century(broker: ottla.Broker, seconds: float) -> None:
    with pytest.raises(ValueError, match="at most 50 years"):
        broker.clock.jump(seconds)
    assert broker.clock.ahead == 0
