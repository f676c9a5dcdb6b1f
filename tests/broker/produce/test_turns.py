"""Produces that one turn of the broker serves share a write. A stopped process finds all that came meanwhile in one
turn.
"""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psutil
import pytest

from ottla._core import Log
from ottla.broker.network_threads import VARIABLE as THREADS
from ottla.errors import CorruptMessage, StorageError, UnknownTopicOrPartition
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from tests.peers.ottla import Broker, Brokers
from tests.support.client import Client, batch, connect, data, values
from tests.support.waiting import PATIENCE_S


@contextmanager
def in_one_turn(broker: Broker) -> Iterator[None]:
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def request(*partitions: tuple[str, bytes], acks: int = 1) -> ProduceRequest:
    topics = [TopicProduceData(name=topic, partitions=[PartitionProduceData(records=row)]) for topic, row in partitions]
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=60_000, topics=topics)


def results(client: Client) -> list[tuple[int, int]]:
    """Error code and base offset of each partition in the next answer."""
    answer = client.receive()
    return [(row.error_code, row.base_offset) for topic in answer.responses for row in topic.partitions]


@pytest.mark.parametrize("acks", [1, -1])
def test_many_clients_of_one_turn_get_consecutive_offsets(shared_broker: Broker, acks: int) -> None:
    topic = f"together-{acks}"
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(shared_broker)) for _ in range(20)]
        clients[0].create(topic)
        with in_one_turn(shared_broker):
            for number, client in enumerate(clients):
                client.send(PRODUCE, request((topic, batch(b"%d" % number)), acks=acks))
        offsets = {}
        for number, client in enumerate(clients):
            ((code, offset),) = results(client)
            assert code == 0
            offsets[offset] = b"%d" % number
        assert sorted(offsets) == list(range(20))
        assert values(clients[0].fetch(topic)) == [offsets[offset] for offset in range(20)]


def test_pipelined_produces_of_every_kind_keep_their_order(client: Client, shared_broker: Broker) -> None:
    client.create("pipelined")
    large = b"x" * 200_000  # written by an I/O thread
    with in_one_turn(shared_broker):
        for number, acks in enumerate([1, 1, -1, 1, 0, -1, 0, 1]):
            records = batch(large if number == 3 else b"%d" % number)
            if acks:
                client.send(PRODUCE, request(("pipelined", records), acks=acks))
            else:
                client.produce_silently("pipelined", records)
    assert [results(client) for _ in range(6)] == [[(0, offset)] for offset in (0, 1, 2, 3, 5, 7)]
    expected = [b"%d" % number for number in range(8)]
    expected[3] = large
    assert values(client.fetch("pipelined")) == expected


def test_a_refused_partition_leaves_its_neighbours_alone(client: Client, shared_broker: Broker) -> None:
    client.create("neighbour")
    damaged = bytearray(batch(b"damaged"))
    damaged[-1] ^= 1
    with in_one_turn(shared_broker):
        client.send(PRODUCE, request(("neighbour", batch(b"a")), ("nowhere", batch(b"b"))))
        client.send(PRODUCE, request(("neighbour", bytes(damaged))))
        client.send(PRODUCE, request(("neighbour", batch(b"c"))))
    assert results(client) == [(0, 0), (UnknownTopicOrPartition.code, -1)]
    assert results(client) == [(CorruptMessage.code, -1)]
    assert results(client) == [(0, 1)]
    assert values(client.fetch("neighbour")) == [b"a", b"c"]


def test_retries_within_a_turn_are_recognised(client: Client, shared_broker: Broker) -> None:
    client.create("retried")
    first, second = (
        batch(value, producer_id=77, producer_epoch=0, base_sequence=at) for at, value in enumerate([b"a", b"b"])
    )
    with in_one_turn(shared_broker):
        for records in (first, first, second, second):
            client.send(PRODUCE, request(("retried", records)))
    assert [results(client) for _ in range(4)] == [[(0, 0)], [(0, 0)], [(0, 1)], [(0, 1)]]
    assert values(client.fetch("retried")) == [b"a", b"b"]


def test_what_cannot_be_written_is_not_acknowledged(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit on the size of files makes the turn's write fail in the middle."""
    # One turn answers all. With threads the broker ends while some of them are at it.
    monkeypatch.setenv(THREADS, "0")
    broker = brokers()
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(broker)) for _ in range(10)]
        clients[0].create("limited")
        clients[0].produce("limited", batch(b"x" * 1_000_000))
        clients[0].produce("limited", batch(b"a"))
        file = data(broker.data, "limited")
        size = file.stat().st_size
        with in_one_turn(broker):
            limit = size + 100
            psutil.Process(broker.pid).rlimit(psutil.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            for client in clients:
                client.send(PRODUCE, request(("limited", batch(b"b")), acks=-1 if client is clients[0] else 1))
        for client in clients:
            assert results(client) == [(StorageError.code, -1)]
    # The directory is out of use, and with it the broker.
    assert broker.process.wait(PATIENCE_S) != 0
    assert file.stat().st_size == size
    log = Log.open_to_read(broker.data / "limited-0")
    assert log.end_offset == 2
