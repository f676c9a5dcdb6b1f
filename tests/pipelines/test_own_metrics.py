"""`ottla scrape` and what `ops_monitoring` makes of it: a broker's own requests, counted by somebody else's parser."""

import subprocess
import sys
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.peers.ottla import Brokers
from tests.peers.ports import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
DAY_S = 86_400
FINE = ("NONE", "TOPIC_ALREADY_EXISTS")


def run(*arguments: str) -> str:
    """The command line in a process of its own: what it says."""
    command = [sys.executable, "-m", "ottla", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stderr


def test_requests_of_a_broker(spark: "SparkSession", brokers: Brokers) -> None:
    from ottla.pipelines.ops_monitoring import counted, metrics

    port = free_port()
    broker = brokers(arguments=("--metrics-port", str(port)))
    to = ("-b", broker.bootstrap)
    url, nobody = f"http://127.0.0.1:{port}/metrics", f"http://127.0.0.1:{free_port()}/metrics"
    said = run("scrape", "metrics", url, "-n", "1", *to)
    assert "produced 1 record to metrics" in said
    for number in range(7):
        run("topic", "create", f"new-{number}", *to)
    said = run("scrape", "metrics", url, nobody, "-n", "2", "-e", "0.1", *to)
    assert f"{nobody} does not answer" in said
    assert "produced 2 records to metrics" in said

    source = spark.read.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap)
    frame = source.option("subscribe", "metrics").load()
    rows = counted(metrics(frame, 0), DAY_S).toArrow().to_pylist()
    found = {(row["service"], row["start"].timestamp()): (row["requests"], row["errors"]) for row in rows}
    scrapes = [(row["timestamp"], bytes(row["value"]).decode()) for row in frame.orderBy("offset").collect()]
    assert len(scrapes) == 3
    assert found == expected(scrapes)
    created = sum(requests for (service, _), (requests, _) in found.items() if service == "CreateTopics")
    assert created == 7 + 1, "the second scrape tries to create its topic"


def expected(scrapes: list[tuple[datetime, str]]) -> dict[tuple[str, float], tuple[int, int]]:
    """Of each API and day the requests and errors between the first and the last scrape of it."""
    series: dict[tuple[str, str, str, float], list[float]] = {}
    for time, text in scrapes:
        day = time.timestamp() // DAY_S * DAY_S
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                what = sample.name.removeprefix("kafka_network_requestmetrics_")
                if what not in ("requests_total", "errors_total") or sample.labels.get("error") in FINE:
                    continue
                labels = ",".join(sorted(sample.labels.values()))
                series.setdefault((sample.labels["request"], what, labels, day), []).append(sample.value)
    counts: Counter[tuple[str, float, str]] = Counter()
    for (service, what, _, day), numbers in series.items():
        counts[service, day, what] += int(numbers[-1] - numbers[0])
    return {
        (service, day): (counts[service, day, "requests_total"], counts[service, day, "errors_total"])
        for service, day, _ in counts
    }
