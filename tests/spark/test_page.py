"""The blocks of docs/spark.md, one after the other as a reader would type them, with one session."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ottla.spark
from tests.spark.topics import Topics
from tests.support import shown
from tests.support.readme import PROJECT, block

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQueryListener

pytestmark = [pytest.mark.spark, pytest.mark.judge]


@pytest.fixture
def publishers(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> Iterator[list["StreamingQueryListener"]]:
    """The listeners that `publish_offsets` adds to the session, which other tests use too."""
    added: list[StreamingQueryListener] = []
    publish = ottla.spark.publish_offsets
    monkeypatch.setattr(ottla.spark, "publish_offsets", lambda *given: added.append(publish(*given)))
    yield added
    for each in added:
        spark.streams.removeListener(each)


def test_the_blocks_run(
    spark: "SparkSession",
    topics: Topics,
    publishers: list["StreamingQueryListener"],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topics.make("web-requests", [10])
    names: dict[str, object] = {}

    def run(code: str) -> None:
        for place, here in {
            "127.0.0.1:9092": topics.bootstrap,
            "/var/lib/ottla/data": str(topics.data),
            "/data/": f"{tmp_path}/",
        }.items():
            code = code.replace(place, here)
        exec(code, names)

    run(block("python", "import session", "docs/spark.md"))
    assert capsys.readouterr().out.count("2023-11-1") == 10
    run(block("python", '"path"', "docs/spark.md"))
    run(block("python", "decode.json", "docs/spark.md"))
    run(block("python", "publish_offsets", "docs/spark.md"))
    assert len(publishers) == 1
    run(block("python", 'mode("append")\n    .option("kafka', "docs/spark.md"))
    try:
        run(block("python", "maxOffsetsPerTrigger", "docs/spark.md"))
        run(block("python", "loud-requests", "docs/spark.md"))
        assert len(spark.streams.active) == 2
        for query in spark.streams.active:
            query.processAllAvailable()  # it begins at the end of what is there
        topics.append("web-requests", [20])
        for query in spark.streams.active:
            query.processAllAvailable()
    finally:
        for query in spark.streams.active:
            query.stop()
    assert spark.read.parquet(str(tmp_path / "requests")).count() == 20
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", topics.bootstrap)
    assert reader.option("subscribe", "old-requests").load().count() == 10
    assert reader.option("subscribe", "loud-requests").load().count() == 20


def test_the_statements_run(spark: "SparkSession", topics: Topics) -> None:
    topics.make("requests", [30])
    spans = list(shown.spans((PROJECT / "docs" / "spark.md").read_text()))
    (create,) = (each for each in spans if each.startswith("CREATE TABLE"))
    (select,) = (each for each in spans if each.startswith("SELECT"))
    spark.sql(create.replace("127.0.0.1:9092", topics.bootstrap))
    try:
        assert spark.sql(select).count() == 30 - 23
    finally:
        spark.sql("DROP TABLE requests")
