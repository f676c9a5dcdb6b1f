"""Old clients, and directories that hold every format: Kafka's opened by Ottla, and Ottla's by Kafka."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from worker import Start

from ottla import _core
from ottla.log import Log
from tests.peers.apache import Apache, Kafka, need_java
from tests.peers.ottla import Broker, Brokers
from tests.peers.skips import require
from tests.support.client import connect
from tests.support.kafka_on_our_disk import CLIENT, SMALL
from tests.support.waiting import PATIENCE_S

#: The versions that a topic was told to store, one after the other, each with its format.
HISTORY = [("0.9.0", 0), ("0.10.2", 1), ("2.7", 2), ("0.9.0", 0), ("2.7", 2)]
CODECS = ["none", "gzip", "snappy", "lz4"]
TOPIC = "mixed"


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Brokers(tmp_path_factory.mktemp("ours")) as brokers:
        yield brokers(settings={"auto.create.topics.enable": "true"})


def kcat(bootstrap: str, release: str, *arguments: str, stdin: str = "") -> str:
    """kcat as it talks to brokers that cannot say which versions they know."""
    old = ["-X", "api.version.request=false", "-X", f"broker.version.fallback={release}"]
    command = ["kcat", "-b", bootstrap, *old, *arguments]
    try:
        done = subprocess.run(command, input=stdin, text=True, capture_output=True, timeout=PATIENCE_S)
    except FileNotFoundError:
        require("clients", "kcat is not installed")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.clients
@pytest.mark.parametrize("release", ["0.8.2.2", "0.9.0.1", "0.10.0.1"])
def test_kcat_of_an_old_time(ours: Broker, release: str) -> None:
    """Message sets of format 0 or 1 there and back, in every codec; what is stored is of format 2."""
    topic = f"kcat-{release}"
    lines = [f"line {number} {'x' * 50}" for number in range(40)]
    for codec in CODECS:
        kcat(ours.bootstrap, release, "-P", "-t", topic, "-p", "0", "-z", codec, stdin="\n".join(lines))
    seen = kcat(ours.bootstrap, release, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-f", "%o %s\n")
    expected = [f"{offset} {line}" for offset, line in enumerate(lines * len(CODECS))]
    assert seen.splitlines() == expected
    middle = kcat(ours.bootstrap, release, "-C", "-t", topic, "-p", "0", "-o", "57", "-c", "1", "-q", "-f", "%o\n")
    assert middle == "57\n"
    tail = kcat(ours.bootstrap, release, "-C", "-t", topic, "-p", "0", "-o", "-3", "-e", "-q", "-f", "%o\n")
    assert tail.split() == ["157", "158", "159"]
    file = ours.data / f"{topic}-0" / "00000000000000000000.log"
    assert {batch.magic for batch in _core.read_batches(file.read_bytes())} == {2}


@pytest.mark.clients
def test_old_consumers_see_no_markers_and_wait_behind_the_last(ours: Broker) -> None:
    from confluent_kafka import Producer

    ottla("topic", "create", "transactions", "-b", ours.bootstrap)
    producer = Producer({"bootstrap.servers": ours.bootstrap, "transactional.id": "old-consumers"})
    producer.init_transactions(PATIENCE_S)
    for value in ("one", "two"):
        producer.begin_transaction()
        producer.produce("transactions", value, partition=0)
        producer.commit_transaction(PATIENCE_S)
    read = ["-C", "-t", "transactions", "-p", "0", "-o", "beginning", "-c", "2", "-q", "-f", "%o %s\n"]
    assert kcat(ours.bootstrap, "0.9.0.1", *read).splitlines() == ["0 one", "2 two"]
    # Offset 3 is a marker: nothing that an old consumer could be sent, so it waits as at the end of the log.
    with connect(ours) as client:
        begin = time.monotonic()
        row = (
            client.fetch("transactions", 3, version=3, max_wait_ms=300, min_bytes=1).responses[0].partition_responses[0]
        )
        assert (row.error_code, row.record_set or b"") == (0, b"")
        assert time.monotonic() - begin > 0.25


def write(broker: Broker | Kafka, first: int) -> None:
    """A few records in every codec while the topic stores one format after the other."""
    for step, (version, _) in enumerate(HISTORY):
        store_as(broker.bootstrap, version)
        for number, codec in enumerate(CODECS):
            base = first + (step * len(CODECS) + number) * 20
            produce(broker.bootstrap, base, codec)


def store_as(bootstrap: str, version: str) -> None:
    ottla("topic", "alter", TOPIC, "-b", bootstrap, "--set", f"message.format.version={version}")


def ottla(*arguments: str) -> None:
    command = [sys.executable, "-m", "ottla", *arguments]
    done = subprocess.run(command, text=True, capture_output=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr


def produce(bootstrap: str, base: int, codec: str) -> None:
    lines = "\n".join(f"key:{number} {'x' * 100}" for number in range(base, base + 20))
    command = ["kcat", "-b", bootstrap, "-P", "-t", TOPIC, "-p", "0", "-K", ":", "-z", codec]
    done = subprocess.run(command, input=lines, text=True, capture_output=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr


def served(bootstrap: str) -> list[tuple[int, bytes | None]]:
    records = CLIENT.consume(bootstrap, TOPIC, 1, Start("earliest"))
    return [(record.offset, record.value) for record in records]


def expected(count: int) -> list[tuple[int, bytes | None]]:
    return [(number, f"{number} {'x' * 100}".encode()) for number in range(count)]


def formats(folder: Path) -> list[int]:
    """The formats of the batches on disk, each run once."""
    seen: list[int] = []
    for file in sorted(folder.glob("*.log")):
        for batch in _core.read_batches(file.read_bytes()):
            if seen[-1:] != [batch.magic]:
                seen.append(batch.magic)
    return seen


@pytest.mark.java
@pytest.mark.zookeeper
@pytest.mark.clients
@pytest.mark.judge
def test_a_directory_of_every_format_goes_from_kafka_to_ottla_and_back(tmp_path: Path) -> None:
    need_java()
    settings = {**SMALL, "log.segment.bytes": 20_000, "log.retention.ms": -1}
    count = len(HISTORY) * len(CODECS) * 20
    with Apache(tmp_path / "kafka") as apache, Brokers(tmp_path) as brokers:
        zookeeper = apache.zookeeper()
        kafka = apache.broker("2.7.2", zookeeper=zookeeper, settings=settings)
        ottla("topic", "create", TOPIC, "-b", kafka.bootstrap)
        write(kafka, 0)
        assert served(kafka.bootstrap) == expected(count)
        data = kafka.directory / "data"
        kafka.stop()
        folder = data / f"{TOPIC}-0"
        assert formats(folder) == [magic for _, magic in HISTORY]
        assert _core.verify_log(folder).damage == []
        with Log.open(folder) as log:
            assert [(one.offset, one.value) for one in log] == expected(count)

        broker = brokers(data=data, zookeeper=zookeeper, broker_id=1, settings=settings)
        assert served(broker.bootstrap) == expected(count)
        for release in ("0.8.2.2", "0.10.0.1"):
            read = ["-C", "-t", TOPIC, "-p", "0", "-o", "beginning", "-e", "-q", "-f", "%o %s\n"]
            lines = kcat(broker.bootstrap, release, *read)
            assert lines.splitlines() == [f"{offset} {value.decode()}" for offset, value in expected(count) if value]
        write(broker, count)
        # Nothing was closed cleanly: all of it is read again.
        broker.kill()
        broker = brokers(data=data, zookeeper=zookeeper, broker_id=1, settings=settings)
        assert served(broker.bootstrap) == expected(2 * count)
        broker.stop()
        assert formats(folder) == [magic for _, magic in HISTORY] * 2
        assert _core.verify_log(folder).damage == []

        kafka = apache.broker("2.7.2", zookeeper=zookeeper, settings=settings, directory=kafka.directory)
        assert served(kafka.bootstrap) == expected(2 * count)
