"""Source, sink and published offsets where brokers want TLS and SASL: Apache Kafka 3.9.2."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from ottla.client import Admin, Cluster
from ottla.client.groups import Groups
from ottla.pipelines import mirror_transform
from ottla.pipelines.frame.between import Target
from ottla.pipelines.frame.config import PipelineError, Source
from ottla.pipelines.frame.streaming import Stream
from ottla.pipelines.frame.topic import Topic
from ottla.spark.limits import Use
from ottla.spark.options import parse
from tests.peers.apache import Apache
from tests.peers.secured import PASSWORD, Secured
from tests.peers.skips import require
from tests.spark.committed import values
from tests.spark.texts import fill, start
from tests.support.waiting import PATIENCE_S, eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

try:
    import confluent_kafka  # noqa: F401
except ImportError:
    require("clients", "confluent-kafka is not installed (the extra `test`)")

pytestmark = [pytest.mark.spark, pytest.mark.java, pytest.mark.clients]
TOPIC = "secured"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    async def create() -> None:
        async with Cluster(found.plaintext) as cluster:
            await Admin(cluster).create_topic(TOPIC, 2, 1)

    with Apache(tmp_path_factory.mktemp("secured")) as apache:
        found = Secured(apache, "3.9.2", tmp_path_factory.mktemp("stores"))
        trio.run(create)
        yield found


def options(secured: Secured, **settings: str) -> dict[str, str]:
    """Of Spark, for the listener with TLS and SASL; `settings` have underscores for dots."""
    found = {**secured.settings("both", "SCRAM-SHA-512"), "bootstrap.servers": secured.bootstrap("both")}
    found |= {name.replace("_", "."): value for name, value in settings.items()}
    return {f"kafka.{name}": value for name, value in found.items()}


def committed(secured: Secured, group: str) -> int:
    """How many records the group has read."""

    async def ask() -> int:
        async with Cluster(secured.plaintext) as cluster:
            return sum(each.offset for each in (await Groups(cluster).committed(group)).values())

    return trio.run(ask)


@pytest.mark.judge
def test_through_sink_and_source(secured: Secured, spark: "SparkSession", tmp_path: Path) -> None:
    from ottla.spark import publish_offsets

    lines = fill(tmp_path, range(2))
    query = start(spark, tmp_path, secured.bootstrap("both"), TOPIC, tasks=2, **options(secured))
    assert query.awaitTermination(300)
    assert values(secured.plaintext, TOPIC) == lines

    given = {**options(secured), "subscribe": TOPIC, "kafka.isolation.level": "read_committed"}
    rows = spark.read.format("ottla").options(**given).load()
    assert PASSWORD not in rows._jdf.queryExecution().toString()
    assert Counter(row.value for row in rows.selectExpr("CAST(value AS STRING) AS value").collect()) == lines

    listener = publish_offsets(spark, {**options(secured), "groupIdPrefix": "lag"})
    try:
        stream = spark.readStream.format("ottla").options(**given, startingOffsets="earliest").load()
        reading = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "reading"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "read"))
        )
        assert reading.awaitTermination(300)
        group = f"lag-{reading.id}"
        eventually(
            "all is committed",
            lambda: committed(secured, group) >= lines.total(),
            2 * PATIENCE_S,
            facts=lambda: committed(secured, group),
        )
    finally:
        spark.streams.removeListener(listener)


def test_group_of_a_stream(secured: Secured) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from ottla.spark.stream import StreamReader

    given = {**options(secured), "subscribe": TOPIC, "commitGroup": "own"}
    source = StreamReader(parse(given, Use.STREAM), ("offset",))
    source.latestOffset({TOPIC: {"0": 2, "1": 3}}, ReadAllAvailable())
    assert committed(secured, "own") == 5


def test_pipelines(secured: Secured, spark: "SparkSession", tmp_path: Path) -> None:
    """Pipelines ask brokers for themselves with the options of source and sink."""
    bootstrap = secured.bootstrap("both")
    given = {name: value for name, value in options(secured).items() if name != "kafka.bootstrap.servers"}
    results = Topic(bootstrap, "results", given)
    results.create({"retention.ms": "-1"})
    rows = [(f"{number}", f"value {number}") for number in range(100)]
    results.write(spark.createDataFrame(rows, "key string, value string"), "pipeline", 0)
    config = mirror_transform.Config(
        source=Source(("results",), bootstrap, options=given),
        stream=Stream(str(tmp_path / "checkpoint")),
        target=Target(bootstrap, given),
        source_name="here",
        target_name="there",
        rename="copy-{topic}",
    )
    assert mirror_transform.run(spark, config).copied == 100
    assert values(secured.plaintext, "copy-results") == Counter(value for _, value in rows)
    wrong = secured.settings("both", "SCRAM-SHA-512", "not " + PASSWORD)["sasl.jaas.config"]
    more = Topic(bootstrap, "more", {**given, "kafka.sasl.jaas.config": wrong})
    with pytest.raises(PipelineError, match=r"cannot create the topic 'more': .*SCRAM-SHA-512 as 'alice'"):
        more.create()


def test_what_is_wrong_is_said(secured: Secured, spark: "SparkSession") -> None:
    wrong = {**secured.settings("both", "SCRAM-SHA-512", "not " + PASSWORD)}
    jaas = wrong["sasl.jaas.config"]
    for settings, message, timeout_ms in (
        ({"sasl_jaas_config": jaas}, "SCRAM-SHA-512 as 'alice'", 60_000),
        ({"ssl_truststore_location": "/nowhere"}, "ssl.truststore.location: /nowhere cannot be read", 60_000),
        ({"sasl_mechanism": "GSSAPI"}, "Kafka option sasl.mechanism is 'GSSAPI'; here it is one of PLAIN", 60_000),
        # Connections that are closed without a word are tried again until the end.
        ({"security_protocol": "SASL_PLAINTEXT"}, "does this port want TLS|speaks TLS: set", 15_000),
    ):
        frame = spark.read.format("ottla").options(**options(secured, **settings), subscribe=TOPIC)
        frame = frame.option("kafka.default.api.timeout.ms", str(timeout_ms)).option("fetchOffset.numRetries", "1")
        with pytest.raises(Exception, match=message) as caught:
            frame.load().count()
        assert PASSWORD not in str(caught.value)
