"""What README shows of Spark does what it says."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.topics import Topics
from tests.support.readme import block

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_topic_is_read_as_it_comes_and_written(spark: "SparkSession", topics: Topics, tmp_path: Path) -> None:
    topics.make("orders", [10, 10])
    code = block("python", "writeStream").replace("127.0.0.1:9092", topics.bootstrap)
    names: dict[str, object] = {}
    exec(code.replace("large.checkpoint", str(tmp_path / "checkpoint")), names)
    (query,) = spark.streams.active
    try:
        query.processAllAvailable()  # it begins at the end of what is there
        topics.append("orders", [200, 200])
        query.processAllAvailable()
    finally:
        query.stop()
    new = [row for number in (0, 1) for row in topics.made["orders"][number][10:]]
    expected = sorted((row[0] or b"", row[1]) for row in new if row[1] is not None and len(row[1]) > 30)
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", topics.bootstrap)
    found = reader.option("subscribe", "large").load().select("key", "value").collect()
    assert sorted((bytes(row.key or b""), bytes(row.value)) for row in found) == expected
    assert expected
