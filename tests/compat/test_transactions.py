"""Transactions as other people's clients make them: what is committed is read, once, and what is not is never read.

One broker for all; readers are confluent-kafka's, with isolation.level=read_committed unless it says otherwise.
"""

import time
from collections.abc import Iterator

import confluent_kafka as ck
import pytest
from confluent_kafka import admin

from tests.peers.ottla import Broker, Brokers
from tests.support.confluent import SETTINGS, _names, create, producer, read, read_until, send
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Brokers(tmp_path_factory.mktemp("transactions")) as brokers:
        broker = brokers(settings=SETTINGS)
        yield broker
        assert "Traceback" not in broker.output()


@pytest.fixture
def topic(shared: Broker) -> str:
    return create(shared)


def code(failed: pytest.ExceptionInfo[ck.KafkaException]) -> str:
    return str(failed.value.args[0].name())


def test_committed_is_read_and_aborted_is_not(shared: Broker, topic: str) -> None:
    sender = producer(shared, topic)
    wanted = []
    for turn in range(6):
        values = [f"{turn} {index}" for index in range(50)]
        sender.begin_transaction()
        send(sender, topic, *values)
        if turn % 3 == 1:
            sender.abort_transaction(PATIENCE_S)
        else:
            sender.commit_transaction(PATIENCE_S)
            wanted += values
    read_until(shared, topic, wanted)
    assert len(read(shared, topic, committed=False)) == 300


def test_an_open_transaction_is_not_read(shared: Broker, topic: str) -> None:
    sender = producer(shared, topic)
    sender.begin_transaction()
    send(sender, topic, "a", "b", "c")
    assert read(shared, topic) == []
    assert read(shared, topic, committed=False) == ["a", "b", "c"]
    sender.commit_transaction(PATIENCE_S)
    read_until(shared, topic, ["a", "b", "c"])


def test_a_zombie_is_fenced_and_what_it_wrote_is_aborted(shared: Broker, topic: str) -> None:
    zombie = producer(shared, topic)
    zombie.begin_transaction()
    send(zombie, topic, "zombie")
    newer = producer(shared, topic)
    newer.begin_transaction()
    send(newer, topic, "newer")
    with pytest.raises(ck.KafkaException) as failed:
        zombie.commit_transaction(PATIENCE_S)
    assert code(failed) == "_FENCED"
    assert failed.value.args[0].fatal()
    newer.commit_transaction(PATIENCE_S)
    read_until(shared, topic, ["newer"])


def test_a_zombie_cannot_write(shared: Broker, topic: str) -> None:
    zombie = producer(shared, topic)
    zombie.begin_transaction()
    send(zombie, topic, "before")
    newer = producer(shared, topic)
    with pytest.raises(ck.KafkaException):
        send(zombie, topic, "after")
    newer.begin_transaction()
    send(newer, topic, "newer")
    newer.commit_transaction(PATIENCE_S)
    read_until(shared, topic, ["newer"])
    assert "after" not in read(shared, topic, committed=False)


def test_a_transaction_times_out(shared: Broker, topic: str) -> None:
    slow = producer(shared, topic, transaction_timeout_ms=1000)
    slow.begin_transaction()
    send(slow, topic, "slow")
    other = producer(shared, next(_names))
    other.begin_transaction()
    send(other, topic, "other")
    other.commit_transaction(PATIENCE_S)
    read_until(shared, topic, ["other"])  # it stands behind the slow one
    with pytest.raises(ck.KafkaException) as failed:
        slow.commit_transaction(PATIENCE_S)
    assert code(failed) == "_FENCED"


def test_a_timeout_longer_than_allowed(shared: Broker) -> None:
    with pytest.raises(ck.KafkaException) as failed:
        producer(shared, next(_names), transaction_timeout_ms=900_001)
    assert code(failed) == "INVALID_TRANSACTION_TIMEOUT"


def test_a_topic_that_goes_away_holds_nothing_up(shared: Broker, topic: str) -> None:
    doomed = create(shared)
    sender = producer(shared, topic)
    sender.begin_transaction()
    send(sender, topic, "stays")
    send(sender, doomed, "goes")
    client = admin.AdminClient({"bootstrap.servers": shared.bootstrap})
    client.delete_topics([doomed])[doomed].result(PATIENCE_S)
    sender.commit_transaction(PATIENCE_S)
    sender.begin_transaction()
    send(sender, topic, "goes on")
    sender.commit_transaction(PATIENCE_S)
    read_until(shared, topic, ["stays", "goes on"])


def test_consumed_and_produced_together(shared: Broker, topic: str) -> None:
    """send_offsets_to_transaction: each input is answered once, although a third of the transactions abort and half
    of the way another process takes over.
    """
    source = create(shared)
    sender = producer(shared, source)
    sender.begin_transaction()
    send(sender, source, *map(str, range(300)))
    sender.commit_transaction(PATIENCE_S)
    settings = {
        "bootstrap.servers": shared.bootstrap,
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    done, turn, deadline = 0, 0, time.monotonic() + PATIENCE_S
    for share in (150, 300):
        worker, consumer = producer(shared, topic), ck.Consumer(settings)
        consumer.subscribe([source])
        while done < share:
            assert time.monotonic() < deadline
            messages = [message for message in consumer.consume(25, 0.2) if message.error() is None]
            if not messages:
                continue
            before = consumer.position(consumer.assignment())
            worker.begin_transaction()
            send(worker, topic, *(f"answer to {message.value().decode()}" for message in messages))
            worker.send_offsets_to_transaction(before, consumer.consumer_group_metadata(), PATIENCE_S)
            turn += 1
            if turn % 3 == 0:
                worker.abort_transaction(PATIENCE_S)
                for place in consumer.committed(consumer.assignment(), PATIENCE_S):
                    place.offset = max(place.offset, 0)
                    consumer.seek(place)
            else:
                worker.commit_transaction(PATIENCE_S)
                done += len(messages)
        consumer.close()
    read_until(shared, topic, [f"answer to {number}" for number in range(300)])
    assert len(read(shared, topic, committed=False)) > 300


def test_a_killed_broker_goes_on_with_open_transactions(brokers: Brokers) -> None:
    """Half of them are committed right before, so that markers may be missing; the rest after."""
    broker = brokers(settings=SETTINGS)
    topic = create(broker)
    senders = [producer(broker, next(_names)) for _ in range(8)]
    for number, sender in enumerate(senders):
        sender.begin_transaction()
        send(sender, topic, *(f"{number} {index}" for index in range(9)))
    for sender in senders[:4]:
        sender.commit_transaction(PATIENCE_S)
    broker.kill()
    broker = brokers.restart(broker, settings=SETTINGS)
    for sender in senders[4:6]:
        sender.commit_transaction(PATIENCE_S)
    for sender in senders[6:]:
        sender.abort_transaction(PATIENCE_S)
    read_until(broker, topic, [f"{number} {index}" for number in range(6) for index in range(9)])
