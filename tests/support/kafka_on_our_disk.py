"""Apache Kafka on a directory of ours, and the other way round."""

from collections.abc import Iterable
from pathlib import Path

from drive_confluent import Confluent
from kazoo.client import KazooClient
from worker import eventually

from tests.peers.apache import Apache, Kafka, tool
from tests.peers.ottla import Broker

ZOOKEEPER_MODE = ("2.7.2", "3.9.2")


CLIENT = Confluent()


# Several segments and many index entries from a little data.
SMALL = {"log.segment.bytes": 200_000, "log.index.interval.bytes": 1024, "zookeeper.session.timeout.ms": 4000}


MIGRATION = {"inter.broker.protocol.version": "2.7"}


def kill(broker: Broker | Kafka, zookeeper: str) -> None:
    """SIGKILL, and wait until ZooKeeper has noticed: Kafka does not start while its own old registration is there."""
    broker.kill()
    client = KazooClient(hosts=zookeeper)
    client.start()
    assert eventually(lambda: str(client.exists("/brokers/ids/1")), "None") == "None"
    client.stop()
    client.close()


def start_kafka(kafka: Apache, version: str, zookeeper: str, data: Path, *, wait: bool = True) -> Kafka:
    settings = {"log.dirs": data, **SMALL, **(MIGRATION if version.startswith("3.") else {})}
    return kafka.broker(version, zookeeper=zookeeper, settings=settings, wait=wait)


def accepted_by_dump_log(version: str, files: Iterable[Path]) -> None:
    """Kafka's own tool reads every record of every file, and each index against its log."""
    names = ",".join(str(file) for file in files)
    printed = tool(version, "dump-log", "--deep-iteration", "--files", names)
    assert "baseOffset" in printed
    for complaint in ("isvalid: false", "isValid: false", "Mismatches in", "Found timestamp mismatch", "out of order"):
        assert complaint not in printed, printed[:4000]
    checked = tool(version, "dump-log", "--index-sanity-check", "--files", names)
    indexes = [file for file in files if file.suffix in (".index", ".timeindex")]
    assert len(indexes) > 3
    for index in indexes:
        said = f"{index} passed sanity check." in checked or (
            f"{index} is empty." in checked and index.stat().st_size == 0  # 3.9 does not pass what has no entry
        )
        assert said, checked[:4000]
