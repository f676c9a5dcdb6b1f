"""Apache Kafka and Ottla on the same data directory, one after the other, in both orders and in both directions.

Records are judged by a client that neither side knows about: what one broker took, the other serves, record by record.
Kafka runs in ZooKeeper mode: 2.7.2, and 3.9.2 with the inter-broker protocol of 2.7.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from worker import Record, Start, by_place, eventually

from tests.compat.matrix import CLIENTS, placed, plain
from tests.compat.raw import new_producer_id
from tests.peers.apache import Apache, Kafka, tool
from tests.peers.ottla import Broker, Brokers
from tests.support.kafka_on_our_disk import (
    CLIENT,
    SMALL,
    ZOOKEEPER_MODE,
    accepted_by_dump_log,
    kill,
    start_kafka,
)
from tests.support.lanes import judged_by
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]
TOPIC = "orders"
BASE_MS = 1_900_000_000_000  # in the future: retention deletes nothing


def some(first: int, count: int) -> list[Record]:
    """`count` records per partition from offset `first` on, in three partitions."""
    return placed(plain(TOPIC, CLIENTS[0], BASE_MS + first * 3, 3 * count), CLIENTS[0], 3, first)


def produce(broker: Broker | Kafka, records: list[Record], codec: str = "lz4") -> None:
    offsets = CLIENT.produce(broker.bootstrap, TOPIC, records, codec, "all", True)
    assert offsets == [record.offset for record in records]


def consume(broker: Broker | Kafka) -> list[Record]:
    return by_place(CLIENT.consume(broker.bootstrap, TOPIC, 3, Start("earliest")))


def create(broker: Broker | Kafka) -> None:
    admin = CLIENT.admin(broker.bootstrap, TOPIC)
    assert admin.create(3, {"retention.ms": "-1", "max.message.bytes": "2000000"}) == "created"
    assert eventually(admin.partitions, "3") == "3"


def configured(broker: Broker | Kafka) -> str:
    return CLIENT.admin(broker.bootstrap, TOPIC).config("max.message.bytes")


def files_of(data: Path) -> list[Path]:
    endings = (".log", ".index", ".timeindex", ".snapshot")
    return sorted(file for file in data.glob(f"{TOPIC}-*/*") if file.suffix in endings)


@pytest.mark.parametrize("version", judged_by(ZOOKEEPER_MODE, ZOOKEEPER_MODE[:1]))
def test_dump_log_accepts_every_file(brokers: Brokers, version: str) -> None:
    """Segments of all codecs, closed and active, their indexes and snapshots, after a clean stop."""
    broker = brokers(settings=SMALL)
    create(broker)
    for turn, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        produce(broker, some(turn * 3000, 3000), codec)
    broker.stop()
    files = files_of(broker.data)
    assert len([file for file in files if file.suffix == ".log"]) > 6
    accepted_by_dump_log(version, files)


@pytest.mark.parametrize("version", judged_by(ZOOKEEPER_MODE, ZOOKEEPER_MODE[:1]))
def test_kafka_takes_over_our_directory_and_gives_it_back(
    brokers: Brokers, kafka: Apache, zookeeper: str, version: str
) -> None:
    ours = brokers(broker_id=1, zookeeper=zookeeper, settings=SMALL)
    create(ours)
    produce(ours, some(0, 4000))
    ours.stop()

    theirs = start_kafka(kafka, version, zookeeper, ours.data)
    assert consume(theirs) == by_place(some(0, 4000))
    assert configured(theirs) == "2000000 DYNAMIC_TOPIC_CONFIG"
    produce(theirs, some(4000, 1000), "zstd")
    theirs.stop()

    ours = brokers(broker_id=1, zookeeper=zookeeper, settings=SMALL, data=ours.data)
    assert consume(ours) == by_place(some(0, 4000) + some(4000, 1000))
    assert configured(ours) == "2000000 DYNAMIC_TOPIC_CONFIG"
    produce(ours, some(5000, 500), "gzip")
    ours.stop()

    # 3.9 added topic ids to the tree and to each partition's folder: they must still agree.
    theirs = start_kafka(kafka, version, zookeeper, ours.data)
    assert consume(theirs) == by_place(some(0, 4000) + some(4000, 1000) + some(5000, 500))


@pytest.mark.parametrize("version", judged_by(ZOOKEEPER_MODE, ZOOKEEPER_MODE[:1]))
def test_kafka_starts_on_the_embedded_default_after_an_export(
    brokers: Brokers, kafka: Apache, zookeeper: str, version: str
) -> None:
    ours = brokers(broker_id=1, settings=SMALL)
    create(ours)
    produce(ours, some(0, 4000))
    ours.stop()
    export = ["tree", "export", "--data-dir", str(ours.data), "--zookeeper", zookeeper]
    subprocess.run([sys.executable, "-m", "ottla", *export], check=True)
    theirs = start_kafka(kafka, version, zookeeper, ours.data)
    assert consume(theirs) == by_place(some(0, 4000))
    assert configured(theirs) == "2000000 DYNAMIC_TOPIC_CONFIG"


@pytest.mark.parametrize("version", judged_by(ZOOKEEPER_MODE, ZOOKEEPER_MODE[:1]))
@pytest.mark.judge
def test_we_adopt_the_logs_of_a_kafka_whose_tree_is_lost(
    brokers: Brokers, kafka: Apache, zookeeper: str, version: str
) -> None:
    """And Kafka goes on with what was made of them."""
    data = kafka.directory / "data"
    theirs = start_kafka(kafka, version, zookeeper, data)
    create(theirs)
    produce(theirs, some(0, 4000))
    theirs.stop()
    refused = brokers(settings=SMALL, data=data, wait=False)
    assert refused.process.wait(PATIENCE_S) == 1
    assert "--adopt" in refused.output_tail()
    ours = brokers(settings=SMALL, data=data, arguments=("--adopt",))
    assert consume(ours) == by_place(some(0, 4000))
    produce(ours, some(4000, 1000), "zstd")
    ours.stop()
    another = f"{zookeeper}-another"
    subprocess.run(
        [sys.executable, "-m", "ottla", "tree", "export", "--data-dir", str(data), "--zookeeper", another], check=True
    )
    theirs = start_kafka(kafka, version, another, data)
    assert consume(theirs) == by_place(some(0, 4000) + some(4000, 1000))


@pytest.mark.parametrize("version", judged_by(ZOOKEEPER_MODE, ZOOKEEPER_MODE[:1]))
@pytest.mark.judge
def test_we_take_over_from_a_kafka_that_was_killed(
    brokers: Brokers, kafka: Apache, zookeeper: str, version: str
) -> None:
    """And Kafka from us, killed too: each recovers what the other did not close."""
    theirs = start_kafka(kafka, version, zookeeper, kafka.directory / "data")
    create(theirs)
    produce(theirs, some(0, 4000))
    kill(theirs, zookeeper)
    ours = brokers(broker_id=1, zookeeper=zookeeper, settings=SMALL, data=kafka.directory / "data")
    assert consume(ours) == by_place(some(0, 4000))
    produce(ours, some(4000, 1000), "snappy")
    kill(ours, zookeeper)
    theirs = start_kafka(kafka, version, zookeeper, ours.data)
    assert consume(theirs) == by_place(some(0, 4000) + some(4000, 1000))


@pytest.mark.judge
def test_tools_that_only_know_zookeeper(brokers: Brokers, zookeeper: str) -> None:
    """kafka-topics and kafka-configs of 2.7.2 with --zookeeper see and change the topics of a running broker."""
    broker = brokers(broker_id=1, zookeeper=zookeeper)
    create(broker)
    topics, admin = ("2.7.2", "topics", "--zookeeper", zookeeper), CLIENT.admin(broker.bootstrap, TOPIC)
    described = tool(*topics, "--describe", "--topic", TOPIC)
    assert "PartitionCount: 3" in described.replace("\t", " ")
    assert "max.message.bytes=2000000" in described
    tool(*topics, "--alter", "--topic", TOPIC, "--partitions", "5")
    assert eventually(admin.partitions, "5") == "5"
    configs = ("2.7.2", "configs", "--zookeeper", zookeeper, "--entity-type", "topics", "--entity-name", TOPIC)
    tool(*configs, "--alter", "--add-config", "segment.bytes=2097152")
    wanted = "2097152 DYNAMIC_TOPIC_CONFIG"
    assert eventually(lambda: admin.config("segment.bytes"), wanted) == wanted
    tool(*topics, "--create", "--topic", "by-tool", "--partitions", "2", "--replication-factor", "1")
    made = CLIENT.admin(broker.bootstrap, "by-tool")
    assert eventually(made.partitions, "2") == "2"
    tool(*topics, "--delete", "--topic", "by-tool")
    assert eventually(made.partitions, "none") == "none"
    assert tool(*topics, "--list").split() == [TOPIC]


def test_producer_ids_are_never_given_twice(brokers: Brokers) -> None:
    broker = brokers()
    given = [new_producer_id(broker.port) for _ in range(5)]
    for _ in range(3):
        broker.kill()
        broker = brokers.restart(broker)
        given += [new_producer_id(broker.port) for _ in range(5)]
    assert len(set(given)) == len(given), given


@pytest.mark.judge
def test_producer_ids_are_never_given_twice_across_both_brokers(
    brokers: Brokers, kafka: Apache, zookeeper: str
) -> None:
    ours = brokers(broker_id=1, zookeeper=zookeeper, settings=SMALL)
    given = [new_producer_id(ours.port) for _ in range(3)]
    kill(ours, zookeeper)
    theirs = start_kafka(kafka, "2.7.2", zookeeper, ours.data)
    given += [new_producer_id(theirs.port) for _ in range(3)]
    kill(theirs, zookeeper)
    ours = brokers(broker_id=1, zookeeper=zookeeper, settings=SMALL, data=ours.data)
    given += [new_producer_id(ours.port) for _ in range(3)]
    assert len(set(given)) == len(given), given


def test_one_directory_has_one_broker(brokers: Brokers, kafka: Apache, zookeeper: str) -> None:
    """Ours refuses ours and Kafka's, and Kafka refuses ours."""
    ours = brokers(broker_id=1, zookeeper=zookeeper)
    second = brokers(broker_id=2, zookeeper=zookeeper, data=ours.data, wait=False)
    assert second.process.wait(PATIENCE_S) != 0
    assert "is in use by another process" in second.output()
    refused = start_kafka(kafka, "2.7.2", zookeeper, ours.data, wait=False)
    assert refused.process.wait(PATIENCE_S) != 0
    assert "Failed to acquire lock" in refused.output()
    assert new_producer_id(ours.port) >= 0
    ours.stop()

    theirs = start_kafka(kafka, "2.7.2", zookeeper, ours.data)
    third = brokers(broker_id=1, zookeeper=zookeeper, data=ours.data, wait=False)
    assert third.process.wait(PATIENCE_S) != 0
    assert "is in use by another process" in third.output()
    assert new_producer_id(theirs.port) >= 0
