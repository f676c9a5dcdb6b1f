"""Compaction as other people's clients see it, and in turns with Apache Kafka: each cleans what the other has cleaned.

Writers are confluent-kafka's, transactional ones among them; the reader has isolation.level=read_committed.
"""

import contextlib
import json
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest
from confluent_kafka import admin

from ottla.log import verify
from tests.peers.apache import Apache, Kafka, tool
from tests.peers.ottla import Broker, Brokers
from tests.peers.segments import cleaned_offset
from tests.support.kafka_on_our_disk import accepted_by_dump_log, kill
from tests.support.waiting import PATIENCE_S, eventually

TOPIC = "states"
KEYS = 40
CLEANER = {"log.cleaner.backoff.ms": 50, "log.cleaner.dedupe.buffer.size": 4 << 20, "log.retention.ms": -1}
INTERNAL = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}
REPLICAS = {
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "offsets.topic.replication.factor": 1,
}
OURS = {**CLEANER, **INTERNAL, **REPLICAS, "zookeeper.session.timeout.ms": 4000}
KAFKAS = OURS
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "20000",
    "index.interval.bytes": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
    "file.delete.delay.ms": "0",
}


def create(broker: Broker | Kafka) -> None:
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([admin.NewTopic(TOPIC, 1, 1, config=COMPACTED)])[TOPIC].result(PATIENCE_S)


class Writer:
    """Knows which value each key should have."""

    def __init__(self, seed: int) -> None:
        self.last: dict[bytes, bytes | None] = {}
        self.written = 0
        self._random = random.Random(seed)

    def write(self, broker: Broker | Kafka, transactions: int) -> None:
        """Transactions of some records each, a third of them aborted, and records outside of any between them."""
        settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap, "linger.ms": 1, "log_level": 0}
        settings |= {"compression.type": self._random.choice(["none", "lz4", "zstd"]), "retry.backoff.ms": 20}
        plain = ck.Producer({**settings, "enable.idempotence": True})
        transactional = ck.Producer({**settings, "transactional.id": "writer"})
        transactional.init_transactions(PATIENCE_S)
        for number in range(transactions):
            transactional.begin_transaction()
            records = self._send(transactional)
            if number % 3 == 1:
                assert transactional.flush(PATIENCE_S) == 0
                transactional.abort_transaction(PATIENCE_S)
            else:
                transactional.commit_transaction(PATIENCE_S)
                self.last |= records
            records = self._send(plain)
            assert plain.flush(PATIENCE_S) == 0
            self.last |= records

    def _send(self, producer: ck.Producer) -> dict[bytes, bytes | None]:
        records: dict[bytes, bytes | None] = {}
        for _ in range(20):
            key = b"key-%d" % self._random.randrange(KEYS)
            value = None if self._random.random() < 0.1 else self._random.randbytes(50).hex().encode()
            producer.produce(TOPIC, key=key, value=value, partition=0)
            records[key] = value
            self.written += 1
        return records

    def check(self, broker: Broker | Kafka) -> int:
        """Checks that a reader finds the last value of each key; returns how many records it read."""
        records = read(broker)
        last: dict[bytes | None, bytes | None] = {}
        for _, key, value in records:
            last[key] = value
        assert {key: value for key, value in last.items() if value is not None} == {
            key: value for key, value in self.last.items() if value is not None
        }
        offsets = [offset for offset, _, _ in records]
        assert offsets == sorted(set(offsets))
        return len(records)


def read(broker: Broker | Kafka) -> list[tuple[int, bytes | None, bytes | None]]:
    consumer = ck.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    found = []
    try:
        low, _ = answered(lambda: consumer.get_watermark_offsets(ck.TopicPartition(TOPIC, 0), 10))
        consumer.assign([ck.TopicPartition(TOPIC, 0, low)])
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert time.monotonic() < deadline
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is None:
                found.append((message.offset(), message.key(), message.value()))
            elif message.error().code() == ck.KafkaError._PARTITION_EOF:
                return found
            else:
                raise AssertionError(message.error())
    finally:
        consumer.close()


def answered(ask: Callable[[], Any]) -> Any:
    answers: list[Any] = []

    def is_answered() -> bool:
        with contextlib.suppress(ck.KafkaException):
            answers.append(ask())
        return bool(answers)

    eventually("an answer", is_answered)
    return answers[0]


def folder(data: Path) -> Path:
    return data / f"{TOPIC}-0"


def wait_cleaned(broker: Broker | Kafka, data: Path) -> None:
    """Until every closed segment is clean; the active one moves on only with a write."""
    broker.wait_until(
        lambda: cleaned_offset(data, TOPIC) >= max(int(path.stem) for path in folder(data).glob("*.log")), PATIENCE_S
    )


def files_of(data: Path) -> list[Path]:
    endings = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    return sorted(file for file in folder(data).iterdir() if file.suffix in endings)


@pytest.mark.clients
def test_readers_find_the_last_committed_value_after_every_kill(brokers: Brokers) -> None:
    """Small segments, cleaned all the time, transactions, and a broker that is killed in between."""
    broker = brokers(settings=OURS)
    create(broker)
    writer = Writer(1)
    for _ in range(4):
        writer.write(broker, 15)
        broker.kill()
        broker = brokers.restart(broker, settings=OURS)
        writer.check(broker)
    writer.write(broker, 5)
    wait_cleaned(broker, broker.data)
    assert writer.check(broker) < writer.written / 3
    assert "Traceback" not in broker.output()
    broker.stop()
    assert not verify(broker.data).damage


@pytest.mark.clients
def test_records_are_deleted_by_other_clients(brokers: Brokers) -> None:
    broker = brokers(settings=OURS)
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([admin.NewTopic(TOPIC, 1, 1)])[TOPIC].result(PATIENCE_S)
    writer = Writer(2)
    writer.write(broker, 3)
    partition = ck.TopicPartition(TOPIC, 0, 50)
    assert client.delete_records([partition])[partition].result(PATIENCE_S).low_watermark == 50
    assert read(broker)[0][0] >= 50
    everything = ck.TopicPartition(TOPIC, 0, ck.OFFSET_END)
    low = client.delete_records([everything])[everything].result(PATIENCE_S).low_watermark
    assert low > 100
    assert read(broker) == []
    beyond = ck.TopicPartition(TOPIC, 0, low + 1000)
    with pytest.raises(ck.KafkaException, match="OFFSET_OUT_OF_RANGE"):
        client.delete_records([beyond])[beyond].result(PATIENCE_S)


@pytest.mark.java
def test_the_tool_for_deleting_records(brokers: Brokers, tmp_path: Path) -> None:
    broker = brokers(settings=OURS)
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([admin.NewTopic(TOPIC, 1, 1)])[TOPIC].result(PATIENCE_S)
    Writer(2).write(broker, 3)
    wanted = tmp_path / "offsets.json"
    rows = [{"topic": TOPIC, "partition": 0, "offset": 30}]
    wanted.write_text(json.dumps({"version": 1, "partitions": rows}))
    said = tool("2.7.2", "delete-records", "--bootstrap-server", broker.bootstrap, "--offset-json-file", str(wanted))
    assert f"partition: {TOPIC}-0\tlow_watermark: 30" in said
    assert read(broker)[0][0] >= 30


@pytest.mark.java
@pytest.mark.zookeeper
@pytest.mark.judge
def test_kafka_cleans_what_we_cleaned_and_we_what_it_cleaned(brokers: Brokers, kafka: Apache, zookeeper: str) -> None:
    """There and back, with its tool's judgement on our files, and each killed while it cleans."""
    ours = brokers(broker_id=1, zookeeper=zookeeper, settings=OURS)
    create(ours)
    writer = Writer(3)
    writer.write(ours, 20)
    wait_cleaned(ours, ours.data)
    left = writer.check(ours)
    assert left < writer.written / 2
    ours.stop()
    accepted_by_dump_log("2.7.2", files_of(ours.data))

    before = cleaned_offset(ours.data, TOPIC)
    theirs = kafka.broker("2.7.2", zookeeper=zookeeper, settings={"log.dirs": ours.data, **KAFKAS})
    assert writer.check(theirs) == left
    writer.write(theirs, 20)
    wait_cleaned(theirs, ours.data)
    assert cleaned_offset(ours.data, TOPIC) > before
    writer.write(theirs, 10)
    kill(theirs, zookeeper)

    ours = brokers(broker_id=1, zookeeper=zookeeper, settings=OURS, data=ours.data)
    writer.check(ours)
    writer.write(ours, 20)
    wait_cleaned(ours, ours.data)
    assert writer.check(ours) < writer.written / 3
    writer.write(ours, 10)
    kill(ours, zookeeper)
    theirs = kafka.broker("2.7.2", zookeeper=zookeeper, settings={"log.dirs": ours.data, **KAFKAS})
    writer.check(theirs)


@pytest.mark.java
@pytest.mark.zookeeper
def test_both_finish_a_swap_that_was_interrupted(brokers: Brokers, kafka: Apache, zookeeper: str) -> None:
    """The cleaned segments are there as `.swap`, all old ones too: as a crash leaves them right after the decision."""
    slow = {**OURS, "log.cleaner.enable": "false"}
    ours = brokers(broker_id=1, zookeeper=zookeeper, settings=slow)
    create(ours)
    writer = Writer(4)
    writer.write(ours, 20)
    ours.stop()
    old = ours.data.parent / "old"
    shutil.copytree(folder(ours.data), old)
    ours = brokers(broker_id=1, zookeeper=zookeeper, settings=OURS, data=ours.data)
    wait_cleaned(ours, ours.data)
    ours.stop()
    cleaned = ours.data.parent / "cleaned"
    folder(ours.data).rename(cleaned)

    def interrupt() -> None:
        shutil.rmtree(folder(ours.data), ignore_errors=True)
        shutil.copytree(old, folder(ours.data))
        bases = sorted(path.stem for path in cleaned.glob("*.log"))[:-1]
        assert bases
        for base in bases:
            for path in cleaned.glob(f"{base}.*"):
                if path.suffix != ".snapshot":
                    shutil.copy(path, folder(ours.data) / f"{path.name}.swap")
        (ours.data / "cleaner-offset-checkpoint").unlink(missing_ok=True)
        (ours.data / ".kafka_cleanshutdown").unlink(missing_ok=True)

    interrupt()
    ours = brokers(broker_id=1, zookeeper=zookeeper, settings=slow, data=ours.data)
    left = writer.check(ours)
    assert left < writer.written / 2, "the cleaned segments are in place"
    assert not list(folder(ours.data).glob("*.swap"))
    ours.stop()
    assert not verify(ours.data).damage
    interrupt()
    settings = {"log.dirs": ours.data, **KAFKAS, "log.cleaner.enable": "false"}
    theirs = kafka.broker("2.7.2", zookeeper=zookeeper, settings=settings)
    assert writer.check(theirs) == left
