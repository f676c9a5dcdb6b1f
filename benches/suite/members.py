"""Brokers of one contestant that are a cluster, with a ZooKeeper of their own.

Kafka takes part where it still knows ZooKeeper; a release that does not (4.0 and later) has no figures. CPU and memory
are those of all brokers together. ZooKeeper, which is the same for all, is not counted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kazoo.client import KazooClient

from benches.suite.runner import Run
from benches.suite.servers import LATEST, Running, Settings, connect, cpu_s
from ottla.errors import ProtocolError
from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.k19_create_topics import (
    CREATE_TOPICS,
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.peers.apache import Apache, has_controller

ZOOKEEPER = "3.9.2"
SESSION_MS = 6000
SETTINGS = {
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    # Both kinds' default is 18 s, of which a failover would be made.
    "zookeeper.session.timeout.ms": SESSION_MS,
    # Leaders stay where a case puts them.
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
}
WAIT_S = 120.0
# Of ZooKeeper: for a hundred thousand partitions.
HEAP_MB = 512


class Members:
    """The brokers of one contestant, by id. One that was killed may be started again at its address."""

    def __init__(self, run: Run, folder: Path, tree: KazooClient, zookeeper: str, settings: Settings) -> None:
        self.brokers: dict[int, Running] = {}
        self.tree = tree
        self._run = run
        self._folder = folder
        self._zookeeper = zookeeper
        self._settings = settings

    def start(self, number: int) -> Running:
        """A broker's first process or its next one, on the same directory. It is not waited for."""
        old = self.brokers.get(number)
        folder = self._folder / f"broker-{number}"
        port = old.port if old else None
        server = self._run.contestant.member(folder, self._settings, number, self._zookeeper, port)
        self.brokers[number] = server
        return server

    def kill_all(self) -> None:
        for server in self.brokers.values():
            server.kill()

    @property
    def pids(self) -> list[int]:
        return [server.pid for server in self.brokers.values()]

    @property
    def bootstrap(self) -> str:
        return ",".join(server.bootstrap for server in self.brokers.values())

    def cpu_s(self) -> float:
        return sum(cpu_s(server) for server in self.brokers.values())

    def controller(self) -> int:
        """The broker's id, by the tree."""
        found: int = json.loads(self.tree.get("/controller")[0])["brokerid"]
        return found

    def metadata(self, of: Running, *topics: str) -> MetadataResponse:
        """Of these topics; of all, if there are none."""
        with connect(of) as connection:
            rows = [MetadataRequestTopic(name=topic) for topic in topics] or None
            return connection.call(METADATA, MetadataRequest(topics=rows), version=1)

    def create(self, topic: str, replicas: Sequence[Sequence[int]], **configs: object) -> None:
        """A topic whose partitions have these replicas, the first of them leading. Settings with _ for dots. Returns
        when all brokers know them.
        """
        rows = [CreatableReplicaAssignment(index, list(brokers)) for index, brokers in enumerate(replicas)]
        self.make(topic, rows, **configs)
        for server in self.brokers.values():
            wait(lambda server=server: self._is_led(server, topic, replicas), topic)  # type: ignore[misc]

    def create_led(self, topic: str, leaders: Sequence[int]) -> None:
        """A topic with a partition for each of these leaders, which all brokers have."""
        self.create(topic, [[leader, *(other for other in self.brokers if other != leader)] for leader in leaders])

    def make(
        self, topic: str, assignments: list[CreatableReplicaAssignment], partitions: int = -1, **configs: object
    ) -> None:
        """Asks the controller for a topic, with or without assignments, and waits for no more than its answer."""
        settings = [CreatableTopicConfig(name=name.replace("_", "."), value=str(it)) for name, it in configs.items()]
        row = CreatableTopic(
            name=topic, num_partitions=partitions, replication_factor=-1, assignments=assignments, configs=settings
        )
        if not assignments:
            row.replication_factor = 3
        with connect(self.brokers[self.controller()]) as connection:
            answer = connection.call(CREATE_TOPICS, CreateTopicsRequest(topics=[row], timeout_ms=120_000), version=2)
        assert answer.topics[0].error_code == 0, answer

    def _is_led(self, server: Running, topic: str, replicas: Sequence[Sequence[int]]) -> bool:
        (row,) = self.metadata(server, topic).topics
        found = {one.partition_index: one for one in row.partitions}
        return len(found) == len(replicas) and all(
            found[index].leader_id == wanted[0] and len(found[index].isr_nodes) == len(wanted)
            for index, wanted in enumerate(replicas)
        )

    def is_in_sync(self, server: Running, *topics: str) -> bool:
        """True if all replicas of these topics are in sync and each partition has a leader, as this broker says."""
        return all(
            one.leader_id >= 0 and len(one.isr_nodes) == len(one.replica_nodes)
            for topic in self.metadata(server, *topics).topics
            for one in topic.partitions
        )

    def high_watermark(self, topic: str, index: int, leader: int) -> int:
        return self.high_watermarks({topic: [index]}, leader)[topic, index]

    def high_watermarks(self, led: Mapping[str, Iterable[int]], leader: int) -> dict[tuple[str, int], int]:
        """Of these partitions, by topic, as their leader tells in one answer; -1 where it does not lead."""
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in indexes],
            )
            for topic, indexes in led.items()
        ]
        with connect(self.brokers[leader]) as connection:
            answer = connection.call(LIST_OFFSETS, ListOffsetsRequest(replica_id=-1, topics=topics), version=2)
        return {
            (topic.name, one.partition_index): -1 if one.error_code else one.offset
            for topic in answer.topics
            for one in topic.partitions
        }


@contextmanager
def members(
    run: Run,
    numbers: Sequence[int],
    settings: Settings | None = None,
    before: Callable[[str, KazooClient], None] | None = None,
    name: str = "cluster",
) -> Iterator[Members]:
    """Brokers that know each other. They are killed in the end. `before` gets the ZooKeeper (its address and a client)
    before there is a broker. A run has a cluster of each name once.
    """
    folder = run.folder / name
    with ExitStack() as stack:
        zookeeper = stack.enter_context(Apache(folder)).zookeeper(ZOOKEEPER, heap_mb=HEAP_MB)
        tree = KazooClient(hosts=zookeeper, timeout=30.0)
        stack.callback(tree.close)
        stack.callback(tree.stop)
        tree.start()
        cluster = Members(run, folder, tree, zookeeper, {**SETTINGS, **(settings or {})})
        stack.callback(cluster.kill_all)
        if before is not None:
            before(zookeeper, tree)
        for number in numbers:
            cluster.start(number)
        for server in cluster.brokers.values():
            wait(lambda server=server: has_controller(server.port), "a controller")  # type: ignore[misc]
            wait(
                lambda server=server: len(cluster.metadata(server).brokers) >= len(numbers),  # type: ignore[misc]
                "all brokers",
            )
        run.server = cluster.brokers[numbers[0]]
        yield cluster


def wait(holds: Callable[[], bool], what: str, limit_s: float = WAIT_S, pause_s: float = 0.005) -> None:
    """Returns when it is true; what cannot be asked is not."""
    end = time.monotonic() + limit_s
    while True:
        try:
            if holds():
                return
        except (OSError, EOFError, ProtocolError):
            pass
        if time.monotonic() > end:
            raise RuntimeError(f"not within {limit_s:.0f} s: {what}")
        time.sleep(pause_s)
