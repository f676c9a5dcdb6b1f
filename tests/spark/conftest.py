"""One Spark session for the whole run: it costs eight seconds and a gigabyte."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.peers.apache import Apache, Kafka
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
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Apache Kafka 3.9.2, which says within a tenth of a second on disk how far readers may read."""
    with Apache(tmp_path_factory.mktemp("spark-kafka")) as apache:
        yield apache.broker(
            "3.9.2", zookeeper=apache.zookeeper(), settings={"replica.high.watermark.checkpoint.interval.ms": 100}
        )


@pytest.fixture(scope="session")
def topics(apache_kafka: Kafka) -> Topics:
    """Topics with known records, in brokers and on disk."""
    return Topics(apache_kafka.bootstrap, apache_kafka.data)
