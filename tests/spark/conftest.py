"""One Spark session for the whole run: it costs eight seconds and a gigabyte."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.peers.apache import Apache
from tests.peers.ottla import Brokers
from tests.peers.skips import require
from tests.spark.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """A session with two cores and a small heap."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        require("spark", "pyspark is not installed")
    from ottla.spark import session

    spark = session("ottla tests", cores=2, memory="512m")
    spark.sparkContext.setLogLevel("ERROR")
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    """Topics with known records in a broker of our own, and on its disk."""
    with Brokers(tmp_path_factory.mktemp("spark-broker")) as brokers:
        broker = brokers()
        yield Topics(broker.bootstrap, broker.data)


@pytest.fixture(scope="session")
def apache_topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    """The same in Apache Kafka 3.9.2, which says on disk within a tenth of a second how far readers may read."""
    with Apache(tmp_path_factory.mktemp("spark-kafka")) as apache:
        settings = {"replica.high.watermark.checkpoint.interval.ms": 100}
        broker = apache.broker("3.9.2", zookeeper=apache.zookeeper(), settings=settings)
        yield Topics(broker.bootstrap, broker.data)
