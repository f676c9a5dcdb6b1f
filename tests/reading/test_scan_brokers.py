"""`ottla.scan` from brokers: the same rows as from their directories, while leaders move and records are deleted."""

import functools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

import ottla
from ottla.client.errors import ConnectionLost, UnknownHost
from ottla.client.sync import Admin, Cluster, Producer
from ottla.errors import LeaderNotAvailable, OffsetOutOfRange, UnknownTopicOrPartition
from ottla.kafka import TopicPartition
from ottla.reading import fetching
from ottla.reading.scan import Scan
from tests.peers.skips import module
from tests.support.client import Client, batch
from tests.support.waiting import PATIENCE_S, eventually

module("arrow", "pyarrow")

import pyarrow as pa

TIME_MS = 1_700_000_000_000
TIME = datetime.fromtimestamp(TIME_MS / 1000, UTC)
scan = functools.partial(ottla.scan, "t", timeout_ms=int(PATIENCE_S * 1000))


def table(found: Scan) -> pa.Table:
    return pa.RecordBatchReader.from_stream(found).read_all()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def broker(data: Path) -> Iterator[ottla.Broker]:
    """The topic `t` has 3 partitions, of which the last is empty, and a record a second."""
    with ottla.Broker(data_dir=data) as broker:
        broker.create_topic("t", partitions=3, settings={"retention.ms": "-1"})
        with Client.connect(broker.host, broker.port, "test") as client:
            for number in range(100):
                for partition, codec in enumerate(("none", "zstd")):
                    record = batch(b"%d" % number, timestamp_ms=TIME_MS + number * 1000, compression=codec)
                    client.produce("t", record, partition=partition)
        eventually("high watermarks are written", lambda: scan(path=data).offsets == {0: (0, 100), 1: (0, 100)})
        yield broker


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"columns": ("timestamp_type", "topic", "headers", "key", "value", "timestamp", "offset", "partition")},
        {"start": 7, "end": 99, "partitions": [0, 1]},
        {"start": TIME + timedelta(seconds=90), "end": TIME + timedelta(seconds=95), "isolation": "read_committed"},
        {"start": {1: 99}, "partitions": 1, "batch_rows": 1},
        {"partitions": 2},
        {"start": timedelta(minutes=10)},
    ],
)
def test_brokers_and_directories_have_the_same_rows(broker: ottla.Broker, data: Path, arguments: dict) -> None:
    there, here = scan(servers=broker.bootstrap_servers, **arguments), scan(path=data, **arguments)
    assert there.offsets == here.offsets
    assert table(there) == table(here)


def test_a_scan_from_a_broker_is_bounded_and_repeats_itself(broker: ottla.Broker) -> None:
    broker.create_topic("u")
    with Cluster(broker.bootstrap_servers) as cluster, Producer(cluster) as producer:
        producer.send("u", b"first")
        producer.flush()
        found = ottla.scan("u", servers=broker.bootstrap_servers)
        producer.send("u", b"second")
        producer.flush()
    for _ in range(2):
        assert table(found)["value"].to_pylist() == [b"first"]


def test_connections_end_with_the_reader(broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fetched before a batch is asked for, and a reader that is left closes what it opened."""
    made: list[fetching.Fetcher] = []

    class Fetcher(fetching.Fetcher):
        def __init__(self, options: fetching.ReadOptions) -> None:
            super().__init__(options)
            made.append(self)

    monkeypatch.setattr("ottla.reading.brokers.Fetcher", Fetcher)
    batches = iter(scan(servers=broker.bootstrap_servers, batch_rows=1))
    assert made == []
    next(batches)
    (connection,) = made[0]._connections.values()
    assert not connection.closed
    batches.close()  # type: ignore[attr-defined]
    assert connection.closed


def test_a_leader_that_moves_under_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "FETCH_BYTES", 1000)
    with ottla.Cluster(3) as cluster:
        cluster.create_topic("t", partitions=1, replicas=3)
        with Cluster(cluster.bootstrap_servers) as servers, Producer(servers, batch_bytes=500) as producer:
            for number in range(1000):
                producer.send("t", b"%d" % number)
            producer.flush()
        batches = iter(scan(servers=cluster.bootstrap_servers, batch_rows=10))
        found = next(batches)["value"].to_pylist()
        cluster.leader("t").stop()
        for each in batches:
            found += each["value"].to_pylist()
    assert found == [b"%d" % number for number in range(1000)]


def test_an_election_under_a_scan(broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection ends, and for a while nobody leads the partition."""
    found = scan(servers=broker.bootstrap_servers, partitions=0)
    lost, without_leader = [ConnectionLost("it ended")], [LeaderNotAvailable(), LeaderNotAvailable()]
    answer, leader = fetching.Fetcher.answer, fetching.Cluster.leader

    def lost_answer(fetcher: fetching.Fetcher, partition: TopicPartition) -> object:
        if lost:
            raise lost.pop()
        return answer(fetcher, partition)

    async def late_leader(cluster: fetching.Cluster, partition: TopicPartition) -> object:
        if without_leader:
            lost.append(ConnectionLost("it is away"))
            raise without_leader.pop()
        return await leader(cluster, partition)

    monkeypatch.setattr(fetching.Fetcher, "answer", lost_answer)
    monkeypatch.setattr(fetching.Cluster, "leader", late_leader)
    assert table(found).num_rows == 100
    assert (lost, without_leader) == ([], [])


def test_records_that_are_deleted_under_a_scan(broker: ottla.Broker) -> None:
    broker.create_topic("v")
    with Cluster(broker.bootstrap_servers) as cluster:
        with Producer(cluster) as producer:
            for _ in range(3):
                producer.send("v", b"x")
        found = ottla.scan("v", servers=broker.bootstrap_servers)
        Admin(cluster).delete_records({TopicPartition("v", 0): 2})
        with pytest.raises(OffsetOutOfRange, match=r"v-0 has offsets 2 to 3 by now, and 0 is to be read next$"):
            list(found)
        with pytest.raises(OffsetOutOfRange, match=r"offset of v-0 is 1, but it has offsets 2 to 3$"):
            ottla.scan("v", servers=broker.bootstrap_servers, start=1)


def test_what_is_not_there(broker: ottla.Broker) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="there is no topic orders"):
        ottla.scan("orders", servers=broker.bootstrap_servers)
    with pytest.raises(UnknownTopicOrPartition, match="there is no partition t-9"):
        scan(servers=broker.bootstrap_servers, partitions=[0, 9])
    with pytest.raises(UnknownHost):
        scan(servers="nobody.invalid:9092")


def test_inside_of_trio(broker: ottla.Broker) -> None:
    async def main() -> dict[int, tuple[int, int]]:
        with pytest.raises(RuntimeError, match=r"trio\.to_thread\.run_sync"):
            scan(servers=broker.bootstrap_servers)
        found = await trio.to_thread.run_sync(lambda: scan(servers=broker.bootstrap_servers))
        return found.offsets

    assert trio.run(main) == {0: (0, 100), 1: (0, 100)}
