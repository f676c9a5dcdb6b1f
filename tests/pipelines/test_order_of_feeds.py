"""How events of several partitions become one feed."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.judge
def test_partitions_are_merged_by_time_and_a_late_event_keeps_its_place(spark: "SparkSession") -> None:
    from ottla.pipelines.newsfeed_fanout import audience, fanned_out

    # Member 1 has two followers, 2 has one, 3 has more than the cap.
    follows = spark.createDataFrame([(1, 10), (1, 11), (2, 10), (3, 1), (3, 2), (3, 4)], "member long, follower long")
    stood = [(0, 2, 30), (1, 5, 20), (0, 0, 10), (1, 6, 40), (0, 1, 5), (1, 7, 6)]
    members = [1, 2, 1, 3, 1, 2]
    rows = [
        (member, f"{partition}-{offset}".encode(), partition, offset, datetime.fromtimestamp(time_s, UTC))
        for member, (partition, offset, time_s) in zip(members, stood, strict=True)
    ]
    events = spark.createDataFrame(
        rows, "member long, value binary, partition int, offset long, timestamp timestamp"
    ).repartition(3)
    known = audience(follows, 2, 2, "feeds", "celebrities")
    found: dict[tuple[str, str], list[str]] = {}
    for row in fanned_out(events, known, 2).collect():
        found.setdefault((row["topic"], row["key"]), []).append(bytes(row["value"]).decode())
    assert found == {
        ("feeds", "10"): ["0-0", "0-1", "1-5", "0-2", "1-7"],
        ("feeds", "11"): ["0-0", "0-1", "0-2"],
        ("celebrities", "3"): ["1-6"],
    }
