"""`spark.readStream.format("ottla")`: micro-batches over topics whose every record is known."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.topics import Topics, collected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.spark

SIDES = pytest.mark.parametrize("side", ["brokers", "path"])


@dataclass
class Queries:
    """Runs of one streaming query: all with one checkpoint and one output, which has a row for each that was read."""

    spark: "SparkSession"
    folder: Path
    started: list["StreamingQuery"] = field(default_factory=list)

    def start(self, frame: "DataFrame", **trigger: Any) -> "StreamingQuery":
        """Starts a run."""
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(self.folder / "checkpoint"))
        query = writer.trigger(**trigger).start(str(self.folder / "output"))
        self.started.append(query)
        return query

    def finish(self, frame: "DataFrame", **trigger: Any) -> list[Any]:
        """Runs to the end: the progress of each batch that read something."""
        query = self.start(frame, **(trigger or {"availableNow": True}))
        assert query.awaitTermination(60)
        return [each for each in query.recentProgress if each.numInputRows]

    def rows(self) -> list[tuple[Any, ...]]:
        """What all runs have written until now."""
        return collected(self.spark.read.parquet(str(self.folder / "output")))


@pytest.fixture
def queries(spark: "SparkSession", tmp_path: Path) -> Iterator[Queries]:
    made = Queries(spark, tmp_path)
    yield made
    for query in made.started:
        query.stop()


def ends(progress: list[Any]) -> list[dict[str, dict[str, int]]]:
    return [json.loads(each.sources[0].endOffset) for each in progress]


@SIDES
def test_batches_of_limited_size_and_an_exact_restart(
    topics: Topics, queries: Queries, spark: "SparkSession", side: str
) -> None:
    name = f"restarted-{side}"
    topics.make(name, [3000, 0, 1500])
    options = {"subscribe": name, "startingOffsets": "earliest", "includeHeaders": "true"}
    progress = queries.finish(topics.stream(spark, side, **options, maxOffsetsPerTrigger=1500))
    assert queries.rows() == topics.rows(name, headers=True)
    assert [each.numInputRows for each in progress] == [1500, 1500, 1500]
    assert ends(progress) == [
        {name: {"0": 1000, "1": 0, "2": 500}},
        {name: {"0": 2000, "1": 0, "2": 1000}},
        {name: {"0": 3000, "1": 0, "2": 1500}},
    ]
    assert json.loads(progress[0].sources[0].latestOffset) == {name: {"0": 3000, "1": 0, "2": 1500}}
    topics.append(name, [5, 7, 0, 9])  # the last partition is new
    progress = queries.finish(topics.stream(spark, side, **options))
    assert [each.numInputRows for each in progress] == [21]
    assert queries.rows() == topics.rows(name, headers=True)
    assert queries.finish(topics.stream(spark, side, **options)) == []
