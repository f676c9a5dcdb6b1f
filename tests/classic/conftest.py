"""Servers with a ZooKeeper: our own broker, and Apache Kafka of the last release whose protocol this project speaks."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import trio

from ottla.client import Admin, Cluster
from tests.peers.apache import Apache, Kafka
from tests.peers.ottla import Broker, Brokers

_names = itertools.count(1)


SMALL = {"offsets.topic.replication.factor": 1, "offsets.topic.num.partitions": 1}


@dataclass(frozen=True)
class Place:
    """A running broker and where its cluster is in ZooKeeper."""

    broker: Broker | Kafka
    zookeeper: str
    kind: str

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    @property
    def port(self) -> int:
        return self.broker.port

    def topic(self, partitions: int = 1, **settings: str) -> str:
        """A new topic with a name of its own."""
        name = f"classic-{next(_names)}"
        self.create(name, partitions, **settings)
        return name

    def create(self, name: str, partitions: int = 1, **settings: str) -> None:
        async def create() -> None:
            async with Cluster(self.bootstrap) as cluster:
                changed = {key.replace("_", "."): value for key, value in settings.items()}
                await Admin(cluster).create_topic(name, partitions=partitions, settings=changed)

        trio.run(create)

    def grow(self, name: str, total: int) -> None:
        """Gives a topic more partitions."""

        async def grow() -> None:
            async with Cluster(self.bootstrap) as cluster:
                await Admin(cluster).create_partitions(name, total)

        trio.run(grow)


def group() -> str:
    """A group's name that no other test uses."""
    return f"group-{next(_names)}"


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory, zookeeper_server: str) -> Iterator[Place]:
    zookeeper = f"{zookeeper_server}/classic-ours"
    with Brokers(tmp_path_factory.mktemp("classic-ottla")) as brokers:
        yield Place(brokers(broker_id=1, zookeeper=zookeeper, settings=SMALL), zookeeper, "ottla")


@pytest.fixture(scope="session")
def theirs(tmp_path_factory: pytest.TempPathFactory, zookeeper_server: str) -> Iterator[Place]:
    zookeeper = f"{zookeeper_server}/classic-theirs"
    with Apache(tmp_path_factory.mktemp("classic-kafka")) as apache:
        yield Place(apache.broker("2.7.2", zookeeper=zookeeper), zookeeper, "apache")


@pytest.fixture(
    params=[
        pytest.param("ours", marks=[pytest.mark.java, pytest.mark.zookeeper]),
        pytest.param("theirs", marks=[pytest.mark.java, pytest.mark.zookeeper]),
    ]
)
def place(request: pytest.FixtureRequest) -> Place:
    """Both, one after the other; none is started before it is needed."""
    found: Place = request.getfixturevalue(request.param)
    return found
