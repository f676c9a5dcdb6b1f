"""The projects in `examples/` pass their own tests, as they stand, in folders of their own."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from tests.peers.skips import require
from tests.support.inner_pytest import run_pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
MODULES = {
    "confluent": "confluent_kafka",
    "asyncio": "aiokafka",
    "faststream": "faststream",
    "kafka_python": "kafka",
    "ottla_aio": "ottla",
    "spark": "pyspark",
}
#: Spark takes a second JVM here: `tests/spark/test_example.py` does without.
RUNS = [pytest.param(name, marks=pytest.mark.judge) if name == "spark" else name for name in MODULES]


def test_all_are_run() -> None:
    assert sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir()) == sorted(MODULES)
    table = (EXAMPLES / "README.md").read_text()
    assert [name for name in MODULES if f"[{name}]({name}/" not in table] == []


@pytest.mark.clients
@pytest.mark.parametrize("name", RUNS)
def test_an_example_passes(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(MODULES[name]) is None:
        require("clients", f"{MODULES[name]} is not installed")
    folder = shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    run_pytest(folder)
