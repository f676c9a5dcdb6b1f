"""The project in `examples/spark` passes its own tests with the session of these; `tests/embedded/test_examples.py`
lets it start one.
"""

import importlib
import inspect
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ottla

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FOLDER = Path(__file__).parents[2] / "examples" / "spark"
TESTS = ("test_visits_are_counted", "test_each_failed_visit_is_copied_once")


def test_all_are_run() -> None:
    found = [line for file in FOLDER.glob("test_*.py") for line in file.read_text().splitlines()]
    assert [line.split("(")[0] for line in found if line.startswith("def test_")] == [f"def {name}" for name in TESTS]


@pytest.mark.parametrize("name", TESTS)
def test_it_passes(spark: "SparkSession", name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    test = getattr(importlib.import_module("test_visits"), name)
    with ottla.Broker() as broker:
        broker.create_topic("visits")
        given = {"spark": spark, "ottla_broker": broker, "ottla_topic": "visits", "tmp_path": tmp_path}
        test(**{argument: given[argument] for argument in inspect.signature(test).parameters})
