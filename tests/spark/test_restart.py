"""A driver that is killed in the middle of a batch, and what the next one reads."""

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.peers.processes import Server
from tests.spark import restarted
from tests.spark.topics import Topics
from tests.support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.judge
def test_a_killed_driver_reads_exactly_the_same_batch_again(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topics.make("killed", [200, 0, 350])
    command = [sys.executable, "-m", "tests.spark.restarted", topics.bootstrap, "killed", str(tmp_path)]
    driver = Server("driver", command, tmp_path / "log")
    stuck = tmp_path / f"{restarted.STUCK_BATCH}.stuck"
    try:
        driver.wait_until(stuck.exists)
    finally:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int((tmp_path / "jvm").read_text()), signal.SIGKILL)
        driver.kill()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name.isdecimal()}
    assert sorted(before) == ["0", "1", "2"]
    topics.append("killed", [50, 50, 50])  # what has come since does not count for the batch under way

    query = restarted.start(spark, topics.bootstrap, "killed", tmp_path)
    assert query.awaitTermination(PATIENCE_S)
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name.isdecimal()}
    assert after.items() >= before.items()
    assert after["3"] == stuck.read_bytes()
    read = sorted(tuple(row) for name in after for row in json.loads(after[name]))
    assert read == [(row[3], row[4]) for row in topics.rows("killed")]
