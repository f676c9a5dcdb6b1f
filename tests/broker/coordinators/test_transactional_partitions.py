"""Transactions in partitions of a broker: readers of committed records, markers, and who may not write."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from ottla.errors import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTopic,
    NotEnoughReplicas,
    TransactionalIdAuthorizationFailed,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
    UnsupportedForMessageFormat,
)
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.k01_fetch import FetchResponse
from ottla.wire.k27_write_txn_markers import WRITE_TXN_MARKERS, WriteTxnMarkersRequest
from tests.log.transactions import fill, open_log, write
from tests.peers.ottla import Broker, Brokers
from tests.support.client import Client, batch, connect, values
from tests.support.transactions import COMMITTED, last_offset, mark, producers
from tests.support.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, list[bytes]]]:
    """A broker whose topic `bank` is full of transactions (the last is open), and what of it is committed."""
    with Brokers(tmp_path_factory.mktemp("transactions")) as brokers:
        broker = brokers(settings={"log.retention.ms": -1})
        with connect(broker) as client:
            for topic in ("bank", "open", "refused"):
                client.create(topic, retention_ms="-1")
        broker.stop()
        log = open_log(broker.data / "bank-0", segment_bytes=3000, index_interval_bytes=200)
        expected = fill(log, rounds=120)
        assert len(log.segments) > 3
        log.close()
        log = open_log(broker.data / "open-0")
        write(log, 5, 0, b"undecided", epoch=2)
        log.close()
        yield brokers.restart(broker), expected


@pytest.fixture
def client(committed: tuple[Broker, list[bytes]]) -> Iterator[Client]:
    with connect(committed[0]) as client:
        yield client


def test_consumers_see_what_was_committed(committed: tuple[Broker, list[bytes]]) -> None:
    broker, expected = committed
    assert consume(broker, len(expected), {}) == expected
    # Small fetches begin and end in the middle of transactions.
    assert consume(broker, len(expected), {"fetch.message.max.bytes": 600}) == expected


def consume(broker: Broker, count: int, settings: dict[str, object]) -> list[bytes]:
    base = {"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer({**base, "isolation.level": "read_committed", **settings})
    consumer.assign([confluent_kafka.TopicPartition("bank", 0, 0)])
    seen = []
    while len(seen) < count:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, len(seen)
        assert message.error() is None
        seen.append(message.value())
    consumer.close()
    return seen


def test_our_own_consumer_too(committed: tuple[Broker, list[bytes]]) -> None:
    broker, expected = committed
    command = ["consume", "bank", "--from-beginning", "--until-end", "--read-committed", "-b", broker.bootstrap]
    printed = subprocess.run(
        [sys.executable, "-m", "ottla", *command], stdout=subprocess.PIPE, check=True, timeout=PATIENCE_S
    )
    assert printed.stdout.splitlines() == expected


def test_the_end_for_readers_of_committed_records_is_before_the_open_transaction(client: Client) -> None:
    assert last_offset(client, "bank", COMMITTED) == last_offset(client, "bank", 0) - 2


def test_a_marker_ends_a_transaction_and_wakes_who_waits_for_it(
    client: Client, committed: tuple[Broker, list[bytes]]
) -> None:
    assert producers(client, "open") == (0, [(5, 2, 0, -1, 0)])
    answers: list[FetchResponse] = []

    def consume() -> None:
        with connect(committed[0]) as parked:
            answers.append(parked.fetch("open", max_wait_ms=300_000, min_bytes=1, isolation_level=COMMITTED))

    assert values(client.fetch("open")) == [b"undecided"]
    assert values(client.fetch("open", isolation_level=COMMITTED)) == []
    consumer = threading.Thread(target=consume)
    consumer.start()
    assert mark(client, "open", (5, 2), commit=True, epoch=4) == 0
    consumer.join(PATIENCE_S)
    assert values(answers[0]) == [b"undecided"]
    assert answers[0].responses[0].partition_responses[0].aborted_transactions == []
    assert producers(client, "open") == (0, [(5, 2, 0, 4, -1)])
    # Nobody from the past may speak again, and a marker of a newer epoch shuts the producer out.
    assert mark(client, "open", (5, 1), commit=False, epoch=4) == InvalidProducerEpoch.code
    assert mark(client, "open", (5, 2), commit=False, epoch=3) == TransactionCoordinatorFenced.code
    assert mark(client, "open", (5, 3), commit=False, epoch=4) == 0
    assert producers(client, "open") == (0, [(5, 3, -1, 4, -1)])


def test_a_topic_of_an_old_format_has_no_transactions(client: Client) -> None:
    client.create("old", message_format_version="0.10.2")
    first = batch(b"x", producer_id=79, producer_epoch=0, base_sequence=0, transactional=True)
    assert mark(client, "old", (79, 0), commit=True) == UnsupportedForMessageFormat.code
    answer = client.produce("old", first)
    assert answer.responses[0].partitions[0].error_code == TransactionalIdAuthorizationFailed.code
    assert last_offset(client, "old", 0) == 0


def test_partitions_that_are_not_there(client: Client) -> None:
    assert mark(client, "open", (1, 0), commit=True, index=7) == UnknownTopicOrPartition.code
    assert mark(client, "nowhere", (1, 0), commit=True) == UnknownTopicOrPartition.code
    assert client.call(WRITE_TXN_MARKERS, WriteTxnMarkersRequest()).markers == []
    assert producers(client, "open", 7) == (UnknownTopicOrPartition.code, [])
    assert producers(client, "a/b") == (InvalidTopic.code, [])


def produce(client: Client, transactional_id: str | None, *batches: bytes) -> list[int]:
    rows = [
        TopicProduceData(name=topic, partitions=[PartitionProduceData(partition_index=0, records=records)])
        for topic, records in zip(("refused", "open"), batches, strict=False)
    ]
    request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=60_000, topics=rows)
    answer = client.call(PRODUCE, request, 8)
    return [row.error_code for topic in answer.responses for row in topic.partitions]


def test_a_transaction_that_no_coordinator_knows_is_not_begun(client: Client) -> None:
    def first(producer: int) -> bytes:
        return batch(b"x", producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)

    assert produce(client, None, first(77)) == [TransactionalIdAuthorizationFailed.code]
    assert produce(client, "nobody", first(77), first(78)) == [InvalidProducerIdMapping.code] * 2
    (refused,) = produce(client, "nobody", first(77))
    # The second where there is no coordinator of that id now.
    assert refused in (InvalidProducerIdMapping.code, NotEnoughReplicas.code)
    assert values(client.fetch("refused")) == []
    assert producers(client, "refused") == (0, [])


def test_the_segments_indexes_are_there(committed: tuple[Broker, list[bytes]]) -> None:
    folder: Path = committed[0].data / "bank-0"
    assert len(list(folder.glob("*.txnindex"))) > 3
