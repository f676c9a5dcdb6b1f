"""Figures of several rounds: what is quoted of them.

A figure's name says what it is and its unit last: "CPU a request, µs". Which way is better follows from the name. A
ratio of two such figures has no unit: its name is `ratio_of` the figure's.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

CPU_REQUEST = "CPU a request, µs"
CPU_RECORD = "CPU a record, µs"
CPU_MB = "CPU a MB, ms"
REQUESTS = "requests a second"
RECORDS = "records a second"
ROWS = "rows a second"
MB = "MB a second"
P50, P90, P99, P999 = "p50, µs", "p90, µs", "p99, µs", "p99.9, µs"
PEAK = "peak resident, MB"
IDLE = "resident, idle, MB"
ALL_RESIDENT = "proportional resident of all, MB"
WORKER = "largest Python worker, MB"
SECONDS = "seconds"
P99_COMING_BACK = "p99 to that while it was away"
LAST_LEADER = "the node's disappearance to the last new leader, s"
P99_BESIDE = "p99 to that without a reader"
KILLED = "restart after kill -9, s"
KILLED_AWAKE = "restart after kill -9, less the wait for the old session, s"
OTHERS = "the idle ones beside it: CPU, ms a second"

UNITS = frozenset({"µs", "ms", "s", "MB"})
"""The units at the ends of names."""

Figures = dict[str, dict[str, float]]
"""case -> figure -> value, of one contestant in one round"""


@dataclass
class Result:
    """A scenario's outcome. `rows`: case -> figure -> contestant -> of each round a value or None."""

    name: str
    title: str
    generator: str
    rows: dict[str, dict[str, dict[str, list[float | None]]]] = field(default_factory=dict)
    curves: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)
    """case -> contestant -> (part of the requests, µs), of the last round"""
    problems: list[str] = field(default_factory=list)
    """Runs without a figure, and why."""
    published: dict[str, str] = field(default_factory=dict)
    """case -> what the document that the case comes from says"""
    warm_ups: list[dict[str, Any]] = field(default_factory=list)
    """Each warming (warmup.WarmUp): who, of what, its windows' costs, and whether they stood still at its end."""
    spent: dict[str, list[float]] = field(default_factory=dict)
    """contestant -> seconds of each round, with the warming in the first"""
    seconds: float = 0.0

    def add(self, contestant: str, number: int, figures: Figures) -> None:
        """Adds the figures that a contestant had in a round, the first being 1."""
        for case, values in figures.items():
            for name, value in values.items():
                row = self.rows.setdefault(case, {}).setdefault(name, {}).setdefault(contestant, [])
                row += [None] * (number - 1 - len(row)) + [value]


def more_is_better(figure: str) -> bool:
    return figure.endswith("a second")


def ratio_of(figure: str, ratio: str = "ratio") -> str:
    """The name of what `ratios` gives: "CPU a request, ratio" of "CPU a request, µs". `ratio` may say to whose."""
    name, comma, unit = figure.rpartition(", ")
    return f"{name if comma and unit in UNITS else figure}, {ratio}"


def measured(values: Sequence[float | None]) -> list[float]:
    """Without the rounds that have no figure."""
    return [value for value in values if value is not None]


def spread(values: Sequence[float | None]) -> str:
    """Median [least, greatest]."""
    there = measured(values)
    parts = [_text(value) for value in (statistics.median(there), min(there), max(there))]
    return parts[0] if len(there) == 1 else f"{parts[0]} [{parts[1]}, {parts[2]}]"


def _text(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def ratios(figure: str, row: dict[str, list[float | None]], ours: str) -> list[float]:
    """Ours to the better of the others, of neighbours in a round; of rounds in which both have a figure.

    The better one is that whose median over all rounds is: the best of both in each round is nobody's figure, and the
    more restless the machine is the better it looks. In rounds in which it took no part it is the best that did.
    """
    best = max if more_is_better(figure) else min
    medians = {name: statistics.median(there) for name, values in row.items() if (there := measured(values))}
    better = best((name for name in medians if name != ours), key=medians.__getitem__, default=None)
    found = []
    for number, mine in enumerate(row.get(ours, [])):
        others = {name: values[number] for name, values in row.items() if name != ours and number < len(values)}
        theirs = others.get(better) if better else None
        if theirs is None:
            theirs = best(measured(list(others.values())), default=None)
        if mine is not None and theirs:
            found.append(mine / theirs)
    return found
