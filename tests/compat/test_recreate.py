"""A topic is deleted and made again under the same name while clients produce and consume: they recover by themselves,
and what they get is the new topic's. Then it grows, and they find the new partition.
"""

import contextlib
import itertools
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

from tests.peers.apache import SCRIPT, environment, fetch, need_java
from tests.peers.ottla import Broker, Brokers
from tests.support.waiting import PATIENCE_S, eventually

TOPIC = "phoenix"

Produce = Callable[[str], None]
"""Sends a value and, except for Java's console, waits until the broker has it."""
Poll = Callable[[], list[str]]
"""Values that came since."""


@contextlib.contextmanager
def confluent(bootstrap: str) -> Iterator[tuple[Produce, Poll]]:
    """Idempotent: its sequence numbers go on in the new topic."""
    common = {"bootstrap.servers": bootstrap, "topic.metadata.refresh.interval.ms": 200, "log_level": 0}
    producer = confluent_kafka.Producer({**common, "enable.idempotence": True, "message.timeout.ms": PATIENCE_S * 1000})
    consumer = confluent_kafka.Consumer({**common, "group.id": "confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])

    def produce(value: str) -> None:
        failed: list[object] = []
        producer.produce(TOPIC, value, on_delivery=lambda error, _: failed.append(error))
        assert producer.flush(PATIENCE_S) == 0
        assert failed == [None]

    def poll() -> list[str]:
        message = consumer.poll(0.2)
        return [] if message is None or message.error() else [message.value().decode()]

    try:
        yield produce, poll
    finally:
        consumer.close()


@contextlib.contextmanager
def kafka_python(bootstrap: str) -> Iterator[tuple[Produce, Poll]]:
    import kafka

    common: dict[str, Any] = {"bootstrap_servers": bootstrap, "metadata_max_age_ms": 200}
    producer = kafka.KafkaProducer(**common, acks="all", retries=1000, retry_backoff_ms=100)
    consumer = kafka.KafkaConsumer(TOPIC, **common, group_id="kafka-python", auto_offset_reset="earliest")

    def produce(value: str) -> None:
        producer.send(TOPIC, value.encode()).get(PATIENCE_S)

    def poll() -> list[str]:
        # Longer than it takes to join: a poll that ends meanwhile, after metadata of the client's own began it, forgets
        # that it joins, and sends no heartbeats any more (kafka-python 3.0.12).
        return [row.value.decode() for rows in consumer.poll(10_000).values() for row in rows]

    try:
        yield produce, poll
    finally:
        # Their threads would try for ever to reach a broker that is gone, and leave sockets behind.
        producer.close()
        consumer.close()


def java(version: str) -> Callable[[str], contextlib.AbstractContextManager[tuple[Produce, Poll]]]:
    """The console producer and consumer, each a process that goes on through everything."""

    def start(name: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(SCRIPT), "tool", version, name, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **environment(192)},
        )

    @contextlib.contextmanager
    def run(bootstrap: str) -> Iterator[tuple[Produce, Poll]]:
        need_java()
        fetch(version)
        common = ("--bootstrap-server", bootstrap, "--topic", TOPIC)
        # Its own timeout of 1.5 s makes duplicates where a machine stands still for so long.
        properties = ("metadata.max.age.ms=200", "request.timeout.ms=30000")
        producer = start(
            "console-producer", *common, *(word for one in properties for word in ("--producer-property", one))
        )
        consumer = start(
            "console-consumer",
            *(*common, "--from-beginning", "--consumer-property", "metadata.max.age.ms=200"),
        )
        lines: queue.Queue[str] = queue.Queue()
        assert consumer.stdout is not None
        reader = threading.Thread(target=lambda: [lines.put(line.rstrip("\n")) for line in consumer.stdout or ()])
        reader.start()

        def produce(value: str) -> None:
            assert producer.stdin is not None
            producer.stdin.write(f"{value}\n")
            producer.stdin.flush()

        def poll() -> list[str]:
            with contextlib.suppress(queue.Empty):
                return [lines.get(timeout=0.2)]
            return []

        try:
            yield produce, poll
        finally:
            for process in (producer, consumer):
                process.kill()
                process.communicate()
            reader.join()

    return run


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Brokers(tmp_path_factory.mktemp("recreate")) as brokers:
        settings = {"auto.create.topics.enable": "false", "group.initial.rebalance.delay.ms": 0}
        yield brokers(settings=settings)


def receive(poll: Poll, wanted: set[str], unwanted: set[str]) -> None:
    """Polls until all of `wanted` came; what belongs to the topic that is no more must not come."""
    missing = set(wanted)

    def all_came() -> bool:
        came = poll()
        assert not unwanted.intersection(came)
        missing.difference_update(came)
        return not missing

    eventually("all come", all_came, facts=lambda: sorted(missing))


def produced_until_something_comes(produce: Produce, poll: Poll, unwanted: set[str]) -> set[str]:
    """Produces value after value; those that are still to come when the first has come."""
    deadline = time.monotonic() + PATIENCE_S
    for number in itertools.count():
        assert time.monotonic() < deadline, "nothing came"
        produce(f"newer-{number}")
        if came := poll():
            assert not unwanted.intersection(came)
            return {f"newer-{number}"} - set(came)
    raise AssertionError


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "client",
    [
        pytest.param(confluent, id="confluent"),
        pytest.param(kafka_python, id="kafka-python"),
        pytest.param(java("2.7.2"), id="java-2.7.2", marks=[pytest.mark.java, pytest.mark.judge]),
        pytest.param(java("3.9.2"), id="java-3.9.2", marks=pytest.mark.java),
    ],
)
def test_clients_live_through_the_deletion_of_their_topic(
    broker: Broker, client: Callable[[str], contextlib.AbstractContextManager[tuple[Produce, Poll]]]
) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})

    def create() -> None:
        admin.create_topics([confluent_kafka.admin.NewTopic(TOPIC, 1, 1)])[TOPIC].result(PATIENCE_S)

    def delete() -> None:
        admin.delete_topics([TOPIC])[TOPIC].result(PATIENCE_S)

    create()
    try:
        with client(broker.bootstrap) as (produce, poll):
            old = {f"old-{number}" for number in range(20)}
            for value in sorted(old):
                produce(value)
            receive(poll, old, set())
            delete()
            create()
            new = {f"new-{number}" for number in range(5)}
            for value in sorted(new):
                produce(value)
            if client is kafka_python:
                # It names the epoch of its last record (Fetch 12), hears that the log is shorter than it was, and goes
                # on at the log's end: what came before it looked is skipped. So it is with Kafka 2.7.
                new = produced_until_something_comes(produce, poll, old)
            receive(poll, new, old)

            grown = confluent_kafka.admin.NewPartitions(TOPIC, 2)
            admin.create_partitions([grown])[TOPIC].result(PATIENCE_S)
            other = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
            other.produce(TOPIC, "into the new partition", partition=1)
            assert other.flush(PATIENCE_S) == 0
            receive(poll, {"into the new partition"}, old)
    finally:
        delete()
    assert not list(Path(broker.data).glob(f"{TOPIC}-*[0-9]"))
