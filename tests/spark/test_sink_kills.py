"""The sink in Spark, killed at named points and started again: every row is there once. `test_exactly_once` has the
same for many more cases, without Spark.
"""

import itertools
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
import trio

from ottla.client import Cluster, TransactionAdmin
from tests.peers.processes import Server
from tests.spark.committed import values
from tests.spark.stops import Stops
from tests.spark.texts import fill, start
from tests.spark.topics import Topics
from tests.support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TASKS = 4
_names = (f"sink-kills-{number}" for number in itertools.count())


@pytest.fixture
def topic(topics: Topics) -> str:
    """A new topic of three partitions, whose name is also the prefix of its query's transactional ids."""
    name = next(_names)
    topics.make(name, [0, 0, 0])
    return name


@pytest.fixture(autouse=True)
def nothing_stopped(stops: Stops) -> Iterator[None]:
    yield
    for point in list(stops.folder.iterdir()):
        stops.clear(point.name)


def open_count(bootstrap: str, prefix: str) -> int:
    """How many transactions of the query's tasks are open."""

    async def ask() -> int:
        async with Cluster(bootstrap) as cluster:
            found = await TransactionAdmin(cluster).list_transactions(states=["Ongoing"])
            return sum(each.transactional_id.startswith(f"{prefix}-") for each in found)

    return trio.run(ask)


@pytest.mark.parametrize(
    ("point", "still_open"),
    [
        pytest.param("before-decision", TASKS, marks=pytest.mark.judge),
        ("between-ends", TASKS - 1),
        pytest.param("committed", 0, marks=pytest.mark.judge),
    ],
)
def test_a_commit_is_killed(
    spark: "SparkSession", topics: Topics, topic: str, stops: Stops, tmp_path: Path, point: str, still_open: int
) -> None:
    wanted = fill(tmp_path, range(2))
    stops.set(point)
    query = start(spark, tmp_path, topics.bootstrap, topic, tasks=TASKS, transactionalIdPrefix=topic)
    [pid] = stops.wait(point, running=lambda: query.isActive)
    assert open_count(topics.bootstrap, topic) == still_open
    stops.kill(point, pid)
    with pytest.raises(Exception, match=r"(?i)python worker|EOF|crash"):
        query.awaitTermination(PATIENCE_S)
    again = start(spark, tmp_path, topics.bootstrap, topic, tasks=2, transactionalIdPrefix=topic)
    assert again.awaitTermination(PATIENCE_S)
    assert values(topics.bootstrap, topic) == wanted


def test_a_worker_is_killed(spark: "SparkSession", topics: Topics, topic: str, stops: Stops, tmp_path: Path) -> None:
    wanted = fill(tmp_path, range(2))
    stops.set("written")
    query = start(spark, tmp_path, topics.bootstrap, topic, tasks=TASKS, transactionalIdPrefix=topic)
    pids = stops.wait("written", 2, running=lambda: query.isActive)
    assert open_count(topics.bootstrap, topic) == 2
    stops.kill("written", pids[0])
    with pytest.raises(Exception, match=r"(?i)python worker|EOF|crash"):
        query.awaitTermination(PATIENCE_S)
    again = start(spark, tmp_path, topics.bootstrap, topic, tasks=TASKS, transactionalIdPrefix=topic)
    assert again.awaitTermination(PATIENCE_S)
    assert values(topics.bootstrap, topic) == wanted


def test_a_driver_is_killed(spark: "SparkSession", topics: Topics, topic: str, tmp_path: Path) -> None:
    """The whole of it: Python, JVM and workers, with kill -9; then another driver, with fewer tasks."""
    wanted = fill(tmp_path, range(2))
    stops = Stops(tmp_path / "stops")
    stops.folder.mkdir()
    stops.set("between-ends")
    command = [sys.executable, "-m", "tests.spark.sink_driver", topics.bootstrap, topic, str(tmp_path), str(TASKS)]
    driver = Server("driver", command, tmp_path / "driver.log", environment={"OTTLA_SINK_STOPS": str(stops.folder)})
    try:
        # It starts a JVM, and Spark its first batch.
        stops.wait("between-ends", running=lambda: driver.running, timeout_s=5 * PATIENCE_S)
    finally:
        for process in [*psutil.Process(driver.pid).children(recursive=True), psutil.Process(driver.pid)]:
            process.send_signal(signal.SIGKILL)
        driver.kill()
        stops.clear("between-ends")
    assert open_count(topics.bootstrap, "ottla-sink") >= 2
    again = start(spark, tmp_path, topics.bootstrap, topic, tasks=2)
    assert again.awaitTermination(PATIENCE_S)
    assert values(topics.bootstrap, topic) == wanted
