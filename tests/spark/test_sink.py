"""The sink through Spark; somebody else's client reads what is committed."""

import itertools
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.partitioner import keyed
from tests.spark.committed import messages, values
from tests.spark.texts import fill, start
from tests.spark.topics import Topics
from tests.support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

pytestmark = pytest.mark.spark

_names = (f"sink-{number}" for number in itertools.count())
DELIVERIES = ("exactly-once", "at-least-once")


@pytest.fixture
def topic(topics: Topics) -> str:
    """A new topic of three partitions."""
    name = next(_names)
    topics.make(name, [0, 0, 0])
    return name


def save(frame: "DataFrame", bootstrap: str, mode: str = "append", **options: object) -> None:
    """A batch write."""
    writer = frame.write.format("ottla").mode(mode).option("kafka.bootstrap.servers", bootstrap)
    writer.options(**{name.replace("__", "."): str(value) for name, value in options.items()}).save()


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_columns_arrive(spark: "SparkSession", topics: Topics, topic: str, delivery: str, codec: str) -> None:
    frame = spark.range(2_000).selectExpr(
        "CASE WHEN id % 5 = 0 THEN NULL ELSE CAST(id % 30 AS STRING) END AS key",
        "CASE WHEN id % 11 = 0 THEN NULL ELSE CAST(CAST(id AS STRING) AS BINARY) END AS value",
        "CASE WHEN id % 7 = 0 THEN CAST(id % 3 AS INT) END AS partition",
        "CASE WHEN id % 4 = 0 THEN ARRAY(NAMED_STRUCT('key', 'id', 'value', CAST(CAST(id AS STRING) AS BINARY)), "
        "NAMED_STRUCT('key', 'null', 'value', CAST(NULL AS BINARY))) END AS headers",
        "TIMESTAMP_MILLIS(1700000000000 + id) AS timestamp",
        f"'{topic}' AS topic",
        "id AS ignored",
    )
    save(
        frame.repartition(3),
        topics.bootstrap,
        delivery=delivery,
        includeTimestamp="true",
        kafka__compression__type=codec,
        kafka__batch__size=3_000,
    )
    found = {message.timestamp()[1] - 1_700_000_000_000: message for message in messages(topics.bootstrap, topic)}
    assert found.keys() == set(range(2_000))
    for number, message in found.items():
        key = None if number % 5 == 0 else b"%d" % (number % 30)
        value = None if number % 11 == 0 else b"%d" % number
        headers = [("id", b"%d" % number), ("null", None)] if number % 4 == 0 else None
        assert (message.key(), message.value(), message.headers()) == (key, value, headers)
        if number % 7 == 0:
            assert message.partition() == number % 3
        elif key is not None:
            assert message.partition() == keyed(key, 3)
    assert len({message.partition() for message in found.values() if message.key() is None}) == 3


def test_the_source_reads_what_the_sink_wrote_from_apache(spark: "SparkSession", apache_topics: Topics) -> None:
    topic = next(_names)
    save(spark.range(500).selectExpr("CAST(id AS STRING) AS value"), apache_topics.bootstrap, topic=topic)
    read = apache_topics.read(spark, "brokers", subscribe=topic, **{"kafka.isolation.level": "read_committed"})
    rows = read.selectExpr("CAST(value AS STRING)").collect()
    assert Counter(row[0] for row in rows) == Counter(str(number) for number in range(500))


def test_a_batch_with_a_name_is_written_once(spark: "SparkSession", topics: Topics, topic: str) -> None:
    def write(name: str, version: int, count: int) -> None:
        frame = spark.range(count).selectExpr(f"CONCAT('{name} {version} ', id) AS value").repartition(2)
        save(frame, topics.bootstrap, topic=topic, txnAppId=f"{topic}-{name}", txnVersion=version)

    wanted: Counter[str] = Counter()
    for name, version in (("a", 3), ("b", 3), ("a", 4)):
        write(name, version, 50)
        write(name, version, 50)
        wanted += Counter(f"{name} {version} {number}" for number in range(50))
    with pytest.raises(Exception, match="CheckpointRolledBack"):
        write("a", 3, 50)
    with pytest.raises(Exception, match=r"CheckpointRolledBack.* batch 4 .* 50 rows for .* 70 rows for"):
        write("a", 4, 70)
    assert values(topics.bootstrap, topic) == wanted


def test_a_batch_with_a_name_that_failed_is_written(spark: "SparkSession", topics: Topics, topic: str) -> None:
    frame = spark.range(100).repartition(2)
    bad = frame.selectExpr("IF(id = 77, RAISE_ERROR('row 77'), CAST(id AS STRING)) AS value")
    named = {"txnAppId": f"{topic}-c", "txnVersion": 1}
    with pytest.raises(Exception, match="row 77"):
        save(bad, topics.bootstrap, topic=topic, **named)
    save(frame.selectExpr("CAST(id AS STRING) AS value"), topics.bootstrap, topic=topic, **named)
    assert values(topics.bootstrap, topic) == Counter(str(number) for number in range(100))


def test_foreach_batch_writes_several_topics_once(
    spark: "SparkSession", topics: Topics, topic: str, tmp_path: Path
) -> None:
    """The callback fails after it has written to the first of two topics; the query is started again."""
    other = next(_names)
    topics.make(other, [0])
    wanted = fill(tmp_path, range(2))
    failures = iter([True])

    def each(frame: "DataFrame", batch: int) -> None:
        for name in (topic, other):
            save(frame, topics.bootstrap, topic=name, txnAppId=f"{topic}-{name}", txnVersion=batch)
            if batch == 1 and next(failures, False):
                raise RuntimeError("between two topics")

    def run() -> None:
        lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(tmp_path / "in"))
        writer = lines.writeStream.foreachBatch(each).option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="between two topics"):
        run()
    run()
    assert values(topics.bootstrap, topic) == values(topics.bootstrap, other) == wanted


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_failed_job_leaves_nothing(spark: "SparkSession", topics: Topics, topic: str, delivery: str) -> None:
    frame = (
        spark.range(1_000)
        .repartition(2)
        .selectExpr("IF(id = 777, RAISE_ERROR('row 777'), CAST(id AS STRING)) AS value")
    )
    # The other task may open its transaction when the job has failed already: that one ends by its timeout.
    timeout = {"kafka__transaction__timeout__ms": 3_000} if delivery == "exactly-once" else {}
    with pytest.raises(Exception, match="row 777"):
        save(frame, topics.bootstrap, topic=topic, delivery=delivery, **timeout)
    found = values(topics.bootstrap, topic)
    assert not found if delivery == "exactly-once" else "777" not in found


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_stream_goes_on_where_it_stopped(
    spark: "SparkSession", topics: Topics, topic: str, delivery: str, tmp_path: Path
) -> None:
    wanted = fill(tmp_path, range(3))
    query = start(spark, tmp_path, topics.bootstrap, topic, delivery=delivery)
    assert query.awaitTermination(PATIENCE_S)
    assert len(query.recentProgress) >= 3
    wanted += fill(tmp_path, range(3, 5))
    assert start(spark, tmp_path, topics.bootstrap, topic, delivery=delivery).awaitTermination(PATIENCE_S)
    assert values(topics.bootstrap, topic) == wanted


@pytest.mark.parametrize("files", [pytest.param(1, marks=pytest.mark.judge), 2], ids="batches of {} files".format)
def test_a_checkpoint_that_is_one_batch_old(
    spark: "SparkSession", topics: Topics, topic: str, tmp_path: Path, files: int
) -> None:
    """Spark plans the batch anew that the sink has committed already: with one file a batch it has the same rows."""
    wanted = fill(tmp_path, range(1))
    assert start(spark, tmp_path, topics.bootstrap, topic).awaitTermination(PATIENCE_S)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "old")
    wanted += fill(tmp_path, range(1, 2))
    assert start(spark, tmp_path, topics.bootstrap, topic).awaitTermination(PATIENCE_S)
    shutil.rmtree(tmp_path / "checkpoint")
    (tmp_path / "old").rename(tmp_path / "checkpoint")
    fill(tmp_path, range(2, 3))
    for _ in range(2):
        with pytest.raises(Exception, match=r"CheckpointRolledBack.* batch 1 .*, with 50 rows for"):
            start(spark, tmp_path, topics.bootstrap, topic, files=files).awaitTermination(PATIENCE_S)
    assert values(topics.bootstrap, topic) == wanted


def test_a_copied_checkpoint_is_a_query_of_its_own_with_a_prefix(
    spark: "SparkSession", topics: Topics, topic: str, tmp_path: Path
) -> None:
    other = next(_names)
    topics.make(other, [0])
    fill(tmp_path, range(1))
    assert start(spark, tmp_path, topics.bootstrap, topic).awaitTermination(PATIENCE_S)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    wanted = fill(tmp_path, range(1, 2))
    assert start(spark, tmp_path, topics.bootstrap, topic).awaitTermination(PATIENCE_S)
    options = {"checkpointLocation": str(tmp_path / "copy")}
    with pytest.raises(Exception, match=f"50 rows for {topic}.* 50 rows for {other}.* its own transactionalIdPrefix"):
        start(spark, tmp_path, topics.bootstrap, other, **options).awaitTermination(PATIENCE_S)
    options["transactionalIdPrefix"] = "copy"
    assert start(spark, tmp_path, topics.bootstrap, other, **options).awaitTermination(PATIENCE_S)
    assert values(topics.bootstrap, other) == wanted


def test_what_spark_keeps_from_python_sinks_has_a_way_round(
    spark: "SparkSession", topics: Topics, topic: str, tmp_path: Path
) -> None:
    """As `docs/spark.md` says. Only `append` for batches, and `update` by foreachBatch."""
    ready = spark.range(3).selectExpr("CAST(id AS STRING) AS value")
    options = {"kafka.bootstrap.servers": topics.bootstrap, "topic": topic}
    for mode in ("errorifexists", "ignore"):
        with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            ready.write.format("ottla").mode(mode).options(**options).save()
    fill(tmp_path, range(1), rows=40)
    lines = spark.readStream.format("text").load(str(tmp_path / "in"))
    counts = lines.groupBy("value").count().selectExpr("value AS key", "CAST(count AS STRING) AS value")

    def run(writer: "DataStreamWriter", **trigger: Any) -> None:
        started = writer.option("checkpointLocation", str(tmp_path / f"{len(list(tmp_path.iterdir()))}")).trigger(
            **(trigger or {"availableNow": True})
        )
        assert started.start().awaitTermination(PATIENCE_S)

    with pytest.raises(Exception, match="ottla does not support Update mode"):
        run(counts.writeStream.format("ottla").options(**options).outputMode("update"))
    with pytest.raises(Exception, match="does not support continuous processing"):
        run(topics.stream(spark, "brokers", subscribe=topic).writeStream.format("console"), continuous="1 second")

    def write(frame: "DataFrame", batch: int) -> None:
        save(frame, topics.bootstrap, topic=topic, txnAppId=topic, txnVersion=batch)

    run(counts.writeStream.outputMode("update").foreachBatch(write))
    assert values(topics.bootstrap, topic) == Counter({"1": 40})


def test_mistakes_reach_the_user(spark: "SparkSession", topics: Topics, topic: str) -> None:
    frame = spark.range(1).selectExpr("REPEAT('x', 3000) AS value")
    with pytest.raises(Exception, match="larger than 2000"):
        save(frame, topics.bootstrap, topic=topic, kafka__max__request__size=2_000)
    with pytest.raises(Exception, match="topic option required when no 'topic' attribute is present"):
        save(frame, topics.bootstrap)
    assert not values(topics.bootstrap, topic)
