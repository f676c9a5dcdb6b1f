"""Produce requests of the past: delayed in the network, or from a producer that was replaced. None may begin a
transaction that nobody ends, for readers of committed records would wait for its end for ever.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.errors import InvalidProducerEpoch, InvalidTxnState, OutOfOrderSequenceNumber
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from tests.peers.ottla import Broker, Brokers
from tests.support.client import Client, batch, connect, values
from tests.support.transactions import (
    COMMITTED,
    SETTINGS,
    add,
    begun,
    describe,
    end,
    init,
    nothing_hangs,
)
from tests.support.waiting import eventually

_names = (f"zombie-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Brokers(tmp_path_factory.mktemp("zombies")) as brokers:
        yield brokers(settings=SETTINGS)


@pytest.fixture
def client(shared_broker: Broker) -> Iterator[Client]:
    with connect(shared_broker) as client:
        yield client


@pytest.fixture
def topic(client: Client, request: pytest.FixtureRequest) -> str:
    """A topic for the test alone, with two partitions."""
    name = str(request.node.name)
    client.create(name, 2)
    return name


def produce(client: Client, name: str, producer: Any, topic: str, sequence: int, *partitions: int) -> list[int]:
    """One batch for each partition; the error codes. Where a transaction does not have the partition, words say so."""
    options = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    records = batch(b"x", b"y", base_sequence=sequence, transactional=True, **options)
    rows = [PartitionProduceData(partition_index=index, records=records) for index in partitions]
    request = ProduceRequest(
        transactional_id=name, acks=-1, timeout_ms=60_000, topics=[TopicProduceData(name=topic, partitions=rows)]
    )
    answered = [row for topic in client.call(PRODUCE, request, 8).responses for row in topic.partitions]
    for row in answered:
        refused = row.error_code == InvalidTxnState.code
        assert row.error_message == ("Partition was not added to the transaction" if refused else None)
    return [row.error_code for row in answered]


def ended(client: Client, name: str, producer: Any, *, commit: bool) -> None:
    """Ends the transaction, and waits until its markers are written."""
    assert end(client, name, producer, commit=commit) == 0
    eventually(
        "the end of the transaction",
        lambda: describe(client, name).transaction_state.startswith("Complete"),
    )


def begin(client: Client, topic: str, *partitions: int) -> tuple[str, Any]:
    name = next(_names)
    producer = begun(client, name)
    assert set(add(client, name, producer, *partitions, topic=topic)) == {0}
    return name, producer


@pytest.mark.parametrize("commit", [True, False])
def test_delayed_until_its_transaction_had_ended(client: Client, commit: bool) -> None:
    topic = f"delayed-{commit}"
    client.create(topic, 2)
    name, producer = begin(client, topic, 0)
    ended(client, name, producer, commit=commit)
    assert produce(client, name, producer, topic, 0, 0) == [InvalidTxnState.code]
    assert values(client.fetch(topic)) == []
    nothing_hangs(client, topic)
    # The next transaction is whole.
    assert add(client, name, producer, 0, topic=topic) == [0]
    assert produce(client, name, producer, topic, 0, 0) == [0]
    ended(client, name, producer, commit=True)
    assert values(client.fetch(topic, isolation_level=COMMITTED)) == [b"x", b"y"]


def test_a_later_batch_that_was_delayed(client: Client, topic: str) -> None:
    name, producer = begin(client, topic, 0)
    assert produce(client, name, producer, topic, 0, 0) == [0]
    ended(client, name, producer, commit=False)
    assert produce(client, name, producer, topic, 2, 0) == [InvalidTxnState.code]
    nothing_hangs(client, topic)
    row = client.fetch(topic, isolation_level=COMMITTED).responses[0].partition_responses[0]
    assert [(one.producer_id, one.first_offset) for one in row.aborted_transactions] == [(producer.producer_id, 0)]


def test_a_partition_that_was_never_announced(client: Client, topic: str) -> None:
    name, producer = begin(client, topic, 0)
    assert produce(client, name, producer, topic, 0, 0, 1) == [0, InvalidTxnState.code]
    ended(client, name, producer, commit=True)
    assert values(client.fetch(topic, isolation_level=COMMITTED)) == [b"x", b"y"]
    assert values(client.fetch(topic, partition=1)) == []
    nothing_hangs(client, topic)


def test_a_producer_that_was_replaced(client: Client, topic: str) -> None:
    name, old = begin(client, topic, 0)
    assert produce(client, name, old, topic, 0, 0) == [0]
    new = init(client, name)
    assert (new.producer_id, new.producer_epoch > old.producer_epoch) == (old.producer_id, True)
    assert produce(client, name, old, topic, 2, 0) == [InvalidProducerEpoch.code]
    assert produce(client, name, old, topic, 2, 1) == [InvalidProducerEpoch.code]
    assert add(client, name, new, 0, 1, topic=topic) == [0, 0]
    assert produce(client, name, old, topic, 2, 0, 1) == [InvalidProducerEpoch.code] * 2
    assert produce(client, name, new, topic, 0, 0, 1) == [0, 0]
    ended(client, name, new, commit=True)
    # The old one's transaction was aborted when the new one came.
    row = client.fetch(topic, isolation_level=COMMITTED).responses[0].partition_responses[0]
    assert [(one.producer_id, one.first_offset) for one in row.aborted_transactions] == [(old.producer_id, 0)]
    nothing_hangs(client, topic)


def test_a_batch_before_its_predecessor(client: Client, topic: str) -> None:
    """The later of two requests was quicker: it must not make the earlier one a gap that is never filled."""
    name, producer = begin(client, topic, 0)
    assert produce(client, name, producer, topic, 0, 0) == [0]
    assert produce(client, name, producer, topic, 4, 0) == [OutOfOrderSequenceNumber.code]
    assert produce(client, name, producer, topic, 2, 0) == [0]
    ended(client, name, producer, commit=True)
    nothing_hangs(client, topic)


def test_the_broker_has_nothing_to_complain_about(shared_broker: Broker) -> None:
    assert "Traceback" not in shared_broker.output()
