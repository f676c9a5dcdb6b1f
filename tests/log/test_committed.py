"""Committed records read from the files of a partition, beside what a broker serves of the same partition."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla._core import BatchBuilder
from ottla.log import IsolationLevel, Log
from ottla.log.committed import SNAPSHOT
from tests.peers.ottla import Broker, Brokers
from tests.support.client import connect
from tests.support.waiting import PATIENCE_S, eventually

TOPIC = "t"
LEVELS: tuple[IsolationLevel, ...] = ("read_uncommitted", "read_committed")


class Client:
    """One transactional client; its transactions have `count` records named after it."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.name = name
        self.producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name, "linger.ms": 0})
        self.producer.init_transactions(PATIENCE_S)

    def begin(self, count: int = 3) -> None:
        self.producer.begin_transaction()
        for number in range(count):
            self.producer.produce(TOPIC, f"{self.name}-{number}".encode() + bytes(300), partition=0)
            self.producer.flush(PATIENCE_S)

    def end(self, commit: bool) -> None:
        if commit:
            self.producer.commit_transaction(PATIENCE_S)
        else:
            self.producer.abort_transaction(PATIENCE_S)


def served(broker: Broker, isolation_level: str) -> list[tuple[int, bytes]]:
    """The offsets and values that a client gets, to the end of the partition as it is told."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "isolation.level": isolation_level}
    consumer = Consumer({**settings, "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found = []
    try:
        while (message := consumer.poll(PATIENCE_S)) is not None:
            if message.error():
                return found
            found.append((message.offset(), message.value()))
    finally:
        consumer.close()
    raise AssertionError("no end came")


@pytest.fixture
def broker(brokers: Brokers) -> Broker:
    broker = brokers()
    with connect(broker) as client:
        client.create(TOPIC, segment_bytes="2000")
    return broker


def test_files_show_what_the_broker_shows(broker: Broker) -> None:
    folder = broker.data / f"{TOPIC}-0"
    first, second, third = (Client(broker, name) for name in ("first", "second", "third"))
    plain = Producer({"bootstrap.servers": broker.bootstrap})

    def wait_for_markers(end: int) -> None:
        # A client is told of the end of its transaction before the marker is written.
        eventually("the markers", lambda: Log.open(folder).end_offset == end)

    def check(stable: int, end: int) -> None:
        wait_for_markers(end)
        for level in LEVELS:
            wanted = served(broker, level)
            with Log.open(folder, isolation_level=level) as log:
                assert [(record.offset, record.value) for record in log.records()] == wanted
                assert [(record.offset, record.value) for record in log.records(2)] == [
                    each for each in wanted if each[0] >= 2
                ]
                table = [row for batch in log.columns(columns=("offset", "value")) for row in batch.to_pylist()]
                assert [(row["offset"], row["value"]) for row in table] == wanted
                assert (log.last_stable_offset, log.end_offset) == (stable, end)

    plain.produce(TOPIC, b"plain" + bytes(300), partition=0)
    plain.flush(PATIENCE_S)
    first.begin()
    check(1, 4)
    second.begin()
    first.end(commit=False)
    check(4, 8)
    first.begin()
    second.end(commit=True)
    third.begin(9)
    third.end(commit=False)
    first.end(commit=True)
    wait_for_markers(23)
    third.begin()
    assert len([*folder.glob(f"*{SNAPSHOT}")]) > 1, "some segments were closed in the middle of it"
    check(23, 26)
    third.end(commit=True)
    check(27, 27)
    broker.stop()
    with Log.open(folder, isolation_level="read_committed") as log:
        before = [record.offset for record in log.records()]
        for path in folder.glob(f"*{SNAPSHOT}"):
            path.unlink()
        log.refresh()
        assert [record.offset for record in log.records()] == before, "a snapshot only saves reading"


def test_levels_have_names(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'read_uncommitted' or 'read_committed'"):
        Log.open(tmp_path / "t-0", "a", isolation_level="serializable")  # type: ignore[arg-type]


def cut_off(data: bytes) -> bytes:
    return data[:-1]


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize("damage", [cut_off, flipped, lambda _: b""], ids=["cut off", "flipped", "empty"])
def test_a_damaged_snapshot_is_as_none(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """The batches are read then, from the first one on."""
    folder = tmp_path / "t-0"
    with Log.open(folder, "a") as log:
        builder = BatchBuilder(producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
        builder.append(1, b"k", b"v")
        log.append_batch(builder.finish())
    (snapshot,) = folder.glob(f"*{SNAPSHOT}")
    snapshot.write_bytes(damage(snapshot.read_bytes()))
    with Log.open(folder, isolation_level="read_committed") as log:
        assert (log.last_stable_offset, log.end_offset) == (0, 1)
