"""Pipelines over generated activity, killed while a batch is in flight, restarted, and their whole output compared:
those that need a setting of their own. One driver runs them all, since a JVM costs eight seconds to start.
"""

from pathlib import Path

import pytest
import trio

from ottla.client import Cluster
from ottla.pipelines.generator.answers import Answers
from ottla.pipelines.generator.output import to_topic
from ottla.pipelines.generator.settings import HOUR_MS, Settings
from tests.peers.ottla import Brokers
from tests.peers.skips import require
from tests.pipelines.auditing import CONFIGURATION as AUDIT
from tests.pipelines.auditing import Audit
from tests.pipelines.feeding import CAP, Feeds
from tests.pipelines.feeding import CONFIGURATION as FEEDS
from tests.pipelines.killing import Drivers
from tests.pipelines.mirroring import BACK, THERE, Mirrors

pytestmark = pytest.mark.spark
SETTINGS = Settings(events=100_000, seed=21)
BATCH = 9_000
# The audit is the quickest, and begins when the others are on their way.
CONFIGURATIONS = {
    "feeds": ("newsfeed_fanout", FEEDS),
    "there": ("mirror_transform", THERE),
    "back": ("mirror_transform", BACK),
    "audit": ("audit", AUDIT),
}


@pytest.fixture(autouse=True)
def _packages() -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        require("spark", "pyspark is not installed")


@pytest.mark.judge
def test_killed(tmp_path: Path) -> None:
    run(tmp_path, SETTINGS, BATCH, span_s=7200, kill_in=2)


@pytest.mark.soak
def test_killed_with_five_million_events(tmp_path: Path) -> None:
    settings = Settings(events=5_000_000, seed=22, span_ms=7 * 24 * HOUR_MS)
    run(tmp_path, settings, 400_000, span_s=14_400, kill_in=4, heap="4g")


def run(folder: Path, settings: Settings, batch: int, span_s: int, kill_in: int, heap: str | None = None) -> None:
    answers, audit, feeds, mirrors = Answers(settings), Audit(settings), Feeds(settings.members), Mirrors(settings)
    with Brokers(folder) as brokers:
        east, west = brokers().bootstrap, brokers().bootstrap

        async def generate() -> None:
            async with Cluster(east) as cluster:
                await to_topic(settings, cluster, "activity", partitions=4, seen=answers.add)

        trio.run(generate)
        trio.run(audit.produce, east)
        audit.load(folder / "audit" / "warehouse", east)
        feeds.write(folder / "followers.parquet")
        mirrors.begin(east, west)
        pipelines = []
        for name, (pipeline, text) in CONFIGURATIONS.items():
            file = folder / f"{name}.toml"
            given = {"bootstrap": east, "east": east, "west": west, "folder": folder, "name": name}
            file.write_text(text.format(**given, batch=batch, span_s=span_s, cap=CAP))
            pipelines.append((pipeline, file))
        drivers = Drivers(pipelines, folder / "driver.log", heap)
        drivers.run(kill_in=kill_in, all_inside=True)
        assert drivers.killed_in, "those that had not finished were in the middle of a batch"
        drivers.run()
        assert drivers.finished == CONFIGURATIONS.keys()
        batches = settings.events // batch
        for name in ("feeds", "there"):
            assert len(list((folder / name / "checkpoint" / "commits").glob("[0-9]*"))) >= batches
        audit.check(folder / "audit" / "report", batches)
        feeds.check(east, answers)
        mirrors.check(east, west)
        for picture in ("audit/audit", "feeds/feeds", "there/mirror"):
            assert (folder / f"{picture}.png").stat().st_size > 10_000
