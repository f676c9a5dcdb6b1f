"""Fetches whose records are not in the page cache: an I/O thread finds where they begin."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.errors import CorruptMessage
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.peers.ottla import Broker, Brokers
from tests.support.client import Client, batch, connect, values
from tests.support.fetch_session import Session
from tests.support.operations import list_offset
from tests.support.waiting import PATIENCE_S, eventually

PARTITIONS = 5
#: Of 4,000 bytes: an index has an entry for every second one.
BATCHES = 300


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Brokers(tmp_path_factory.mktemp("cold")) as brokers:
        broker = brokers(settings={"num.partitions": PARTITIONS})
        with connect(broker) as client:
            client.create("cold", partitions=PARTITIONS)
            for number in range(BATCHES):
                client.produce("cold", batch(content(number)), partition=number % PARTITIONS)
        yield broker


def content(number: int) -> bytes:
    return b"%04d" % number * 1000


def evict(broker: Broker) -> None:
    for path in Path(broker.data).glob("cold-*/*"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.mark.parametrize("version", [3, 4, 11, 12])
def test_records_of_one_partition(client: Client, shared_broker: Broker, version: int) -> None:
    for offset in (0, 17, 40, BATCHES // PARTITIONS - 1):
        evict(shared_broker)
        found = values(client.fetch("cold", offset, partition=2, version=version))
        assert found == [content(2 + PARTITIONS * at) for at in range(offset, BATCHES // PARTITIONS)]
        again = values(client.fetch("cold", offset, partition=2, version=version, isolation_level=1))
        assert again == found


def request(offset: int, **options: int) -> FetchRequest:
    rows = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=-1)
        for index in range(PARTITIONS)
    ]
    return FetchRequest(replica_id=-1, topics=[FetchTopic(topic="cold", partitions=rows)], **options)


def sizes(answer: FetchResponse) -> dict[int, int]:
    assert all(row.error_code == 0 for topic in answer.responses for row in topic.partition_responses)
    return {
        row.partition: len(row.record_set or b"") for topic in answer.responses for row in topic.partition_responses
    }


@pytest.mark.parametrize("options", [{}, {"min_bytes": 1 << 30, "max_wait_ms": 50}, {"max_bytes": 100_000}])
def test_many_partitions_are_answered_as_if_they_were_in_memory(
    client: Client, shared_broker: Broker, options: dict[str, int]
) -> None:
    asked = request(20, **{"max_wait_ms": 0, "max_bytes": 1 << 30, **options})
    warm = client.call(FETCH, asked, 11)
    evict(shared_broker)
    # A limit is kept, though nobody knows beforehand how much a cold partition has.
    assert client.call(FETCH, asked, 11) == warm
    assert sum(sizes(warm).values()) > 0


def test_a_session_goes_on(client: Client, shared_broker: Broker) -> None:
    session = Session(client, "cold")
    size = len(batch(content(0)))
    evict(shared_broker)
    of_all = BATCHES // PARTITIONS * size
    assert session.ask(dict.fromkeys(range(PARTITIONS), 0)) == dict.fromkeys(range(PARTITIONS), of_all)
    evict(shared_broker)
    assert session.ask({0: 10, 1: BATCHES // PARTITIONS}) == {0: of_all - 10 * size, 2: of_all, 3: of_all, 4: of_all}
    alone = Session(client, "cold")
    assert alone.ask({3: 0}) == {3: of_all}
    evict(shared_broker)
    assert alone.ask({3: 30}) == {3: of_all - 30 * size}


def test_a_file_that_is_shorter_than_its_log_is_an_error_of_its_partition_alone(
    client: Client, shared_broker: Broker
) -> None:
    client.create("cut", partitions=1)
    for number in range(20):
        client.produce("cut", batch(content(number)))
    os.truncate(Path(shared_broker.data) / "cut-0" / "00000000000000000000.log", 20_000)
    ((row,),) = [topic.partition_responses for topic in client.fetch("cut", 15).responses]
    assert row.error_code == CorruptMessage.code
    evict(shared_broker)
    assert len(values(client.fetch("cold", 50))) == 10


def test_a_time_is_found(client: Client, shared_broker: Broker) -> None:
    client.create("cold-times")
    for number in range(100):
        client.produce("cold-times", batch(content(number), timestamp_ms=1000 + number))
    for timestamp, expected in ((1000, 0), (1050, 50), (1099, 99), (1100, -1)):
        evict(shared_broker)
        row = list_offset(client, "cold-times", timestamp)
        assert (row.error_code, row.offset, row.timestamp) == (0, expected, timestamp if expected >= 0 else -1)


def test_readers_of_committed_records_are_told_what_was_aborted(client: Client, shared_broker: Broker) -> None:
    topic = "cold-aborted"
    client.create(topic, partitions=2)
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(PATIENCE_S)
    for end in (producer.abort_transaction, producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for number in range(2):
            producer.produce(topic, content(number), partition=number)
        assert producer.flush(PATIENCE_S) == 0
        end(30)
    rows = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20, current_leader_epoch=-1)
        for index in range(2)
    ]
    asked = FetchRequest(
        replica_id=-1, max_wait_ms=0, isolation_level=1, topics=[FetchTopic(topic=topic, partitions=rows)]
    )

    def answer() -> FetchResponse:
        return client.call(FETCH, asked, 11)

    # A transaction ends for its producer before its markers are everywhere.
    eventually(
        "all is stable",
        lambda: {row.last_stable_offset for row in answer().responses[0].partition_responses} == {6},
    )
    warm = answer()
    told = [row.aborted_transactions for row in warm.responses[0].partition_responses]
    assert [[aborted.first_offset for aborted in each or []] for each in told] == [[0, 4], [0, 4]]
    for _ in range(3):
        evict(shared_broker)
        assert answer() == warm


def test_it_is_a_thread_that_waits_for_the_disk(client: Client, shared_broker: Broker) -> None:
    evict(shared_broker)
    client.fetch("cold", 30)
    names = {path.read_text().strip() for path in Path(f"/proc/{shared_broker.pid}/task").glob("*/comm")}
    assert any("ottla-cold-read".startswith(name) for name in names if name.startswith("ottla-cold"))
