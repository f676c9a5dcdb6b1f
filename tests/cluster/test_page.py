"""The blocks of pages that are about several brokers, typed as they stand on a machine of their own."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.apache import SCRIPT, Apache, fetch
from tests.peers.old_clients import VERSIONS
from tests.support.machine import Machine
from tests.support.readme import block
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.zookeeper, pytest.mark.judge]


OLD = VERSIONS[0]
#: After it there are all internal topics.
TRANSACTION = """
from ottla.client import TopicPartition
from ottla.client.sync import Cluster, TransactionalProducer

with Cluster("127.0.0.1:9092") as cluster, TransactionalProducer(cluster, "orders") as producer:
    producer.begin()
    producer.send("orders", b"2")
    producer.send_offsets("readers", {TopicPartition("orders", 0): 0})
    producer.commit()
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with Machine(tmp_path) as machine:
        yield machine


@pytest.fixture
def ensemble(machine: Machine, tmp_path: Path) -> Iterator[None]:
    """The ZooKeeper that the pages assume."""
    with Apache(tmp_path / "apache") as apache, machine.inside():
        apache.zookeeper(port=2181)
        yield


def serve(machine: Machine, lines: list[str]) -> None:
    assert len(lines) == 3
    for line in lines:
        machine.stay(line)


def replicas(described: str) -> list[set[str]]:
    """Of each partition, of what `ottla topic describe` prints."""
    return [set(line.split()[2].split(",")) for line in described.splitlines() if line[:12].strip().isdecimal()]


def test_on_a_laptop(machine: Machine) -> None:
    start, watch, stop_one, again, stop = block("sh", "ottla cluster start 3", "docs/cluster.md").splitlines()
    try:
        machine.type(start)
        watching = machine.stay(watch, until="")
        watching.send_signal(signal.SIGINT)
        assert watching.wait(PATIENCE_S) in (0, 130)
        machine.type(stop_one)
        machine.type(again)
        assert "3 brokers" in machine.type("ottla cluster status")
    finally:
        machine.type(stop)


@pytest.mark.usefixtures("ensemble")
def test_three_brokers_and_a_fourth(machine: Machine) -> None:
    settings = block("properties", "default.replication.factor", "docs/cluster.md")
    (machine.folder / "cluster.properties").write_text(settings)
    lines = block("sh", "--config cluster.properties", "docs/cluster.md").splitlines()
    serve(machine, lines)
    described = machine.type(block("sh", "topic create orders", "docs/cluster.md"))
    assert replicas(described) == [{"1", "2", "3"}] * 3
    fourth = lines[2].replace("--id 3", "--id 4").replace("9094", "9095").replace("data-3", "data-4")
    machine.stay(fourth)
    machine.type(block("sh", "ottla broker balance --replicas", "docs/cluster.md"))
    machine.type(block("sh", "--throttle", "docs/cluster.md"))
    assert replicas(machine.type("ottla topic describe orders")) == [{"2", "3", "4"}] * 3


@pytest.mark.usefixtures("ensemble")
def test_from_one_broker_to_several(machine: Machine) -> None:
    alone = machine.stay("ottla serve --id 1 --listen 127.0.0.1:9092 --data-dir data-1")
    machine.type("ottla topic create orders --partitions 3; echo 1 | ottla produce orders")
    (machine.folder / "transaction.py").write_text(TRANSACTION)
    machine.type("python transaction.py")
    alone.terminate()
    assert alone.wait(PATIENCE_S) == 0
    export, *lines = block("sh", "ottla tree export --data-dir data-1", "docs/cluster.md").splitlines()
    machine.type(export)
    serve(machine, lines)
    machine.type(block("sh", "__transaction_state", "docs/cluster.md"))
    described = machine.type("ottla topic describe orders")
    assert "min.insync.replicas=2" in described
    assert replicas(described) == [{"1", "2", "3"}] * 3


def test_a_lost_tree(machine: Machine) -> None:
    (machine.folder / "config").mkdir()
    (machine.folder / "config" / "server.properties").write_text(
        "log.dirs=logs\nlisteners=PLAINTEXT://127.0.0.1:9092\n"
    )
    broker = machine.stay("ottla serve --config config/server.properties")
    machine.type("ottla topic create orders --partitions 3; echo 1 | ottla produce orders")
    broker.terminate()
    assert broker.wait(PATIENCE_S) == 0
    for file in machine.folder.glob("logs/ottla-tree.sqlite*"):
        file.unlink()
    machine.stay(block("sh", "--adopt", "docs/operations.md").strip())
    assert len(replicas(machine.type("ottla topic describe orders"))) == 3


def test_clients_of_their_time(machine: Machine) -> None:
    """A reader who has Kafka 0.8 types its scripts; Python's classic clients are tried beside them."""
    fetch(OLD)
    (machine.folder / "bin").mkdir()
    for name, kind in (("producer", "kafka.tools.ConsoleProducer"), ("consumer", "kafka.tools.ConsoleConsumer")):
        script = machine.folder / "bin" / f"kafka-console-{name}.sh"
        script.write_text(f'#!/usr/bin/env bash\nexec {SCRIPT} tool {OLD} {kind} "$@"\n')
        script.chmod(0o755)
    *lines, stop = block("sh", "kafka-console-consumer.sh", "docs/java-0.8.md").splitlines()
    try:
        printed = machine.type("\n".join(lines))
        assert "a page" in printed.splitlines()
        for code in (
            block("python", "ProducerData", "docs/classic.md"),
            block("python", "SimpleConsumer", "docs/classic.md"),
            block("python", "Consumer.create", "docs/classic.md"),
        ):
            (machine.folder / "program.py").write_text(code)
            printed = machine.type("python program.py")
        assert len(printed.splitlines()) == 5
    finally:
        machine.type(stop)
