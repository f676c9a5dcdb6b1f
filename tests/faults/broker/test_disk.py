"""Disks that are really full under a running broker: what was acknowledged is there, and what can go on does."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import _core
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from tests.faults.broker.load import CLIENT, CONSUMER, PRODUCER
from tests.peers.disks import small_tmpfs
from tests.peers.ottla import Brokers
from tests.peers.skips import require
from tests.support.client import Client, batch, connect
from tests.support.directories import REQUEST_TIMED_OUT, STORAGE_ERROR, created, described, fill, metadata
from tests.support.transactions import again
from tests.support.waiting import PATIENCE_S, eventually

try:
    import confluent_kafka as ck
except ImportError:
    ck = None

LARGE = b"x" * 200_000
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """32 megabytes."""
    with small_tmpfs(tmp_path / "small", 32) as path:
        yield path


def produced(client: Client, topic: str, partition: int, value: bytes, acks: int = -1) -> int:
    ((row,),) = [
        row.partitions for row in client.produce(topic, batch(value), partition=partition, acks=acks).responses
    ]
    return row.error_code


def copied(bootstrap: str, source: str, target: str, partition: int) -> None:
    """One transaction that reads a record, writes one, and commits the group's offset."""
    consumer = ck.Consumer({"bootstrap.servers": bootstrap, **CLIENT, **CONSUMER, "group.id": "copiers"})
    consumer.subscribe([source])
    producer = ck.Producer(
        {
            "bootstrap.servers": bootstrap,
            **CLIENT,
            **PRODUCER,
            "transactional.id": "copier",
            "message.timeout.ms": 60_000,
        }
    )
    producer.init_transactions(PATIENCE_S)
    (message,) = consumer.consume(1, PATIENCE_S)
    assert message.error() is None
    producer.begin_transaction()
    producer.produce(target, message.value(), partition=partition)
    places = [ck.TopicPartition(source, message.partition(), message.offset() + 1)]
    producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), PATIENCE_S)
    producer.commit_transaction(PATIENCE_S)
    (place,) = consumer.committed([ck.TopicPartition(source, message.partition())], PATIENCE_S)
    assert place.offset == message.offset() + 1
    consumer.close()


def stored(client: Client, topic: str, partition: int) -> list[bytes | None]:
    """All values of a partition, over as many fetches as it takes."""
    found: list[bytes | None] = []
    offset = 0
    while True:
        (row,) = client.fetch(topic, offset, partition=partition).responses[0].partition_responses
        assert row.error_code == 0
        records = [*_core.RecordReader(row.record_set or b"", start_offset=offset)]
        if not records:
            assert offset == row.high_watermark
            return found
        found += [record.value for record in records]
        offset = records[-1].offset + 1


@pytest.mark.clients
@pytest.mark.zookeeper
def test_a_full_directory_goes_and_the_rest_goes_on(
    small_disk: Path, brokers: Brokers, zookeeper: str, tmp_path: Path
) -> None:
    """Groups and transactions are in the other directory, and are served as before."""
    if ck is None:
        require("clients", "confluent-kafka is absent")
    options = {
        "broker_id": 1,
        "zookeeper": zookeeper,
        "settings": SETTINGS,
        "arguments": ("--data-dir", f"{tmp_path / 'a'},{small_disk / 'b'}"),
    }
    broker = brokers(**options)  # type: ignore[arg-type]
    with connect(broker) as client:
        # A new partition goes where there are fewest, and first into the first directory.
        again(lambda: client.call(FIND_COORDINATOR, FindCoordinatorRequest(key="copiers")))
        client.create("beside-groups", 1)
        again(lambda: client.call(FIND_COORDINATOR, FindCoordinatorRequest(key="copier", key_type=1), 3))
        client.create("beside-transactions", 1)
        client.create("t", 4)
        client.create("source", 1)
        assert produced(client, "source", 0, b"input") == 0
        homes = {path.name: path.parent for disk in (tmp_path / "a", small_disk / "b") for path in disk.glob("*-[0-9]")}
        full = [index for index in range(4) if homes[f"t-{index}"] == small_disk / "b"]
        healthy = [index for index in range(4) if index not in full]
        assert len(full) == 2
        for name in ("__consumer_offsets-0", "__transaction_state-0", "source-0"):
            assert homes[name] == tmp_path / "a", name

        taken = dict.fromkeys(range(4), 0)
        code = 0
        while code == 0:
            for index in full:
                code = code or produced(client, "t", index, LARGE)
                taken[index] += code == 0
            assert sum(taken.values()) * len(LARGE) < 40 << 20
        assert code == STORAGE_ERROR
        assert taken[full[0]] > 50
        eventually("the failure of the directory", lambda: STORAGE_ERROR in codes(client))
        assert sorted(codes(client)) == [0, STORAGE_ERROR]
        assert [produced(client, "t", index, b"x") for index in full] == [STORAGE_ERROR] * 2
        for index in healthy:
            assert produced(client, "t", index, b"more") == 0
        copied(broker.bootstrap, "source", "t", healthy[0])
    assert "Traceback" not in broker.output()
    broker.stop()

    for file in small_disk.glob("filler"):
        file.unlink()
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    broker = brokers.restart(broker, **options)
    with connect(broker) as client:
        assert codes(client) == [0, 0]
        for index in full:
            assert stored(client, "t", index) == [LARGE] * taken[index]
            assert produced(client, "t", index, b"again") == 0
        assert stored(client, "t", healthy[1]) == [b"more"]


def codes(client: Client) -> list[int]:
    return [row.error_code for row in described(client).values()]


def test_a_full_disk_under_the_embedded_tree(small_disk: Path, brokers: Brokers) -> None:
    """A change that cannot be written down was not made, and waits for room; everything that was told is there."""
    options = {"data": small_disk / "data", "settings": SETTINGS}
    broker = brokers(**options)  # type: ignore[arg-type]
    with connect(broker) as client:
        client.create("first", 1)
        assert produced(client, "first", 0, b"before") == 0
        filler = fill(small_disk)
        answers = {f"t-{number}": created(client, f"t-{number}", timeout_ms=10) for number in range(30)}
        assert set(answers.values()) <= {0, REQUEST_TIMED_OUT}
        assert stored(client, "first", 0) == [b"before"]
        filler.unlink()
        made = [topic for topic, code in answers.items() if code == 0]
        for topic in made:
            eventually("a leader", lambda topic=topic: metadata(client, topic) == {0: (broker.id, [])})  # type: ignore[misc]
        client.create("after", 1)
        assert produced(client, "first", 0, b"after") == 0
    assert "Traceback" not in broker.output()
    broker.kill()
    broker = brokers.restart(broker, **options)
    with connect(broker) as client:
        assert stored(client, "first", 0) == [b"before", b"after"]
        for topic in (*made, "after"):
            assert stored(client, topic, 0) == []
