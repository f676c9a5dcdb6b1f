"""`spark.readStream.format("ottla")`: micro-batches over topics whose every record is known."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from ottla.client import Admin, Cluster
from ottla.client.groups import Groups
from ottla.spark import offsets_behind
from tests.spark import restarted
from tests.spark.topics import Topics, collected
from tests.support.lanes import judged_by
from tests.support.waiting import PATIENCE_S, eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.spark

SIDES = pytest.mark.parametrize("side", judged_by(["brokers", "path"], ["brokers"]))


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
        assert query.awaitTermination(PATIENCE_S)
        return [each for each in query.recentProgress if each.numInputRows]

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows that all runs have written until now."""
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
    assert [offsets_behind(each)["avgOffsetsBehindLatest"] for each in progress] == [1000, 500, 0]
    assert offsets_behind(progress[0]) == {
        "minOffsetsBehindLatest": 0,
        "maxOffsetsBehindLatest": 2000,
        "avgOffsetsBehindLatest": 1000,
    }
    assert json.loads(progress[0].sources[0].latestOffset) == {name: {"0": 3000, "1": 0, "2": 1500}}
    topics.append(name, [5, 7, 0, 9])  # the last partition is new
    progress = queries.finish(topics.stream(spark, side, **options))
    assert [each.numInputRows for each in progress] == [21]
    assert queries.rows() == topics.rows(name, headers=True)
    assert queries.finish(topics.stream(spark, side, **options)) == []


def test_a_checkpoint_that_sparks_kafka_source_wrote(topics: Topics, spark: "SparkSession", tmp_path: Path) -> None:
    """Two batches were planned and one was finished: the second is read again, exactly, and then the rest."""
    topics.make("carried", [100, 200])
    for name, text in {
        "metadata": '{"id":"7d5f1a2c-3b4e-4f60-8a9b-0c1d2e3f4a5b"}',
        "offsets/0": offset_log({"carried": {"1": 50, "0": 20}}),
        "offsets/1": offset_log({"carried": {"1": 70, "0": 25}}),
        "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
        # Where that source itself keeps what it began with.
        "sources/0/0": 'v1\n{"carried":{"1":0,"0":0}}',
    }.items():
        path = tmp_path / "checkpoint" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert restarted.start(spark, topics.bootstrap, "carried", tmp_path).awaitTermination(PATIENCE_S)
    read = {path.name: json.loads(path.read_text()) for path in tmp_path.iterdir() if path.name.isdecimal()}
    assert read.pop("1") == [[0, offset] for offset in range(20, 25)] + [[1, offset] for offset in range(50, 70)]
    rest = [[0, offset] for offset in range(25, 100)] + [[1, offset] for offset in range(70, 200)]
    assert sorted(row for rows in read.values() for row in rows) == rest


def offset_log(offsets: dict[str, dict[str, int]]) -> str:
    settings = {"spark.sql.shuffle.partitions": "2", "spark.sql.streaming.stateStore.rocksdb.formatVersion": "5"}
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1_700_000_000_000, "conf": settings}
    return "\n".join(("v1", json.dumps(metadata), json.dumps(offsets)))


@pytest.mark.java
def test_lag_tools_see_what_a_query_has_read(apache_topics: Topics, queries: Queries, spark: "SparkSession") -> None:
    """Apache's own broker and tool, since its group has never had a member."""
    from ottla.spark import publish_offsets

    topics = apache_topics
    topics.make("seen", [30, 10])
    options = {"kafka.bootstrap.servers": topics.bootstrap, "groupIdPrefix": "lag"}
    listener = publish_offsets(spark, options)
    try:
        frame = topics.stream(
            spark, "brokers", subscribe="seen", startingOffsets="earliest", groupIdPrefix="lag", maxOffsetsPerTrigger=20
        )
        query = queries.start(frame, availableNow=True)
        assert query.awaitTermination(PATIENCE_S)
        group = f"lag-{query.id}"
        # Events come after the end, in order: this one last.
        eventually(
            "all is committed",
            lambda: committed(topics, group) == {("seen", 0): 30, ("seen", 1): 10},
            facts=lambda: committed(topics, group),
        )
    finally:
        spark.streams.removeListener(listener)


def committed(topics: Topics, group: str) -> dict[tuple[str, int], int]:
    async def ask() -> dict[tuple[str, int], int]:
        async with Cluster(topics.bootstrap) as cluster:
            found = await Groups(cluster).committed(group)
            return {(partition.topic, partition.partition): each.offset for partition, each in found.items()}

    return trio.run(ask)


def test_data_that_is_gone_stops_a_query_or_is_left_out(
    topics: Topics, queries: Queries, spark: "SparkSession"
) -> None:
    topics.make("short-lived", [100])
    options = {"subscribePattern": "short-.*", "startingOffsets": "earliest"}
    queries.finish(topics.stream(spark, "brokers", **options))

    async def recreate() -> None:
        async with Cluster(topics.bootstrap) as cluster:
            await Admin(cluster).delete_topic("short-lived")

    trio.run(recreate)
    topics.made.pop("short-lived")
    topics.make("short-lived", [30])
    with pytest.raises(Exception, match="the offset of short-lived-0 was changed from 100 to 30"):
        queries.finish(topics.stream(spark, "brokers", **options))
    frame = topics.stream(spark, "brokers", **options, failOnDataLoss="false")
    queries.finish(frame)
    topics.append("short-lived", [5])
    progress = queries.finish(frame)
    assert [each.numInputRows for each in progress] == [5]


def test_a_new_stream_of_a_topic_that_is_written_to(topics: Topics, queries: Queries, spark: "SparkSession") -> None:
    """Spark asks more than once where it begins, which is at the latest offsets, unless it is told otherwise."""
    topics.make("busy", [1000])
    frame = topics.stream(spark, "brokers", subscribe="busy", maxOffsetsPerTrigger=1000)
    with written_to(topics.bootstrap, "busy"):
        query = queries.start(frame, processingTime="0 seconds")
        eventually("three batches with rows", lambda: len(with_rows(query)) >= 3, facts=lambda: query.exception())
        query.stop()
    read = [offset for _, _, _, _, offset, _, _ in queries.rows()]
    recorded = (queries.folder / "checkpoint/offsets/0").read_text().splitlines()[-1]
    first = json.loads(recorded)["busy"]["0"]
    assert first >= 1000
    assert read == list(range(first, first + len(read)))


def with_rows(query: "StreamingQuery") -> list[Any]:
    return [each for each in query.recentProgress if each.numInputRows]


@contextmanager
def written_to(bootstrap: str, topic: str) -> Iterator[None]:
    """A topic that somebody else writes to, all the time."""
    text = "import itertools, sys; sys.stdout.writelines(f'{number}\\n' for number in itertools.count())"
    numbers = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE)
    command = [sys.executable, "-m", "ottla", "produce", "--bootstrap", bootstrap, topic]
    with numbers, subprocess.Popen(command, stdin=numbers.stdout) as writer:
        try:
            yield
        finally:
            numbers.kill()
            writer.kill()


@pytest.mark.parametrize(
    "trigger", [{"availableNow": True}, pytest.param({"once": True}, marks=pytest.mark.judge)], ids=str
)
def test_a_stream_whose_first_batch_fails(
    topics: Topics, spark: "SparkSession", tmp_path: Path, trigger: dict[str, bool]
) -> None:
    """It began at the latest offsets: nothing between those and the restart is left out, and nothing else is read."""
    name = f"fails-{next(iter(trigger))}"
    topics.make(name, [20, 30])
    frame = topics.stream(spark, "brokers", subscribe=name)
    read: list[tuple[int, int]] = []
    fails = True

    def write(batch: "DataFrame", number: int) -> None:
        assert not fails, "the first one fails"
        read.extend((row.partition, row.offset) for row in batch.select("partition", "offset").collect())

    def run() -> None:
        query = (
            frame.writeStream.foreachBatch(write)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(**trigger)
            .start()
        )
        assert query.awaitTermination(PATIENCE_S)

    with pytest.raises(Exception, match="the first one fails"):
        run()
    topics.append(name, [5, 4, 3])
    with pytest.raises(Exception, match="the first one fails"):
        run()
    topics.append(name, [1, 0, 1])
    fails = False
    run()
    run()
    expected = [(0, offset) for offset in range(20, 26)] + [(1, offset) for offset in range(30, 34)]
    assert sorted(read) == expected + [(2, offset) for offset in range(4)]
