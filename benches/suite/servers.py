"""Brokers of both kinds as the suite starts them: as their users do, on a fresh directory, with their own defaults."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from ottla.client.blocking import BlockingConnection
from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.k20_delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from ottla.wire.k32_describe_configs import DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.k44_incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.peers.apache import SCRIPT, fetch, has_controller
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.peers.processes import Server

# As bin/kafka-server-start.sh and bin/kafka-run-class.sh have them.
JVM = {
    "KAFKA_HEAP_OPTS": "-Xmx1G -Xms1G",
    "KAFKA_JVM_PERFORMANCE_OPTS": "-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 "
    "-XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true",
}
# There is one broker; everything else is its own default.
ONE_BROKER = {
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
}
Settings = Mapping[str, object]
LATEST = -1
#: Since this release Kafka does not know ZooKeeper.
KRAFT_ONLY = 4
BROKER = 4
SET, DELETE = 0, 1
CHANGE_S = 20.0


class Running(Protocol):
    """A broker that answers."""

    data: Path
    port: int
    bootstrap: str

    @property
    def pid(self) -> int: ...
    def stop(self) -> int: ...
    def kill(self) -> int: ...


class Contestant(Protocol):
    """Who takes part. `name` is the column of the table."""

    name: str
    #: A controller gives a broker that was killed no partitions before its session is over.
    session_s: float

    def start(self, folder: Path, settings: Settings, port: int | None = None, *, wait: bool = True) -> Running:
        """A broker whose data are in `folder`; the same folder and port again is a restart."""
        ...

    #: Its brokers can be members of a cluster with a ZooKeeper.
    knows_zookeeper: bool

    def member(
        self, folder: Path, settings: Settings, broker_id: int, zookeeper: str, port: int | None = None
    ) -> Running:
        """A broker of a cluster, which is not waited for; the same folder and port again is a restart."""
        ...


class Ottla:
    """`ottla serve`."""

    name = "Ottla"
    session_s = 0.0
    knows_zookeeper = True

    def start(self, folder: Path, settings: Settings, port: int | None = None, *, wait: bool = True) -> Broker:
        brokers = Brokers(folder)
        folder.mkdir(parents=True, exist_ok=True)
        return brokers(data=folder / "data", port=port, settings={**ONE_BROKER, **settings}, wait=wait)

    def member(
        self, folder: Path, settings: Settings, broker_id: int, zookeeper: str, port: int | None = None
    ) -> Broker:
        folder.mkdir(parents=True, exist_ok=True)
        return Brokers(folder)(
            data=folder / "data",
            broker_id=broker_id,
            port=port,
            zookeeper=zookeeper,
            settings={**ONE_BROKER, **settings},
            wait=False,
        )


class Apache(Server):
    """One combined KRaft node of Apache Kafka, or with `arguments` another kind of broker."""

    def __init__(
        self,
        version: str,
        folder: Path,
        settings: Settings,
        port: int,
        arguments: tuple[str, ...] = ("--kraft",),
    ) -> None:
        self.data, self.port, self.bootstrap = folder / "data", port, f"127.0.0.1:{port}"
        folder.mkdir(parents=True, exist_ok=True)
        command = [str(SCRIPT), "broker", "run", version, "--port", str(port), "--dir", str(folder)]
        command += arguments
        for name, value in {**ONE_BROKER, **settings}.items():
            command += ["--set", f"{name}={value}"]
        super().__init__(f"kafka-{version}", command, folder / "log.txt", environment=JVM)

    def stop(self) -> int:
        """With thousands of partitions that takes longer than anybody else may."""
        return self.signal_and_wait(signal.SIGTERM, timeout_s=300)


class Kafka:
    """A release of Apache Kafka."""

    session_s = 9.0

    def __init__(self, version: str) -> None:
        fetch(version)
        self.version = version
        self.name = f"Kafka {version}"
        self.knows_zookeeper = int(version.partition(".")[0]) < KRAFT_ONLY

    def start(self, folder: Path, settings: Settings, port: int | None = None, *, wait: bool = True) -> Apache:
        server = Apache(self.version, folder, settings, port or free_port())
        if wait:
            server.wait_until(lambda: has_controller(server.port))
        return server

    def member(
        self, folder: Path, settings: Settings, broker_id: int, zookeeper: str, port: int | None = None
    ) -> Apache:
        return Apache(
            self.version, folder, settings, port or free_port(), ("--id", str(broker_id), "--zookeeper", zookeeper)
        )


def contestants(against: str) -> list[Contestant]:
    """Ours first; `against` is e.g. "3.9.2,4.3.1", or "none"."""
    return [Ottla(), *(Kafka(version) for version in against.split(",") if version and version != "none")]


def connect(server: Running, timeout_ms: int = 180_000) -> BlockingConnection:
    return BlockingConnection.connect("127.0.0.1", server.port, timeout_ms=timeout_ms)


def create_topic(server: Running, topic: str, partitions: int = 1, **configs: object) -> float:
    """Seconds until CreateTopics was answered and every partition's leader serves it. Settings with _ for dots."""
    rows = [CreatableTopicConfig(name=name.replace("_", "."), value=str(value)) for name, value in configs.items()]
    row = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=rows)
    begin = time.perf_counter()
    with connect(server) as connection:
        answer = connection.call(CREATE_TOPICS, CreateTopicsRequest(topics=[row], timeout_ms=120_000), version=2)
        assert answer.topics[0].error_code == 0, answer
        while not _is_served(connection, topic, partitions):
            time.sleep(0.002)
    return time.perf_counter() - begin


def _is_served(connection: BlockingConnection, topic: str, partitions: int) -> bool:
    """Kafka's Metadata name a leader before it knows that it is one: its logs are asked too."""
    if not _has_leaders(connection, topic, partitions):
        return False
    rows = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in range(partitions)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=rows)])
    (found,) = connection.call(LIST_OFFSETS, request, version=2).topics
    return not any(each.error_code for each in found.partitions)


def _has_leaders(connection: BlockingConnection, topic: str, partitions: int) -> bool:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    (found,) = connection.call(METADATA, request, version=1).topics
    return len(found.partitions) == partitions and all(each.leader_id >= 0 for each in found.partitions)


def clear(server: Running, timeout_s: float = 60.0) -> None:
    """Deletes all topics that are not the broker's own, and waits until their files are gone."""
    with connect(server) as connection:
        topics = connection.call(METADATA, MetadataRequest(topics=None), version=1).topics
        names = [topic.name for topic in topics if not topic.name.startswith("__")]
        if not names:
            return
        request = DeleteTopicsRequest(topic_names=names, timeout_ms=60_000)
        errors = {row.name: row.error_code for row in connection.call(DELETE_TOPICS, request, version=3).responses}
    if any(errors.values()):
        raise RuntimeError(f"topics could not be deleted: {errors}")
    end = time.monotonic() + timeout_s
    while left := [path.name for path in server.data.iterdir() if path.is_dir() and path.name.startswith(tuple(names))]:
        if time.monotonic() > end:
            raise RuntimeError(f"deleted topics have files after {timeout_s:.0f} s: {left[:5]}")
        time.sleep(0.02)


def seconds_until_served(server: Running, topic: str | None = None, partitions: int = 0) -> float:
    """Seconds until a broker that was just started answers Metadata (and serves all partitions of a topic)."""
    begin = time.perf_counter()
    while True:
        try:
            with connect(server, 10_000) as connection:
                if topic is not None:
                    while not _is_served(connection, topic, partitions):
                        time.sleep(0.002)
                elif not connection.call(METADATA, MetadataRequest(topics=[]), version=1).brokers:
                    continue
                return time.perf_counter() - begin
        except (OSError, EOFError):
            time.sleep(0.002)


def cpu_s(server: Running) -> float:
    """Seconds of CPU, user and system, of the broker's process since it began."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(server: Running, *, peak: bool = False) -> float:
    """The megabytes that the broker's process has in memory now, or with `peak` had at most."""
    name = "VmHWM:" if peak else "VmRSS:"
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024 / 1e6


def proportional_mb(server: Running) -> float:
    """The megabytes that the broker's process has in memory; pages that it shares with others count by its part."""
    lines = Path(f"/proc/{server.pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / 1e6


def reset_peak(server: Running) -> None:
    """From now on the peak is that of what comes."""
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")


@contextmanager
def with_setting(server: Running, name: str, value: str) -> Iterator[None]:
    """Within it the running broker has this setting."""
    with connect(server) as connection:
        before = _alter(connection, name, SET, value)
        try:
            yield
        finally:
            _alter(connection, name, DELETE, before)


def _alter(connection: BlockingConnection, name: str, operation: int, wanted: str | None) -> str | None:
    """Changes a setting of all brokers, waits until this one has the value `wanted`, and returns that of before."""
    (broker,) = connection.call(METADATA, MetadataRequest(topics=[]), version=1).brokers
    resource = DescribeConfigsResource(
        resource_type=BROKER, resource_name=str(broker.node_id), configuration_keys=[name]
    )

    def value() -> str | None:
        (found,) = connection.call(DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=[resource]), version=1).results
        return next(row.value for row in found.configs)

    before = value()
    change = AlterableConfig(name=name, config_operation=operation, value=wanted if operation == SET else None)
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[change])]
    )
    (row,) = connection.call(INCREMENTAL_ALTER_CONFIGS, request, version=0).responses
    if row.error_code:
        raise RuntimeError(f"{name} could not be changed: {row.error_message}")
    end = time.monotonic() + CHANGE_S
    while value() != wanted:
        if time.monotonic() > end:
            raise RuntimeError(f"{name} is {value()} instead of {wanted} after {CHANGE_S:.0f} s")
        time.sleep(0.002)
    return before


def evict(server: Running, topic: str = "*") -> None:
    """Takes a topic's segments, or all, out of the page cache, after writing them."""
    for path in server.data.glob(f"{topic}-*/*.log"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
