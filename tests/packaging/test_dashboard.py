"""Grafana's dashboard asks for metrics that a broker exports, in expressions that Prometheus understands."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.metrics.families import FAMILIES
from tests.support.promtool import found
from tests.support.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
FILE = ROOT / "packaging" / "grafana" / "ottla.json"
DASHBOARD: dict[str, Any] = json.loads(FILE.read_text())
COLUMNS = 24

BY_NAME = {family.name: family for family in FAMILIES}
#: prometheus_client has them for every process.
OF_PROCESSES = {"process_cpu_seconds_total": "counter", "process_resident_memory_bytes": "gauge"}
METRIC = re.compile(r"\b(?:kafka|ottla|process)_\w+")
#: Prometheus gives these to whatever it scrapes.
TARGET = {"job", "instance"}


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    """Each with the name of its lines."""
    for panel in panels():
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]


def filled(expression: str) -> str:
    """An expression with the variables as Grafana puts them in."""
    values = {"$__rate_interval": "5m", "$job": "ottla", "$instance": ".*"}
    return re.sub(r"\$\w+", lambda name: values[name[0]], expression)


def test_the_file_is_in_step() -> None:
    write = [sys.executable, ROOT / "packaging" / "grafana" / "dashboard.py"]
    written = subprocess.run(write, check=True, capture_output=True, text=True).stdout
    assert written == FILE.read_text(), "run `make dashboard`"


@pytest.mark.parametrize(("expression", "legend"), list(expressions()))
def test_what_a_panel_names_is_exported(expression: str, legend: str) -> None:
    names = METRIC.findall(expression)
    assert names
    types = {name: BY_NAME[name].type if name in BY_NAME else OF_PROCESSES[name] for name in names}
    known = TARGET.union(*(BY_NAME[name].labels for name in names if name in BY_NAME))
    grouped = [label.strip() for by in re.findall(r"by \(([^)]*)\)", expression) for label in by.split(",")]
    chosen = re.findall(r'(\w+)(?:=|!=|=~|!~)"', expression)
    assert {*grouped, *chosen, *re.findall(r"{{(\w+)}}", legend)} <= known
    rated = set(re.findall(r"(?:rate|increase)\((\w+)", expression))
    assert rated == {name for name, kind in types.items() if kind == "counter"}


def test_variables_are_there_and_ask_for_what_is_exported() -> None:
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    used = {name for expression, _ in expressions() for name in re.findall(r"\$(\w+)", expression)}
    assert used - {"__rate_interval"} == variables.keys() - {"datasource"}
    for name in used & variables.keys():
        assert set(METRIC.findall(variables[name]["query"]["query"])) <= BY_NAME.keys()


def test_no_panel_lies_upon_another() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < COLUMNS
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)


@pytest.mark.clients
def test_prometheus_understands_each_expression(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": filled(each)} for number, (each, _) in enumerate(expressions())]
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    check = [found(), "check", "rules", file]
    done = subprocess.run(check, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout
