"""Pipelines between topics on a real access log, against plain Python."""

from collections import Counter
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
from pyarrow import dataset

from ottla.client import Cluster, Producer
from ottla.pipelines import audit, mirror_transform
from ottla.pipelines.frame.config import PipelineError, parse
from ottla.pipelines.frame.progress import Progress
from ottla.pipelines.generator.output import ensure_topic
from tests.peers.ottla import Broker
from tests.pipelines.auditing import load
from tests.spark.committed import messages
from tests.support.real_data import requests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
HOUR_S = 3600
AUDIT = """
table = "{folder}/report"
window_s = 3600
span_s = 604800
id = ""
[source]
bootstrap = "{bootstrap}"
topics = ["access"]
[tallies]
bootstrap = "{bootstrap}"
topics = ["access-tallies"]
[warehouse]
location = "{folder}/warehouse"
"""
MIRROR = """
source_name = "here"
target_name = "there"
rename = "{source}.{topic}.missing"
where = "regexp_like(text, '^[^\\"]*\\"[^\\"]*\\" 404 ')"
key = "split_part(text, ' ', 1)"
value = "regexp_extract(text, '\\"([^\\"]*)\\"', 1)"
[source]
bootstrap = "BOOTSTRAP"
topics = ["access"]
[target]
bootstrap = "BOOTSTRAP"
[stream]
checkpoint = "FOLDER/checkpoint"
"""


def test_the_real_log_arrives_and_what_was_not_found_goes_on(
    spark: "SparkSession", broker: Broker, test_data: Path, tmp_path: Path
) -> None:
    lines = (test_data / "web_access.log").read_bytes().splitlines()
    times = [time for _, time, *_ in requests(test_data / "web_access.log")]
    assert len(times) == len(lines) > 1000

    async def produce() -> None:
        tally = audit.Tally("web", window_s=HOUR_S)
        async with Cluster(broker.bootstrap) as cluster:
            await ensure_topic(cluster, "access", 3)
            await ensure_topic(cluster, "access-tallies", 1)
            async with Producer(cluster, linger_ms=50) as producer:
                for number, (line, time) in enumerate(zip(lines, times, strict=True)):
                    await producer.send("access", line, timestamp_ms=time * 1000, partition=number % 3)
                # Lines that are alike in one hour cannot be told apart: to the audit they are one, twice.
                for time, line in sorted(
                    {(time // HOUR_S * HOUR_S, line) for time, line in zip(times, lines, strict=True)}
                ):
                    tally.add("access", line, time * 1000)
                for key, value in tally.take():
                    await producer.send("access-tallies", value, key=key)
                await producer.flush()

    trio.run(produce)
    load(tmp_path / "warehouse", broker.bootstrap, "access", has_json=False)
    config = parse(AUDIT.format(folder=tmp_path, bootstrap=broker.bootstrap), audit.Config)
    said = audit.run(spark, config, Progress("audit", StringIO()))
    alike = Counter((time // HOUR_S, line) for time, line in zip(times, lines, strict=True))
    rows = dataset.dataset(tmp_path / "report").to_table().to_pylist()
    found = {round(row["start"].timestamp()) // HOUR_S: (row["broker"], row["broker_double"]) for row in rows}
    hours = Counter(time // HOUR_S for time in times)
    double: Counter[int] = Counter()
    for (hour, _), count in alike.items():
        double[hour] += count - 1
    assert found == {hour: (count, double[hour]) for hour, count in hours.items()}
    wrong = ("broker_missing", "broker_foreign", "broker_swapped", "warehouse_missing", "warehouse_double")
    assert all(said.totals[name] == 0 for name in (*wrong, "warehouse_foreign"))
    assert said.totals["warehouse"] == len(lines)

    text = MIRROR.replace("BOOTSTRAP", broker.bootstrap).replace("FOLDER", str(tmp_path))
    mirror = parse(text, mirror_transform.Config)
    mirrored = mirror_transform.run(spark, mirror, Progress("mirror", StringIO()))
    missing = [(line.split(b" ")[0], line.split(b'"')[1]) for line in lines if line.split(b'"')[2].startswith(b" 404 ")]
    copies = [(message.key(), message.value()) for message in messages(broker.bootstrap, "here.access.missing")]
    assert Counter(copies) == Counter(missing)
    assert mirrored.copied == len(missing) > 100
    assert mirrored.filtered == len(lines) - len(missing)

    for name, wrong_text, message in (
        ("where", text.replace("split_part(text", "split_part(txt"), r"key = .*txt"),
        (
            "value",
            text.replace("regexp_extract(text", "instr(text").replace(', 1)"\n[source]', ')"\n[source]'),
            "gives int",
        ),
    ):
        with pytest.raises(PipelineError, match=message):
            mirror_transform.run(spark, parse(wrong_text, mirror_transform.Config), Progress(name, StringIO()))
