"""Loading a warehouse on the shared Spark session: columns that grow, values as they are, records that are gone."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
from pyarrow import dataset

from ottla.client import Admin, Cluster, Producer, TopicPartition
from ottla.pipelines.frame.config import PipelineError, parse
from ottla.pipelines.tables.manifest import Manifest
from ottla.spark.planning import Range
from tests.peers.ottla import Broker
from tests.peers.skips import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
HOUR_MS = 3_600_000
START_MS = 490_995 * HOUR_MS  # 2026-01-05 03:00 UTC


def produce(bootstrap: str, topic: str, values: Sequence[Sequence[bytes]]) -> None:
    """A partition's values, ten minutes apart."""

    async def main() -> None:
        async with Cluster(bootstrap) as cluster:
            if topic not in await Admin(cluster).list_topics():
                await Admin(cluster).create_topic(topic, len(values), 1, {"retention.ms": "-1"})
            async with Producer(cluster) as producer:
                for partition, of in enumerate(values):
                    for number, value in enumerate(of):
                        time_ms = START_MS + number * HOUR_MS // 6
                        await producer.send(topic, value, partition=partition, timestamp_ms=time_ms)

    trio.run(main)


def test_a_load_of_json_and_then_more(spark: "SparkSession", broker: Broker, tmp_path: Path) -> None:
    """Two tasks see a new column differently: it becomes what fits both. A later value that does not fit is kept."""
    from ottla.pipelines import warehouse_load

    text = f"""
        picture = "{tmp_path}/picture.png"
        [source]
        bootstrap = "{broker.bootstrap}"
        topics = ["views"]
        options = {{ minPartitions = "2" }}
        [table]
        location = "{tmp_path}/table"
        """
    config = parse(text, warehouse_load.Config)
    produce(broker.bootstrap, "views", [[b'{"price":1}'] * 8, [b'{"price":2.5,"who":"a"}'] * 8])
    loaded = warehouse_load.run(spark, config)
    assert (loaded.batches, loaded.records) == (1, 16)
    assert loaded.hours == {("views", "2026-01-05", 3): 12, ("views", "2026-01-05", 4): 4}
    produce(broker.bootstrap, "views", [[b'{"price":"free","new":true}', b"no JSON"], []])
    assert warehouse_load.run(spark, config).records == 2
    assert warehouse_load.run(spark, config).records == 0
    schema = Manifest(tmp_path / "table").schema()
    rows = spark.read.option("mergeSchema", "true").parquet(f"{tmp_path}/table")
    assert schema is not None
    assert set(rows.columns) == {*schema.names, "topic", "date", "hour"}
    found = rows.select("price", "who", "new", "_misfits", "_value", "hour").collect()
    assert sorted(str(row["price"]) for row in found) == ["1.0"] * 8 + ["2.5"] * 8 + ["None"] * 2
    assert sum(row["who"] == "a" for row in found) == 8
    assert [row["_misfits"] for row in found if row["new"]] == ['{"price":"free"}']
    assert [bytes(row["_value"]) for row in found if row["_value"] is not None] == [b"no JSON"]
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_values_as_they_are(spark: "SparkSession", broker: Broker, tmp_path: Path) -> None:
    from ottla.pipelines import warehouse_load

    produce(broker.bootstrap, "raw", [[b"a", b"\x00\xff"], [b"{}"]])
    text = f'[source]\nbootstrap = "{broker.bootstrap}"\ntopics = ["raw"]\n'
    text += f'[table]\nlocation = "{tmp_path}/table"\nvalues = "binary"\n[load]\nrecords_per_batch = 2'
    loaded = warehouse_load.run(spark, parse(text, warehouse_load.Config))
    assert (loaded.batches, loaded.records) == (2, 3)
    rows = dataset.dataset(tmp_path / "table", partitioning="hive").to_table()
    assert set(rows.column_names) == {"key", "value", "partition", "offset", "timestamp", "topic", "date", "hour"}
    found = zip(*(rows[name].to_pylist() for name in ("partition", "offset", "value")), strict=True)
    assert sorted(found) == [(0, 0, b"a"), (0, 1, b"\x00\xff"), (1, 0, b"{}")]


def ranges(*bounds: tuple[int, int]) -> list[Range]:
    return [
        Range(TopicPartition("t", number), start, end, 100 * (end - start), ("h", 1))
        for number, (start, end) in enumerate(bounds)
    ]


def test_what_is_next() -> None:
    try:
        from ottla.pipelines.warehouse_load.load import first_of, remaining
    except ImportError as missing:
        require("spark", str(missing))
    there = ranges((0, 100), (50, 60), (0, 10))
    offsets = {TopicPartition("t", 0): 40, TopicPartition("t", 1): 60}
    todo = remaining(there, offsets, must_be_complete=True)
    assert [(each.partition.partition, each.start, each.end) for each in todo] == [(0, 40, 100), (2, 0, 10)]
    assert [(each.start, each.end) for each in first_of(todo, 35)] == [(40, 70), (0, 5)]
    assert [(each.start, each.end) for each in first_of(todo, 1)] == [(40, 41), (0, 1)]
    with pytest.raises(PipelineError, match="t-1 begins at offset 50 by now, and 45 is the next to load"):
        remaining(there, {TopicPartition("t", 1): 45}, must_be_complete=True)
    assert remaining(there, {TopicPartition("t", 1): 45}, must_be_complete=False)[1].start == 50
    with pytest.raises(PipelineError, match="another topic of the same name"):
        remaining(there, {TopicPartition("t", 2): 11}, must_be_complete=True)
