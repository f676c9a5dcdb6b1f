"""One session of Spark for all tests, as small as it gets: it needs Java 17 or newer, and no jar."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from ottla.spark import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    spark = session(cores=1, memory="512m")
    yield spark
    spark.stop()
