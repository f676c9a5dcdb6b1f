"""The report of a run: a table on the terminal, and for each scenario a JSON file with every round's value, a picture
and its part of the page docs/benchmarks/README.md, which begins with the targets.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benches.suite.figures import Result, ratios, spread
from benches.suite.targets import GOALS, OURS, TARGETS, Target, table
from benches.suite.warmup import WarmUp


def rows_of(result: Result, columns: list[str]) -> list[list[str]]:
    """Case, figure, each contestant, ratio, goal."""
    rows = []
    for case, figures in result.rows.items():
        for figure, row in figures.items():
            cells = [spread(row[name]) if name in row else "" for name in columns]
            found = ratios(figure, row, OURS)
            goal = GOALS.get((result.name, case, figure))
            verdict = ""
            if goal is not None:
                verdict = goal.wanted
                if found:
                    verdict += " met" if goal.is_met(statistics.median(found)) else " missed"
            rows.append([case, figure, *cells, spread(found) if found else "", verdict])
    return rows


def columns_of(result: Result) -> list[str]:
    """The contestants, in the order in which they ran."""
    names = {name: None for figures in result.rows.values() for row in figures.values() for name in row}
    return sorted(names, key=lambda name: (name != OURS, name))


def show(result: Result, console: Console) -> None:
    columns = columns_of(result)
    table = Table(title=f"{result.name}: {result.title} ({result.generator})", title_justify="left")
    for name in ("case", "figure", *columns, "ratio", "goal"):
        table.add_column(name, justify="left" if name in ("case", "figure", "goal") else "right")
    last = None
    for row in rows_of(result, columns):
        table.add_row(row[0] if row[0] != last else "", *row[1:], style="red" if row[-1].endswith("missed") else None)
        last = row[0]
    console.print(table)
    for case, text in result.published.items():
        console.print(f"  published, {case}: {text}")
    for text in warm_ups_of(result):
        console.print(f"  warmed: {text}", markup=False)
    for problem in result.problems:
        console.print(f"  no figure: {problem}", style="red", markup=False)


def warm_ups_of(result: Result) -> list[str]:
    return [str(WarmUp(**one)) for one in result.warm_ups]


def show_targets(results: list[Result], console: Console, aims: Sequence[Target] = TARGETS) -> None:
    """The last table."""
    shown = Table(title="targets: ours to the best other of a round; (own): our own figure", title_justify="left")
    for name in ("target", "wanted", "measured", "verdict"):
        shown.add_column(name)
    for row in table(results, aims):
        shown.add_row(*row, style={"missed": "red", "not measured": "dim"}.get(row[-1]))
    console.print(shown)


def save(result: Result, machine: dict[str, str], commands: list[str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine, "commands": commands, **dataclasses.asdict(result)}
    (folder / f"{result.name}.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def load(path: Path) -> tuple[Result, dict[str, Any]]:
    """A saved result, and what was saved beside it."""
    content = json.loads(path.read_text())
    names = {field.name for field in dataclasses.fields(Result)}
    return Result(**{name: value for name, value in content.items() if name in names}), content


def _rows(result: Result) -> list[dict[str, list[float | None]]]:
    return [row for figures in result.rows.values() for row in figures.values()]


HEAD = """\
# Beside Apache Kafka

Written by `benches/compare.py`; [method.md](method.md) says how to read and repeat it. Median
[least, greatest] of the rounds. A ratio is ours to that Kafka's in the same round whose median is the better one.
"""


def write_page(folder: Path, order: list[str], aims: Sequence[Target] = TARGETS, head: str = HEAD) -> None:
    """README.md anew from all results in the folder: those of single runs replace only their own."""
    found = {path.stem: load(path) for path in folder.glob("*.json") if path.stem in order}
    targets = table([result for result, _ in found.values()], aims)
    rows = [dict(zip(("target", "wanted", "measured", "verdict"), row, strict=True)) for row in targets]
    (folder / "targets.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    lines = [
        head,
        "## Targets",
        "",
        "| target | wanted | measured | |",
        "|---|---|---|---|",
        *("| " + " | ".join(row) + " |" for row in targets),
    ]
    if (folder / "goals.png").exists():
        lines += ["", "![targets](goals.png)"]
    for name in order:
        if name not in found:
            continue
        result, content = found[name]
        columns = columns_of(result)
        machine = content["machine"]
        header = ["case", "figure", *columns, "ratio", "goal"]
        lines += ["", f"## {name}", "", f"{result.title}. Load: {result.generator}.", ""]
        lines += ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
        lines += ["| " + " | ".join(row) + " |" for row in rows_of(result, columns)]
        lines += ["", *(f"Published, {case}: {text}  " for case, text in result.published.items())]
        lines += [f"Without a figure: {problem}  " for problem in result.problems]
        lines += ["", *(f"Warmed: {text}  " for text in warm_ups_of(result))]
        if (folder / f"{name}.png").exists():
            lines += ["", f"![{name}]({name}.png)", ""]
        facts = ", ".join(f"{key} {value}" for key, value in machine.items() if key != "command")
        of_each = result.spent.values() or [values for row in _rows(result) for values in row.values()]
        rounds = max(map(len, of_each), default=0)
        lines += [f"`{machine['command']}`, {rounds} rounds, {result.seconds:.0f} s; {facts}.", ""]
        if content["commands"]:
            lines += ["<details><summary>Commands</summary>", "", "```", *content["commands"], "```", "", "</details>"]
    (folder / "README.md").write_text("\n".join(lines) + "\n")
