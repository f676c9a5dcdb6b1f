"""Figures of several rounds: what is quoted of them, and how they stand to the goals.

A figure's name says what it is and its unit last: "CPU a request, µs". Which way is better follows from the name.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

CPU_REQUEST = "CPU a request, µs"
CPU_RECORD = "CPU a record, µs"
CPU_MB = "CPU a MB, ms"
REQUESTS = "requests a second"
RECORDS = "records a second"
MB = "MB a second"
P50, P90, P99, P999 = "p50, µs", "p90, µs", "p99, µs", "p99.9, µs"
PEAK = "peak resident, MB"
IDLE = "resident, idle, MB"
START = "start, s"

Figures = dict[str, dict[str, float]]
"""case -> figure -> value, of one contestant in one round"""


@dataclass
class Result:
    """A scenario's outcome. `rows`: case -> figure -> contestant -> a value for each round that has one."""

    name: str
    title: str
    generator: str
    rows: dict[str, dict[str, dict[str, list[float]]]] = field(default_factory=dict)
    curves: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)
    """case -> contestant -> (part of the requests, µs), of the last round"""
    problems: list[str] = field(default_factory=list)
    """Runs without a figure, and why."""
    published: dict[str, str] = field(default_factory=dict)
    """case -> what the document that the case comes from says"""
    seconds: float = 0.0

    def add(self, contestant: str, figures: Figures) -> None:
        for case, values in figures.items():
            for name, value in values.items():
                self.rows.setdefault(case, {}).setdefault(name, {}).setdefault(contestant, []).append(value)


def more_is_better(figure: str) -> bool:
    return figure.endswith("a second")


def spread(values: list[float]) -> str:
    """Median [least, greatest]."""
    parts = [_text(value) for value in (statistics.median(values), min(values), max(values))]
    return parts[0] if len(values) == 1 else f"{parts[0]} [{parts[1]}, {parts[2]}]"


def _text(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def ratios(figure: str, row: dict[str, list[float]], ours: str) -> list[float]:
    """Ours to the better of the others, of neighbours in a round; none where one of them has no figure."""
    others = [values for name, values in row.items() if name != ours]
    if ours not in row or not others or any(len(values) != len(row[ours]) for values in others):
        return []
    better = max if more_is_better(figure) else min
    rounds = zip(row[ours], (better(values) for values in zip(*others, strict=True)), strict=True)
    return [mine / other for mine, other in rounds if other]


# (scenario, case, figure) -> what the ratio to the better Kafka should be: at least it where more is better, else at
# most it.
GOALS: dict[tuple[str, str, str], float] = {
    ("small-requests", "50 + 200 idle connections", CPU_REQUEST): 0.4,
    ("small-requests", "50 + 200 idle connections", REQUESTS): 2.0,
    ("small-requests", "one in flight", P50): 0.8,
    ("default-batches", "100 B", CPU_RECORD): 0.45,
    ("large-batches", "64 KiB", CPU_RECORD): 0.8,
    ("large-batches", "1 MB", CPU_RECORD): 1.0,
    **{
        ("end-to-end", f"{acks}, 1,000 a second", figure): goal
        for acks in ("acks=1", "acks=all")
        for figure, goal in ((P50, 0.8), (P99, 0.6), (P999, 0.3))
    },
    ("fetch", "4 MiB, cached", CPU_MB): 1.0,
    ("java-consumer", "100 B", CPU_MB): 0.7,
    ("durable", "librdkafka, 1 KiB, 64 KiB batches", RECORDS): 5.0,
    ("cold-start", "first Metadata answer", "seconds"): 0.25,
    ("cold-start", "first Metadata answer", IDLE): 0.18,
    ("default-batches", "whole run", PEAK): 0.12,
    ("partitions", "5,000", "clean stop, s"): 0.1,
    ("partitions", "5,000", "restart, s"): 0.2,
    ("partitions", "5,000", "restart after kill -9, s"): 0.2,
}


def is_reached(figure: str, ratio: float, goal: float) -> bool:
    return ratio >= goal if more_is_better(figure) else ratio <= goal
