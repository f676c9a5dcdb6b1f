"""Programs that README shows of Spark do what it says."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.client.sync import Cluster, Producer
from tests.peers.ottla import Broker
from tests.support.readme import block

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_topic_is_copied_and_shown(
    spark: "SparkSession", broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orders = block("sh", "orders.csv").split("'")[1].replace("\\n", "\n").splitlines()
    with Cluster(broker.bootstrap) as cluster, Producer(cluster) as producer:
        for key, value in (each.encode().split(b",") for each in orders):
            producer.send("orders", value, key=key)
    code = block("python", "writeStream").replace("127.0.0.1:9092", broker.bootstrap)
    exec(code.replace("large.checkpoint", str(tmp_path / "checkpoint")), {})
    assert spark.streams.active == []
    rows = [line.strip("|").split("|") for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert sorted([cell.strip() for cell in row] for row in rows[1:]) == [["alice", "2 plums"], ["alice", "3 apples"]]
