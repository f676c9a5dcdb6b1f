"""Requests that arrive late and answers that never do: nothing is written twice, and no producer of the past ends or
enlarges a transaction of its successor.

A commit that comes late from the same producer with the same epoch is not told from one that comes in time: only the
protocol of KIP-890's second part, with an epoch for each transaction, can do that.
"""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from ottla.client.errors import ConnectionLost
from ottla.errors import OutOfOrderSequenceNumber
from ottla.wire.k26_end_txn import END_TXN
from tests.faults.broker.load import CLIENT, CONSUMER, PRODUCER
from tests.faults.broker.settings import COORDINATORS
from tests.peers.ottla import Broker, Brokers
from tests.peers.proxy import PRODUCE, CuttingProxy, HoldingProxy
from tests.peers.skips import require
from tests.support.client import Client, batch, connect, values
from tests.support.producers import retried
from tests.support.transactions import COMMITTED, describe, init, last_offset, nothing_hangs
from tests.support.waiting import PATIENCE_S, eventually

try:
    import confluent_kafka as ck
except ImportError:
    ck = None

pytestmark = pytest.mark.clients
WINDOW = 5  # batches of a producer that are recognised, as in Kafka


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if ck is None:
        require("clients", "confluent-kafka is absent")
    with Brokers(tmp_path_factory.mktemp("delays")) as brokers:
        broker = brokers(settings=COORDINATORS)
        yield broker
        assert "Traceback" not in broker.output()


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    with connect(broker) as client:
        yield client


def transactional(bootstrap: str, name: str) -> "ck.Producer":
    """A producer that has begun a transaction."""
    options = {"transactional.id": name, "message.timeout.ms": 60_000}
    producer = ck.Producer({"bootstrap.servers": bootstrap, **CLIENT, **PRODUCER, **options})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    return producer


def committed(broker: Broker, topic: str) -> list[bytes]:
    """The values that readers of committed records get up to where they have to stop."""
    with connect(broker) as client:
        end = last_offset(client, topic, COMMITTED)
    consumer = ck.Consumer({"bootstrap.servers": broker.bootstrap, **CLIENT, **CONSUMER, "group.id": "judge"})
    consumer.assign([ck.TopicPartition(topic, 0, 0)])
    found: list[bytes] = []

    def is_read() -> bool:
        messages = consumer.consume(100, 0.1)
        assert [message.error() for message in messages if message.error()] == []
        found.extend(message.value() for message in messages)
        return consumer.position([ck.TopicPartition(topic, 0)])[0].offset >= end

    if end > 0:
        eventually("all that is committed", is_read, PATIENCE_S)
    consumer.close()
    return found


class Ending(threading.Thread):
    """Commits on a thread of its own, and keeps what became of it."""

    def __init__(self, producer: "ck.Producer") -> None:
        super().__init__(daemon=True)
        self.producer = producer
        self.error: ck.KafkaException | None = None

    def run(self) -> None:
        try:
            self.producer.commit_transaction(PATIENCE_S)
        except ck.KafkaException as error:
            self.error = error


def test_the_commit_of_a_replaced_producer_arrives_in_the_next_transaction(broker: Broker, client: Client) -> None:
    client.create("late-commit")
    with HoldingProxy(broker.port, END_TXN.key) as proxy:
        old = transactional(proxy.bootstrap, "late-commit")
        old.produce("late-commit", b"old")
        assert old.flush(PATIENCE_S) == 0
        ending = Ending(old)
        ending.start()
        assert proxy.holds.wait(PATIENCE_S)
        new = transactional(broker.bootstrap, "late-commit")
        new.produce("late-commit", b"new")
        assert new.flush(PATIENCE_S) == 0
        proxy.release()
        ending.join(PATIENCE_S)
    assert ending.error is not None
    assert ending.error.args[0].fatal(), ending.error
    assert describe(client, "late-commit").transaction_state == "Ongoing"
    assert committed(broker, "late-commit") == []
    new.produce("late-commit", b"more")
    new.commit_transaction(PATIENCE_S)
    assert committed(broker, "late-commit") == [b"new", b"more"]
    nothing_hangs(client, "late-commit")


def test_records_of_a_replaced_producer_arrive_in_the_next_transaction(broker: Broker, client: Client) -> None:
    client.create("late-records")
    with HoldingProxy(broker.port, PRODUCE) as proxy:
        old = transactional(proxy.bootstrap, "late-records")
        old.produce("late-records", b"old")
        old.poll(0)
        assert proxy.holds.wait(PATIENCE_S)
        new = transactional(broker.bootstrap, "late-records")
        new.produce("late-records", b"new")
        assert new.flush(PATIENCE_S) == 0
        proxy.release()
        with pytest.raises(ck.KafkaException, match="fenced"):
            old.commit_transaction(PATIENCE_S)
        new.commit_transaction(PATIENCE_S)
    assert values(client.fetch("late-records")) == [b"new"]
    assert committed(broker, "late-records") == [b"new"]
    nothing_hangs(client, "late-records")


def test_batches_that_are_sent_again_after_a_kill(brokers: Brokers) -> None:
    """The answer to the last one was lost with the process. What it knew of producers is in the log."""
    broker = brokers(settings=COORDINATORS)
    count = 9
    with connect(broker) as client:
        client.create("again")
        # Others' records between, so that offsets are not sequence numbers.
        client.produce("again", batch(b"another's", b"another's"))
        producer_id = init(client, None).producer_id
    with CuttingProxy(broker.port, {count}) as proxy:
        with closing(Client.connect("127.0.0.1", proxy.port, "test")) as client:
            answers = [retried(client, "again", producer_id, sequence) for sequence in range(count - 1)]
            assert answers == [(0, sequence + 2) for sequence in range(count - 1)]
            with pytest.raises(ConnectionLost):
                retried(client, "again", producer_id, count - 1)
        assert proxy.lost == 1
    broker.kill()
    broker = brokers.restart(broker, settings=COORDINATORS)
    with connect(broker) as client:
        for sequence in range(count - 1, count - 1 - WINDOW, -1):
            assert retried(client, "again", producer_id, sequence) == (0, sequence + 2)
        assert retried(client, "again", producer_id, count - 1 - WINDOW)[0] == OutOfOrderSequenceNumber.code
        assert retried(client, "again", producer_id, count + 1)[0] == OutOfOrderSequenceNumber.code
        assert retried(client, "again", producer_id, count) == (0, count + 2)
        expected = [b"another's"] * 2 + [b"%d" % sequence for sequence in range(count + 1)]
        assert values(client.fetch("again")) == expected


def test_lost_answers_and_kills_under_an_idempotent_producer(brokers: Brokers) -> None:
    broker = brokers(settings=COORDINATORS)
    with connect(broker) as client:
        client.create("once")
    offsets: dict[int, int] = {}
    errors: list[object] = []

    def delivered(number: int) -> object:
        def told(error: object, message: "ck.Message") -> None:
            errors.append(error) if error is not None else offsets.update({number: message.offset()})

        return told

    with CuttingProxy(broker.port, range(3, 10_000, 7)) as proxy:
        producer = ck.Producer({"bootstrap.servers": proxy.bootstrap, **CLIENT, **PRODUCER, "batch.num.messages": 5})
        for number in range(400):
            producer.produce("once", str(number), partition=0, on_delivery=delivered(number))
            producer.poll(0.002)
            if number % 200 == 199:
                broker.kill()
                broker = brokers.restart(broker, settings=COORDINATORS)
        assert producer.flush(PATIENCE_S) == 0
        assert proxy.lost > 3
    assert errors == []
    with connect(broker) as client:
        assert values(client.fetch("once")) == [b"%d" % number for number in range(400)]
    assert [offsets[number] for number in range(400)] == [*range(400)]
