"""A broker with a ZooKeeper, and what old consumers leave there, for tests of commands about them."""

import itertools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trio
from kazoo.client import KazooClient

from ottla.classic import Consumer, Message, ProducerRequest, SyncProducer, TopicPartition
from ottla.classic.simple_consumer import SimpleConsumer
from ottla.client import Admin, Cluster
from tests.peers.ottla import Brokers

SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
}
_names = itertools.count(1)


@dataclass(frozen=True)
class Old:
    """A broker, its ZooKeeper, and a client that writes there as old consumers do."""

    bootstrap: str
    port: int
    zookeeper: str
    client: KazooClient
    brokers: Brokers

    def topic(self, partitions: int = 2, records: int = 10) -> str:
        """A new topic with so many records in each partition."""
        name = f"old-{next(_names)}"
        command = [sys.executable, "-m", "ottla", "topic", "create", name, "-p", str(partitions), "-b", self.bootstrap]
        subprocess.run(command, check=True)
        with SyncProducer("127.0.0.1", self.port) as producer:
            for number in range(partitions if records else 0):
                values = [Message(b"%d" % at) for at in range(records)]
                (sent,) = producer.multi_send([ProducerRequest(name, number, values)])
                assert sent.error is None
        return name

    def topic_that_nobody_leads(self) -> str:
        """A new topic whose only broker has ended."""
        name = f"old-{next(_names)}"
        second = self.brokers(broker_id=2, zookeeper=self.zookeeper, settings=SETTINGS)

        async def create() -> None:
            async with Cluster(self.bootstrap) as cluster:
                await Admin(cluster).create_topic(name, assignment=[[2]])

        try:
            trio.run(create)
        finally:
            second.stop()
        return name

    def write(self, path: str, data: str = "", **how: bool) -> None:
        """A node below /consumers."""
        self.client.ensure_path(f"/consumers/{path}".rpartition("/")[0])
        self.client.create(f"/consumers/{path}", data.encode(), **how)

    def group(self, topic: str, *offsets: int) -> str:
        """A new group without members that has an offset for each partition from 0 on."""
        name = f"group-{next(_names)}"
        for number, offset in enumerate(offsets):
            self.write(f"{name}/offsets/{topic}/{number}", str(offset))
        return name

    def offsets(self, group: str, topic: str) -> dict[str, str]:
        """The group's offsets in ZooKeeper, by partition."""
        path = f"/consumers/{group}/offsets/{topic}"
        found = self.client.get_children(path) if self.client.exists(path) else []
        return {each: self.client.get(f"{path}/{each}")[0].decode() for each in sorted(found)}

    def commit_in_kafka(self, group: str, topic: str, *offsets: int) -> None:
        """Commits offsets as old consumers do with `offsets.storage=kafka`."""
        with SimpleConsumer("127.0.0.1", self.port) as own:
            places = {TopicPartition(topic, number): offset for number, offset in enumerate(offsets)}
            own.commit_offsets(group, places, storage="kafka")

    @contextmanager
    def member(self, group: str, topic: str) -> Iterator[str]:
        """A member that has read nothing; its id."""
        settings = {"zookeeper.connect": self.zookeeper, "group.id": group, "auto.commit.enable": False}
        with Consumer.create(settings) as connector:
            connector.create_message_streams({topic: 1})
            yield connector.consumer_id


@contextmanager
def running(folder: Path, zookeeper: str) -> Iterator[Old]:
    """A new cluster at HOST:PORT/chroot."""
    with Brokers(folder) as brokers:
        broker = brokers(broker_id=1, zookeeper=zookeeper, settings=SETTINGS)
        client = KazooClient(zookeeper)
        client.start()
        try:
            yield Old(broker.bootstrap, broker.port, zookeeper, client, brokers)
        finally:
            client.stop()
            client.close()
