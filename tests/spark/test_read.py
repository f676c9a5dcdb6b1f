# ruff: noqa: E501 - tables read better in one line a row
"""`spark.read.format("ottla")` against topics whose every record is known, from brokers and from the files."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.topics import BASE_MS, Topics, collected
from tests.support.lanes import judged_by
from tests.support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SIDES = pytest.mark.parametrize("side", ["brokers", "path"])
#: For what both sides have from the same code.
JUDGED = pytest.mark.parametrize("side", judged_by(["brokers", "path"], ["brokers"]))
COUNTS = [3000, 0, 1501]


@pytest.fixture
def plain(topics: Topics) -> str:
    topics.make("plain", COUNTS)
    return "plain"


@SIDES
def test_every_column_of_every_record(spark: "SparkSession", topics: Topics, plain: str, side: str) -> None:
    frame = topics.read(spark, side, subscribe=plain, includeHeaders="true")
    assert [(field.name, field.dataType.simpleString(), field.nullable) for field in frame.schema.fields] == [
        ("key", "binary", True),
        ("value", "binary", True),
        ("topic", "string", True),
        ("partition", "int", True),
        ("offset", "bigint", True),
        ("timestamp", "timestamp", True),
        ("timestampType", "int", True),
        ("headers", "array<struct<key:string,value:binary>>", True),
    ]
    assert collected(frame) == topics.rows(plain, headers=True)


@SIDES
@pytest.mark.java
def test_what_apache_kafka_holds(spark: "SparkSession", apache_topics: Topics, side: str) -> None:
    apache_topics.make("theirs", COUNTS, codec="lz4", settings={"segment.bytes": "50000"})
    frame = apache_topics.read(spark, side, subscribe="theirs", includeHeaders="true")
    assert collected(frame) == apache_topics.rows("theirs", headers=True)


@JUDGED
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_codecs(spark: "SparkSession", topics: Topics, side: str, codec: str) -> None:
    topics.make(codec, [2000], codec=codec)
    assert collected(topics.read(spark, side, subscribe=codec)) == topics.rows(codec)


@SIDES
def test_several_segments(spark: "SparkSession", topics: Topics, side: str) -> None:
    topics.make("segments", [6000], settings={"segment.bytes": "50000", "index.interval.bytes": "1000"})
    assert len(list((topics.data / "segments-0").glob("*.log"))) > 3
    rows = topics.rows("segments")
    assert collected(topics.read(spark, side, subscribe="segments", minPartitions=9)) == rows
    bounds = {"startingOffsets": '{"segments":{"0":2345}}', "endingOffsets": '{"segments":{"0":4567}}'}
    assert collected(topics.read(spark, side, subscribe="segments", **bounds)) == rows[2345:4567]
    times = {"startingTimestamp": BASE_MS + 2345, "endingTimestamp": BASE_MS + 4567}
    assert collected(topics.read(spark, side, subscribe="segments", **times)) == rows[2345:4567]


@SIDES
def test_topics_by_name_pattern_and_partition(spark: "SparkSession", topics: Topics, plain: str, side: str) -> None:
    topics.make("plainer", [10])
    every = topics.rows(plain) + topics.rows("plainer")

    def rows(**options: object) -> list[tuple[object, ...]]:
        return sorted(collected(topics.read(spark, side, **options)), key=lambda row: (row[2], row[3], row[4]))

    assert rows(subscribe="plain, plainer") == every
    assert rows(subscribePattern="plain.*") == every
    assert rows(subscribePattern="lain") == []
    assert rows(assign='{"plain":[2],"plainer":[0]}') == [row for row in every if row[3] == 2 or row[2] == "plainer"]


@SIDES
def test_offsets_and_times_of_each_partition(spark: "SparkSession", topics: Topics, plain: str, side: str) -> None:
    rows = topics.rows(plain)

    def part(**options: object) -> list[tuple[object, ...]]:
        return collected(topics.read(spark, side, subscribe=plain, **options))

    def between(first: dict[int, int], end: dict[int, int]) -> list[tuple[object, ...]]:
        return [row for row in rows if first.get(row[3], 0) <= row[4] < end.get(row[3], 10**9)]

    offsets = {
        "startingOffsets": json.dumps({plain: {"0": 5, "1": -2, "2": 1500}}),
        "endingOffsets": json.dumps({plain: {"0": 17, "1": -1, "2": -1}}),
    }
    assert part(**offsets) == between({0: 5, 2: 1500}, {0: 17})
    times = {
        "startingOffsetsByTimestamp": json.dumps({plain: {"0": BASE_MS + 2990, "1": 0, "2": BASE_MS + 1490}}),
        "endingOffsetsByTimestamp": json.dumps({plain: {"0": BASE_MS + 2995, "1": 0, "2": BASE_MS + 99_999}}),
        "startingOffsetsByTimestampStrategy": "latest",
    }
    assert part(**times) == between({0: 2990, 2: 1490}, {0: 2995})


@JUDGED
def test_a_session_whose_timestamps_have_no_zone(spark: "SparkSession", topics: Topics, plain: str, side: str) -> None:
    """The word `timestamp` means something else there; the column is what it is."""
    usual = topics.read(spark, side, subscribe=plain).orderBy("partition", "offset").first()
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        frame = topics.read(spark, side, subscribe=plain)
        assert dict(frame.dtypes)["timestamp"] == "timestamp"
        assert frame.orderBy("partition", "offset").first() == usual
        stream = topics.stream(spark, side, subscribe=plain, startingOffsets="earliest")
        query = stream.writeStream.format("memory").queryName(f"zoneless_{side}").trigger(availableNow=True).start()
        assert query.awaitTermination(PATIENCE_S)
        assert spark.table(f"zoneless_{side}").orderBy("partition", "offset").first() == usual
        with pytest.raises(Exception, match=r"not timestamp_ntz; where .* a schema in words says timestamp_ltz"):
            spark.read.format("ottla").schema("timestamp timestamp").options(
                **{"kafka.bootstrap.servers": topics.bootstrap, "subscribe": plain}
            ).load().collect()
    finally:
        spark.conf.unset("spark.sql.timestampType")


@JUDGED
def test_some_columns_in_another_order(spark: "SparkSession", topics: Topics, plain: str, side: str) -> None:
    reader = spark.read.format("ottla").option("subscribe", plain).schema("offset bigint, partition int, value binary")
    here = ("kafka.bootstrap.servers", topics.bootstrap) if side == "brokers" else ("path", str(topics.data))
    frame = reader.option(*here).load()
    assert frame.columns == ["offset", "partition", "value"]
    assert collected(frame) == [(row[4], row[3], row[1]) for row in topics.rows(plain)]
    by_name = topics.read(spark, side, subscribe=plain, columns="partition, OFFSET")
    assert by_name.columns == ["partition", "offset"]
    assert collected(by_name) == [(row[3], row[4]) for row in topics.rows(plain)]
    with pytest.raises(Exception, match="the option columns and the schema contradict each other"):
        reader.option("columns", "key").load().count()
    only_topic = spark.read.format("ottla").option("subscribe", plain).option(*here).schema("topic string").load()
    assert only_topic.groupBy("topic").count().collect() == [(plain, sum(COUNTS))]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("key string", "the column key is of type binary, not string"),
        ("size int", "there is no column 'size'"),
        ("headers array<struct<key:string,value:binary>>", "needs the option includeHeaders=true"),
    ],
)
def test_schemas_that_are_refused(spark: "SparkSession", topics: Topics, schema: str, message: str) -> None:
    frame = spark.read.format("ottla").option("path", str(topics.data)).option("subscribe", "t").schema(schema).load()
    with pytest.raises(Exception, match=message):
        frame.count()


@JUDGED
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "nowhere"}, "nowhere"),
        ({"assign": '{"plain":[0,7]}'}, "plain-7"),
        ({"subscribe": "plain", "startingOffsets": '{"plain":{"0":1}}'}, "must name exactly the partitions that are read"),
        ({"subscribe": "plain", "startingOffsets": '{"plain":{"0":9999,"1":0,"2":0}}'}, "plain-0 is 9999, but it has offsets 0 to 3000"),
        ({"subscribe": "plain", "startingOffsets": '{"plain":{"0":17,"1":0,"2":0}}', "endingOffsets": '{"plain":{"0":5,"1":0,"2":0}}'}, "the specified start offset 17 is greater than the end offset 5 for plain-0"),
        ({"subscribe": "plain", "endingOffsets": '{"plain":{"0":9999,"1":0,"2":0}}'}, "failOnDataLoss=false"),
        ({"subscribe": "plain", "startingTimestamp": "1900000000000"}, "no record of plain-0 is at or after the starting time"),
    ],
)  # fmt: skip
def test_reads_that_are_refused(
    spark: "SparkSession", topics: Topics, plain: str, side: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        topics.read(spark, side, **options).count()


@SIDES
def test_data_loss_may_be_allowed(spark: "SparkSession", topics: Topics, plain: str, side: str) -> None:
    offsets = {
        "startingOffsets": '{"plain":{"0":2990,"1":5,"2":0}}',
        "endingOffsets": '{"plain":{"0":9999,"1":7,"2":1}}',
    }
    frame = topics.read(spark, side, subscribe=plain, failOnDataLoss="false", **offsets)
    assert [(row[3], row[4]) for row in collected(frame)] == [(0, offset) for offset in range(2990, 3000)] + [(2, 0)]


def test_a_wrong_option_is_named(spark: "SparkSession", tmp_path: Path) -> None:
    """Right after Spark's own words."""
    wrong = spark.read.format("ottla").option("path", str(tmp_path)).option("subscribed", "t")
    with pytest.raises(Exception, match=r"^\[\w+\] [\w ]+: ValueError: unknown option 'subscribed'; did you mean"):
        wrong.load()


def test_errors_are_sentences(spark: "SparkSession", topics: Topics, plain: str) -> None:
    """Where options are looked at, offsets, and records; other people's tracebacks are left alone."""
    with pytest.raises(
        Exception, match=r": ottla\.errors\.UnknownTopicOrPartition: there is no topic nowhere"
    ) as unknown:
        topics.read(spark, "brokers", subscribe="nowhere").count()
    late = '{"plain":{"0":9999,"1":0,"2":0}}'
    stream = topics.stream(spark, "brokers", subscribe=plain, startingOffsets=late).writeStream.format("noop")
    query = stream.trigger(availableNow=True).start()
    with pytest.raises(Exception, match=r": ottla\.reading\.bounds\.DataLoss: the starting offset of plain-0") as lost:
        query.awaitTermination(PATIENCE_S)
    with pytest.raises(Exception, match=r"ValueError: Required attribute 'value' not found") as unwritten:
        spark.range(1).write.format("ottla").mode("append").options(
            **{"kafka.bootstrap.servers": "h:1", "topic": "t"}
        ).save()
    for shown in (unknown, lost, unwritten):
        assert "Traceback" not in str(shown.value)
    with pytest.raises(Exception, match="Traceback"):
        topics.read(spark, "brokers", subscribe=plain).rdd.map(lambda row: row.nothing).collect()


@JUDGED
def test_a_sql_view(spark: "SparkSession", topics: Topics, plain: str, side: str) -> None:
    here = f"`kafka.bootstrap.servers` '{topics.bootstrap}'" if side == "brokers" else f"path '{topics.data}'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW requests USING ottla OPTIONS ({here}, subscribe '{plain}')")
    found = spark.sql("SELECT partition, count(*), max(offset) FROM requests GROUP BY partition ORDER BY partition")
    assert [tuple(row) for row in found.collect()] == [(0, 3000, 2999), (2, 1501, 1500)]


@JUDGED
def test_a_sql_table_looks_again_at_each_query(spark: "SparkSession", topics: Topics, side: str) -> None:
    topics.make(f"table-{side}", [10])
    here = f"'kafka.bootstrap.servers' '{topics.bootstrap}'" if side == "brokers" else f"'path' '{topics.data}'"
    spark.sql(f"CREATE TABLE looked_at USING ottla OPTIONS ({here}, 'subscribe' 'table-{side}')")
    try:
        count = "SELECT count(*) FROM looked_at"
        assert spark.sql(count).collect()[0][0] == 10
        topics.append(f"table-{side}", [10])
        assert spark.sql(count).collect()[0][0] == 20
        assert spark.sql(f"{count} WITH ('startingOffsets' '{{\"table-{side}\": {{\"0\": 15}}}}')").collect()[0][0] == 5
    finally:
        spark.sql("DROP TABLE looked_at")


def test_a_frame_keeps_its_end(spark: "SparkSession", topics: Topics) -> None:
    topics.make("kept", [10])
    frame = topics.read(spark, "brokers", subscribe="kept")
    assert frame.count() == 10
    topics.append("kept", [5])
    assert frame.count() == 10
    assert topics.read(spark, "brokers", subscribe="kept").count() == 15


def test_a_sql_table_is_written_to_with_options_of_its_own(spark: "SparkSession", topics: Topics) -> None:
    """Spark gives the options of a table to reads alone."""
    topics.make("inserted", [0])
    spark.sql(
        f"CREATE TABLE inserted USING ottla OPTIONS ('kafka.bootstrap.servers' '{topics.bootstrap}', "
        "'subscribe' 'inserted', 'topic' 'inserted')"
    )
    try:
        rows = "(key, value) VALUES (CAST('k' AS BINARY), CAST('v' AS BINARY))"
        with pytest.raises(Exception, match=r"An INSERT INTO a table has none of the table's options.*WITH \("):
            spark.sql(f"INSERT INTO inserted {rows}")
        own = f"WITH ('kafka.bootstrap.servers'='{topics.bootstrap}', 'topic'='inserted')"
        spark.sql(f"INSERT INTO inserted {own} {rows}")
        found = spark.sql("SELECT CAST(key AS STRING), CAST(value AS STRING) FROM inserted").collect()
        assert [tuple(row) for row in found] == [("k", "v")]
    finally:
        spark.sql("DROP TABLE inserted")


def test_a_table_takes_no_secrets(spark: "SparkSession") -> None:
    """Its options can be seen in the schema of whatever is made of it."""
    with pytest.raises(Exception, match=r"the option kafka\.ssl\.key\.password is a secret"):
        spark.sql(
            "CREATE TABLE secret USING ottla OPTIONS ('kafka.bootstrap.servers' '127.0.0.1:1', 'subscribe' 't', "
            "'kafka.security.protocol' 'SSL', 'kafka.ssl.key.password' 'hush')"
        )


@JUDGED
@pytest.mark.parametrize(
    ("condition", "exactly"),
    [
        ("topic IN ('plain', 'nowhere') AND partition = 2 AND offset >= 100 AND offset < 110", True),
        (f"timestamp >= timestamp_millis({BASE_MS + 2900})", False),
        ("offset > 9999999", True),
    ],
)
def test_filters_are_taken_by_the_source(
    spark: "SparkSession", topics: Topics, plain: str, side: str, condition: str, exactly: bool
) -> None:
    topics.make("filtered", [10])
    expected = collected(topics.read(spark, side, subscribe="plain,filtered").where(condition))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = topics.read(spark, side, subscribe="plain,filtered", pushdown="true").where(condition)
        assert collected(frame) == expected
        # What the source answers for, Spark does not look at again.
        assert ("Filter (" not in frame._jdf.queryExecution().executedPlan().toString()) == exactly
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
