"""The blocks of the pages about pipelines are typed as they stand, each page on a machine of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.skips import require
from tests.support.machine import Machine
from tests.support.readme import block

pytestmark = [pytest.mark.spark, pytest.mark.judge]

#: A run is a JVM's.
RUN_S = 300.0


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        require("spark", "pyspark is not installed")
    with Machine(tmp_path) as machine:
        machine.stay("ottla serve")
        yield machine


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.rglob("*.parquet")}


def test_warehouse_and_audit(machine: Machine) -> None:
    machine.type(block("sh", "pipeline example warehouse_load", "docs/pipelines/README.md"), timeout_s=RUN_S)
    loaded = names(machine.folder / "warehouse" / "activity")
    assert loaded
    (machine.folder / "again.py").write_text(block("python", "warehouse_load.run", "docs/pipelines/README.md"))
    machine.type("python again.py", timeout_s=RUN_S)
    assert names(machine.folder / "warehouse" / "activity") == loaded, "there was nothing new"
    (machine.folder / "tally.py").write_text(block("python", "Tally", "docs/pipelines/audit.md"))
    machine.type("python tally.py")
    machine.type(block("sh", "pipeline example audit", "docs/pipelines/audit.md"), timeout_s=RUN_S)
    # That it ends is all there is to see: what was told is younger than a window has to be.


def test_a_larger_warehouse(machine: Machine) -> None:
    machine.type(block("sh", "ottla generate", "docs/pipelines/warehouse_load.md"), timeout_s=RUN_S)
    assert names(machine.folder / "warehouse" / "activity")


def test_followers(machine: Machine) -> None:
    (machine.folder / "followers.py").write_text(block("python", "followers.py", "docs/pipelines/newsfeed_fanout.md"))
    machine.type(block("sh", "python followers.py", "docs/pipelines/newsfeed_fanout.md"), timeout_s=RUN_S)
    assert machine.type("ottla consume feeds --from-beginning -n 3")


def test_another_cluster(machine: Machine) -> None:
    machine.stay("ottla serve --listen 127.0.0.1:9093 --data-dir target")
    machine.type("ottla generate activity")
    machine.type(block("sh", "mirror_transform", "docs/pipelines/mirror_transform.md"), timeout_s=RUN_S)
    assert machine.type("ottla consume activity -b 127.0.0.1:9093 --from-beginning -n 3")


@pytest.mark.parametrize(
    ("typed", "table"),
    [
        (block("sh", "ottla generate", "docs/pipelines/abuse_rate.md"), "abuse"),
        (block("sh", "ottla generate", "docs/pipelines/ops_monitoring.md"), "ops"),
        (block("sh", "ottla generate", "docs/pipelines/relevance_counts.md"), "."),
        (block("sh", "ottla generate", "docs/pipelines/sessionize.md"), "."),
    ],
    ids=["abuse_rate", "ops_monitoring", "relevance_counts", "sessionize"],
)
def test_one_page(machine: Machine, typed: str, table: str) -> None:
    machine.type(typed, timeout_s=RUN_S)
    assert names(machine.folder / table)
