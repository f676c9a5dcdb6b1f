"""Apache Kafka and Ottla on the same data directory: transactions that one wrote are to the other what they were."""

from typing import Any

import confluent_kafka as ck
import pytest

from ottla.wire.k01_fetch import FetchablePartitionResponse
from tests.peers.apache import Apache, Kafka
from tests.peers.ottla import Broker, Brokers
from tests.support.client import connect
from tests.support.kafka_on_our_disk import SMALL, accepted_by_dump_log, kill, start_kafka
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]
TOPIC = "bank"
SETTINGS = {
    **SMALL,
    "log.segment.bytes": 10_000,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
}


def producer(broker: Broker | Kafka, transactional_id: str) -> ck.Producer:
    made = ck.Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 600_000,
            "linger.ms": 0,
        }
    )
    made.init_transactions(PATIENCE_S)
    return made


def write(broker: Broker | Kafka, first: int, count: int) -> list[bytes]:
    """Transactions of two producers between each other, every third aborted; the values of the others."""
    senders = [producer(broker, f"{first}-{number}") for number in range(2)]
    committed = []
    for number in range(first, first + count, 2):
        for sender in senders:
            sender.begin_transaction()
        values: list[list[bytes]] = [[], []]
        for turn in range(3):
            for which, sender in enumerate(senders):
                value = b"%d-%d-%d " % (number, which, turn) * (1 + number % 40)
                sender.produce(TOPIC, value, partition=0)
                assert sender.flush(PATIENCE_S) == 0
                values[which].append(value)
        for which, sender in enumerate(senders):
            if (number // 2 + which) % 3 == 0:
                sender.abort_transaction(PATIENCE_S)
                values[which] = []
            else:
                sender.commit_transaction(PATIENCE_S)
        committed += [value for turn in range(3) for taken in values for value in taken[turn : turn + 1]]
    return committed


def leave_open(broker: Broker | Kafka, transactional_id: str) -> None:
    """A transaction whose producer goes away without a word."""
    sender = producer(broker, transactional_id)
    sender.begin_transaction()
    sender.produce(TOPIC, b"undecided", partition=0)
    assert sender.flush(PATIENCE_S) == 0


def rows(broker: Broker | Kafka) -> dict[int, FetchablePartitionResponse]:
    """The answers to a reader of committed records from many offsets on, until the last stable offset."""
    found: dict[int, Any] = {}
    with connect(broker) as client:  # type: ignore[arg-type]
        offset, stable = 0, 1
        while offset < stable:
            answer = client.fetch(TOPIC, offset, isolation_level=1, max_bytes=1000 + 700 * (offset % 5))
            found[offset] = answer.responses[0].partition_responses[0]
            assert found[offset].error_code == 0
            stable = found[offset].last_stable_offset
            offset += 3
    return found


def consume(broker: Broker | Kafka, count: int) -> list[bytes]:
    consumer = ck.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([ck.TopicPartition(TOPIC, 0, 0)])
    seen = []
    while True:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"{len(seen)} of {count}"
        if message.error():
            assert message.error().code() == ck.KafkaError._PARTITION_EOF
            consumer.close()
            return seen
        seen.append(message.value())


def aborted(row: FetchablePartitionResponse) -> set[tuple[int, int]]:
    return {(one.producer_id, one.first_offset) for one in row.aborted_transactions or []}


def the_same(broker: Broker | Kafka, other: Broker | Kafka | None, known: Any, expected: list[bytes]) -> Any:
    """The broker serves exactly `expected`, and fetch by fetch what the one before it on this directory served."""
    assert consume(broker, len(expected)) == expected
    served = rows(broker)
    if other is not None:
        assert served.keys() == known.keys()
        for offset, row in served.items():
            assert row.record_set == known[offset].record_set
            assert (row.last_stable_offset, row.high_watermark) == (
                known[offset].last_stable_offset,
                known[offset].high_watermark,
            )
            # Kafka may name a few that begin behind what it returns: it goes by its sparse index.
            ours, theirs = (row, known[offset]) if isinstance(broker, Broker) else (known[offset], row)
            assert aborted(ours) <= aborted(theirs), offset
    return served


@pytest.mark.judge
def test_transactions_stay_what_they_were(brokers: Brokers, kafka: Apache, zookeeper: str) -> None:
    ours = brokers(broker_id=1, zookeeper=zookeeper, settings=SETTINGS)
    with connect(ours) as client:
        client.create(TOPIC, retention_ms="-1")
    expected = write(ours, 0, 60)
    leave_open(ours, "left by us")
    behind = write(ours, 60, 10)
    served = the_same(ours, None, None, expected)
    ours.stop()
    endings = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")
    files = [file for file in ours.data.glob(f"{TOPIC}-0/*") if file.suffix in endings]
    assert len([file for file in files if file.suffix == ".txnindex"]) > 3
    accepted_by_dump_log("2.7.2", files)

    theirs = start_kafka(kafka, "2.7.2", zookeeper, ours.data)
    the_same(theirs, ours, served, expected)
    # Whoever takes the id again ends what was open.
    producer(theirs, "left by us")
    expected += behind
    assert consume(theirs, len(expected)) == expected
    expected += write(theirs, 100, 40)
    leave_open(theirs, "left by them")
    behind = write(theirs, 140, 10)
    served = the_same(theirs, None, None, expected)
    kill(theirs, zookeeper)

    ours = brokers(broker_id=1, zookeeper=zookeeper, settings=SETTINGS, data=ours.data)
    the_same(ours, theirs, served, expected)
    producer(ours, "left by them")
    expected += behind
    served = the_same(ours, None, None, expected)
    kill(ours, zookeeper)

    theirs = start_kafka(kafka, "2.7.2", zookeeper, ours.data)
    the_same(theirs, ours, served, expected)
