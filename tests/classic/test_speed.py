"""How fast 100-byte messages go through, beside kafka-python in the same run; `pytest -s` shows the figures."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from ottla.classic import Consumer, KeyedMessage, Message, Producer, SyncProducer
from tests.classic.conftest import Place, group
from tests.classic.members import QUICK
from tests.peers.skips import module

# kafka-python's own warnings.
pytestmark = [
    pytest.mark.java,
    pytest.mark.zookeeper,
    pytest.mark.clients,
    pytest.mark.soak,
    pytest.mark.filterwarnings("ignore"),
]

VALUE = b"x" * 100
COUNT = 500_000
OTHERS_COUNT = 100_000


def rate(count: int, run: Callable[[], None]) -> float:
    started = time.monotonic()
    run()
    return count / (time.monotonic() - started)


def test_an_asynchronous_producer(ours: Place) -> None:
    kafka: Any = module("clients", "kafka")
    topic = ours.topic()

    def classic() -> None:
        settings = {"metadata.broker.list": ours.bootstrap, "producer.type": "async", "request.required.acks": 1}
        with Producer(settings) as producer:
            for _ in range(COUNT):
                producer.send(KeyedMessage(topic, VALUE))

    def other() -> None:
        producer = kafka.KafkaProducer(bootstrap_servers=ours.bootstrap, acks=1, linger_ms=5)
        for _ in range(OTHERS_COUNT):
            producer.send(topic, VALUE)
        producer.close()

    mine, theirs = rate(COUNT, classic), rate(OTHERS_COUNT, other)
    print(f"\nproducer: {mine:,.0f}/s, kafka-python {theirs:,.0f}/s")
    assert mine > 2 * theirs


def test_a_stream(ours: Place) -> None:
    kafka: Any = module("clients", "kafka")
    topic = ours.topic()
    with SyncProducer("127.0.0.1", ours.port) as producer:
        for _ in range(COUNT // 5000):
            producer.send(topic, [Message(VALUE)] * 5000)
    with Consumer.create({**QUICK, "zookeeper.connect": ours.zookeeper, "group.id": group()}) as connector:
        ((stream,),) = connector.create_message_streams({topic: 1}).values()
        next(stream)

        def classic() -> None:
            for _ in range(COUNT - 1):
                assert next(stream).message

        mine = rate(COUNT, classic)
    reader = kafka.KafkaConsumer(bootstrap_servers=ours.bootstrap)
    reader.assign([kafka.TopicPartition(topic, 0)])
    reader.seek_to_beginning()
    next(reader)

    def other() -> None:
        for _ in range(OTHERS_COUNT):
            assert next(reader).value

    theirs = rate(OTHERS_COUNT, other)
    reader.close()
    print(f"\nstream: {mine:,.0f}/s, kafka-python {theirs:,.0f}/s")
    assert mine > 2 * theirs
