"""Consumers read from the replica in their rack, and go on when it or the leader is gone: nothing is lost, nothing
comes twice, no position is reset.
"""

import itertools
import os
import subprocess
import threading
from collections.abc import Iterator

import confluent_kafka as ck
import pytest
from confluent_kafka import admin

from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from tests.cluster.conftest import KINDS
from tests.cluster.network import need_namespaces
from tests.cluster.stand import Cluster, Member
from tests.peers.apache import SCRIPT, environment, fetch, need_java
from tests.peers.skips import module
from tests.support.waiting import PATIENCE_S, eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]

RACKS = {1: "east", 2: "west", 3: "north"}
#: Where the consumers stand.
MINE = "west"
SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_namespaces()
    racks = {broker: {"broker.rack": rack} for broker, rack in RACKS.items()}
    with Cluster(tmp_path_factory.mktemp("racks"), KINDS, settings=SELECTOR, of_each=racks) as made:
        yield made


class Load:
    """A topic with one partition that broker 1 leads, and numbers that are written to it, from a node that no cut
    touches.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.topic = f"numbers-{next(_numbers)}"
        self.written = 0
        with cluster.observer.node.inside():
            client = admin.AdminClient({"bootstrap.servers": cluster.bootstrap})
            (made,) = client.create_topics([admin.NewTopic(self.topic, 1, replica_assignment=[[1, 2, 3]])]).values()
            made.result(PATIENCE_S)
            cluster.all_in_sync(self.topic)
            self._producer = ck.Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})

    def write(self, count: int = 100) -> None:
        """So many more are acknowledged by all replicas in sync."""
        failed: list[object] = []
        for number in range(self.written, self.written + count):
            self._producer.produce(
                self.topic, str(number), partition=0, on_delivery=lambda error, _: error and failed.append(error)
            )
        left = self._producer.flush(PATIENCE_S)
        assert (left, failed) == (0, [])
        self.written += count

    def told(self, rack: str = MINE) -> int:
        """Where its leader sends a consumer in the rack."""
        row = FetchPartition(partition=0, fetch_offset=self.written, partition_max_bytes=1 << 20)
        request = FetchRequest(
            replica_id=-1, max_wait_ms=0, rack_id=rack, topics=[FetchTopic(topic=self.topic, partitions=[row])]
        )
        with self.cluster.observer.connect(self.cluster.leader(self.topic).id) as client:
            answer = client.call(FETCH, request, 11).responses[0].partition_responses[0]
        assert answer.error_code == 0
        return answer.preferred_read_replica

    def sends_to(self, member: Member) -> None:
        eventually(f"consumers are sent to {member.name}", lambda: self.told() == member.id, facts=self.told)


class Reader:
    """Somebody else's consumer, in a rack."""

    def __init__(self, load: Load) -> None:
        self.values: list[int] = []
        self.errors: list[str] = []
        self._load = load
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        settings = {
            "bootstrap.servers": self._load.cluster.bootstrap,
            "client.rack": MINE,
            "group.id": self._load.topic,
            "enable.auto.commit": False,
            # A position that is not to be had is an error that comes to us.
            "auto.offset.reset": "error",
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 2000,
        }
        with self._load.cluster.clients.inside():
            consumer = ck.Consumer(settings)
        consumer.assign([ck.TopicPartition(self._load.topic, 0, 0)])
        while not self._stop.is_set():
            message = consumer.poll(0.1)
            if message is None:
                continue
            problem = message.error()
            if problem is None:
                self.values.append(int(message.value()))
            elif not problem.retriable() and problem.code() not in (
                ck.KafkaError._TRANSPORT,
                ck.KafkaError._ALL_BROKERS_DOWN,
            ):
                self.errors.append(str(problem))
        consumer.close()

    def has_all(self) -> None:
        """It has read all that was written, each once and in order."""
        eventually(
            f"{self._load.written} are read",
            lambda: len(self.values) >= self._load.written or self.errors,
            facts=lambda: (len(self.values), self.values[-1:], self.errors),
        )
        assert self.errors == []
        assert self.values == list(range(self._load.written))

    def end(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)


def test_a_consumer_reads_in_its_rack_through_failovers(cluster: Cluster) -> None:
    load = Load(cluster)
    load.write()
    load.sends_to(cluster.broker(2))
    assert [load.told(rack) for rack in ("east", "north", "south", "")] == [-1, 3, -1, -1]
    reader = Reader(load)
    reader.has_all()
    with cluster.network.cut("clients", "broker-1"):
        # So nobody but the follower can have told it.
        load.write()
        reader.has_all()
    cluster.broker(2).stop()
    load.write()
    reader.has_all()
    cluster.broker(2).start()
    cluster.all_in_sync(load.topic)
    load.sends_to(cluster.broker(2))
    load.write()
    reader.has_all()
    cluster.broker(1).kill()
    cluster.led_by_another(load.topic, 0, 1)
    load.write()
    reader.has_all()
    cluster.broker(1).start()
    cluster.all_in_sync(load.topic)
    load.write()
    reader.has_all()
    reader.end()


@pytest.mark.soak
def test_javas_consumer_reads_in_its_rack_through_failovers(cluster: Cluster) -> None:
    """Apache Kafka 3.9.2's. It begins at the log's start, and would go to its end if it had to reset its position."""
    need_java()
    fetch("3.9.2")
    load = Load(cluster)
    load.write()
    load.sends_to(cluster.broker(2))
    properties = {"client.rack": MINE, "metadata.max.age.ms": "2000", "reconnect.backoff.max.ms": "500"}
    command = [str(SCRIPT), "tool", "3.9.2", "console-consumer", "--bootstrap-server", cluster.bootstrap]
    command += ["--topic", load.topic, "--partition", "0", "--offset", "earliest"]
    for name, value in properties.items():
        command += ["--consumer-property", f"{name}={value}"]
    with cluster.clients.inside():
        java = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **environment(192)}
        )
    values: list[int] = []
    said: list[str] = []

    def read() -> None:
        assert java.stdout is not None
        for line in java.stdout:
            values.append(int(line))

    def listen() -> None:
        assert java.stderr is not None
        said.extend(line.decode(errors="replace") for line in java.stderr)

    threads = [threading.Thread(target=run, daemon=True) for run in (read, listen)]
    for thread in threads:
        thread.start()

    def has_all() -> None:
        eventually(
            f"{load.written} are read", lambda: len(values) >= load.written, facts=lambda: (len(values), said[-20:])
        )
        assert values == list(range(load.written))

    try:
        has_all()
        with cluster.network.cut("clients", "broker-1"):
            load.write()
            has_all()
        for member in (cluster.broker(2), cluster.leader(load.topic)):
            member.kill()
            cluster.leaves(member)
            load.write()
            has_all()
            member.start()
            cluster.all_in_sync(load.topic)
            load.write()
            has_all()
    finally:
        with java:
            java.kill()
            for thread in threads:
                thread.join(PATIENCE_S)
