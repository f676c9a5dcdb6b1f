"""The targets, each with whether it is reached: the last table of a run.

A target is a ratio to the better Kafka of the run, in each round: at least it where more is better, else at most. Those
that are `own` are a figure of ours alone: a floor, so that a slow machine does not hide a slow design.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benches.suite import figures as f

OURS = "Ottla"


@dataclass(frozen=True)
class Target:
    """A row: `goal` for a figure of a case of a scenario."""

    scenario: str
    case: str
    figure: str
    goal: float
    own: bool = False

    @property
    def text(self) -> str:
        return f"{self.scenario}: {self.case}, {self.figure if self.own else f.ratio_of(self.figure)}"

    def found(self, results: dict[str, f.Result]) -> list[float]:
        """The ratio (or our own figure) in each round that has one."""
        result = results.get(self.scenario)
        row = result.rows.get(self.case, {}).get(self.figure, {}) if result else {}
        return f.measured(row.get(OURS, [])) if self.own else f.ratios(self.figure, row, OURS)

    def is_met(self, value: float) -> bool:
        return value >= self.goal if f.more_is_better(self.figure) else value <= self.goal

    def part(self, value: float) -> float:
        """Of the goal: over 1 where it is missed."""
        return self.goal / value if f.more_is_better(self.figure) else value / self.goal

    @property
    def wanted(self) -> str:
        return (
            f"{'>=' if f.more_is_better(self.figure) else '<='} {f.spread([self.goal])}{' (own)' if self.own else ''}"
        )


BUSY, FIRST = "50 + 200 idle connections", "first Metadata answer"
TARGETS = (
    Target("small-requests", BUSY, f.CPU_REQUEST, 0.4),
    Target("small-requests", BUSY, f.REQUESTS, 2.0),
    Target("small-requests", "one in flight", f.P50, 0.8),
    Target("default-batches", "100 B", f.CPU_RECORD, 0.45),
    Target("large-batches", "64 KiB", f.CPU_RECORD, 0.8),
    Target("large-batches", "1 MB", f.CPU_RECORD, 1.0),
    *(
        Target("end-to-end", f"{acks}, 1,000 a second", figure, goal)
        for acks in ("acks=1", "acks=all", "acks=all, flushed", "acks=all, unflushed")
        for figure, goal in ((f.P50, 0.8), (f.P99, 0.6), (f.P999, 0.3))
    ),
    Target("cold-reader", "beside a cold reader", f.P99_BESIDE, 2.0, own=True),
    Target("fetch", "4 MiB, cached", f.CPU_MB, 1.0),
    Target("java-consumer", "100 B", f.CPU_MB, 0.7),
    Target("durable", "librdkafka, 1 KiB, 64 KiB batches", f.RECORDS, 5.0),
    Target("cold-start", FIRST, f.SECONDS, 0.25),
    Target("cold-start", FIRST, f.IDLE, 0.18),
    Target("default-batches", "whole run", f.PEAK, 0.12),
    Target("partitions", "5,000", "clean stop, s", 0.1),
    Target("partitions", "5,000", "restart, s", 0.2),
    Target("partitions", "5,000", f.KILLED, 0.2),
    Target("partitions", "5,000", f.KILLED_AWAKE, 0.2),
    *(
        Target("cluster", f"acks={acks}, {partitions}", figure, goal)
        for acks in ("1", "all")
        for partitions in ("1 partition", "6 partitions")
        for figure, goal in ((f.RECORDS, 1.0), (f.CPU_RECORD, 0.8))
    ),
    *(
        Target("cluster", f"acks={acks}, 6 partitions, 64 KiB batches", figure, goal)
        for acks, records, cpu in (("1", 1.3, 0.6), ("all", 2.5, 0.25))
        for figure, goal in ((f.RECORDS, records), (f.CPU_RECORD, cpu))
    ),
    Target("cluster", "acks=all, single records, 50 connections", f.REQUESTS, 5.0),
    Target("cluster", "acks=all, single records, 50 connections", f.CPU_REQUEST, 0.1),
    Target("cluster", "acks=all, 1,000 a second", f.P50, 0.6),
    Target("cluster", "acks=all, 1,000 a second", f.P99, 0.6),
    Target("cluster-failover", "5,000 partitions", f.LAST_LEADER, 2.0, own=True),
    Target("cluster-catch-up", "1 GB behind", f.MB, 1.5),
    Target("cluster-catch-up", "1 GB behind", f.P99_COMING_BACK, 2.0, own=True),
    Target("cluster", "three brokers", f.ALL_RESIDENT, 0.15),
    Target("small-requests", BUSY, f.CPU_REQUEST, 10.0, own=True),
    Target("cold-start", FIRST, f.SECONDS, 0.4, own=True),
    Target("cold-start", FIRST, f.IDLE, 60.0, own=True),
)
# Of benches/spark.py: beside Spark's own connector.
SPARK = (
    *(
        Target(scenario, case, f.ROWS, goal, own)
        for scenario, case, ratio, floor in (
            ("count", "from a directory", 4.0, 5e6),
            ("count", "from a broker", 2.5, 3.3e6),
            ("warehouse", "to Parquet, from a directory", 4.0, 4e6),
        )
        for goal, own in ((ratio, False), (floor, True))
    ),
    Target("write", "cached rows", f.ROWS, 1.0),
    Target("sink", "1 M rows a trigger", f.ROWS, 1.0),
    Target("stream", "1 M rows a trigger, from a directory", f.ROWS, 2e6, own=True),
    Target("latency", "1,000 a second", "p50, s", 0.6, own=True),
    Target("latency", "1,000 a second", "p99, s", 1.0, own=True),
    *(
        Target("memory", f"{size} MB, {what}", f.WORKER, 300, own=True)
        for size in ("100", "1,000")
        for what in ("read", "write", "load")
    ),
)
# (scenario, case, figure) -> the target of the ratio
GOALS = {(one.scenario, one.case, one.figure): one for one in (*TARGETS, *SPARK) if not one.own}
AIMED = {one.scenario for one in TARGETS}
RIVALS = {one.scenario for one in TARGETS if not one.own}
"""Scenarios whose targets are ratios to the best Kafka."""


def table(results: list[f.Result], targets: Sequence[Target] = TARGETS) -> list[list[str]]:
    """Target, wanted, measured, verdict."""
    named = {result.name: result for result in results}
    rows = []
    for target in targets:
        values = target.found(named)
        verdict = ("met" if target.is_met(statistics.median(values)) else "missed") if values else "not measured"
        rows.append([target.text, target.wanted, f.spread(values) if values else "", verdict])
    return rows
