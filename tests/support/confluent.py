"""Transactions of confluent-kafka."""

import itertools
import time
from typing import Any

import confluent_kafka as ck
from confluent_kafka import admin

from tests.peers.ottla import Broker
from tests.support.waiting import PATIENCE_S, eventually

PARTITIONS = 3


SETTINGS = {
    "transaction.state.log.num.partitions": 5,
    "offsets.topic.num.partitions": 5,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
    "group.initial.rebalance.delay.ms": 0,
}


_names = (f"name-{number}" for number in itertools.count())


def create(broker: Broker) -> str:
    name = next(_names)
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([admin.NewTopic(name, PARTITIONS, 1)])[name].result(PATIENCE_S)
    return name


def producer(broker: Broker, transactional_id: str, **settings: Any) -> ck.Producer:
    """Initialized: whoever had the id before is fenced."""
    made = ck.Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": transactional_id,
            "linger.ms": 0,
            "retry.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    made.init_transactions(PATIENCE_S)
    return made


def send(sender: ck.Producer, topic: str, *values: str) -> None:
    """Spreads values over the partitions; returns when all are acknowledged."""
    failed: list[Any] = []
    for index, value in enumerate(values):
        sender.produce(
            topic, value.encode(), partition=index % PARTITIONS, on_delivery=lambda e, _: e and failed.append(e)
        )
    assert sender.flush(PATIENCE_S) == 0
    if failed:
        raise ck.KafkaException(failed[0])


def read(broker: Broker, topic: str, *, committed: bool = True) -> list[str]:
    """All values up to the ends that the broker shows to such a reader, sorted."""
    consumer = ck.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "fetch.wait.max.ms": 20,
        }
    )
    consumer.assign([ck.TopicPartition(topic, number, ck.OFFSET_BEGINNING) for number in range(PARTITIONS)])
    values, ends, deadline = [], set(), time.monotonic() + PATIENCE_S
    while len(ends) < PARTITIONS:
        assert time.monotonic() < deadline
        for message in consumer.consume(1000, 0.02):
            error = message.error()
            if error is None:
                values.append(message.value().decode())
            elif error.code() == ck.KafkaError._PARTITION_EOF:
                ends.add(message.partition())
            else:
                raise ck.KafkaException(error)
    consumer.close()
    return sorted(values)


def read_until(broker: Broker, topic: str, wanted: list[str]) -> None:
    """Markers are written after the answer: reads until `wanted` is all there is to read."""
    seen: list[str] = []

    def is_all() -> bool:
        seen[:] = read(broker, topic)
        return seen == sorted(wanted)

    eventually(f"{topic} has what is wanted", is_all, facts=lambda: seen)
