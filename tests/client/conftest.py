"""Servers for the client's tests: our own, and Apache Kafka of the release whose protocol this project speaks."""

from collections.abc import Iterator

import pytest

from ottla.client import BlockingConnection
from ottla.wire.k03_metadata import METADATA, MetadataRequest
from tests.peers.apache import Apache, Kafka
from tests.peers.ottla import Broker, Brokers


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Apache Kafka 2.7.2 with ZooKeeper."""
    with Apache(tmp_path_factory.mktemp("client-kafka")) as apache:
        broker = apache.broker("2.7.2", zookeeper=apache.zookeeper())
        broker.wait_until(lambda: knows_itself(broker.port))
        yield broker


@pytest.fixture(scope="session")
def our_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One of our own brokers."""
    with Brokers(tmp_path_factory.mktemp("client-ottla")) as brokers:
        yield brokers()


@pytest.fixture(scope="session")
def prompt_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One of our own brokers, whose new groups wait for no other members."""
    with Brokers(tmp_path_factory.mktemp("client-prompt")) as brokers:
        yield brokers(settings={"group.initial.rebalance.delay.ms": 0})


@pytest.fixture(params=["ottla", pytest.param("apache", marks=pytest.mark.java)])
def server(request: pytest.FixtureRequest) -> Kafka | Broker:
    """Both, one after the other; none is started before it is needed."""
    found: Kafka | Broker = request.getfixturevalue("our_broker" if request.param == "ottla" else "apache_kafka")
    return found


def knows_itself(port: int) -> bool:
    """Kafka answers before its own metadata name any broker."""
    with BlockingConnection.connect("127.0.0.1", port) as connection:
        return bool(connection.call(METADATA, MetadataRequest(topics=[])).brokers)
