"""Topics whose every record is known, in brokers of both kinds."""

from collections.abc import Iterator

import pytest

from tests.peers.apache import Apache
from tests.peers.ottla import Brokers
from tests.spark.topics import Topics

# Transactions that took too long are looked for each second instead of each ten.
ABORTS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000}


@pytest.fixture(scope="session")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    """Topics with known records in a broker of our own, and on its disk."""
    with Brokers(tmp_path_factory.mktemp("spark-broker")) as brokers:
        broker = brokers(settings=ABORTS)
        yield Topics(broker.bootstrap, broker.data)


@pytest.fixture(scope="session")
def apache_topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    """The same in Apache Kafka 3.9.2, which says on disk within a tenth of a second how far readers may read."""
    with Apache(tmp_path_factory.mktemp("spark-kafka")) as apache:
        settings = {"replica.high.watermark.checkpoint.interval.ms": 100, **ABORTS}
        broker = apache.broker("3.9.2", zookeeper=apache.zookeeper(), settings=settings)
        yield Topics(broker.bootstrap, broker.data)
