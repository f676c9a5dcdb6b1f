"""Pictures: latency curves, sweeps over a number, else bars of medians with their range; the goals at one look."""

from __future__ import annotations

import re
import statistics
import textwrap
from pathlib import Path
from typing import Any

from benches.suite.figures import Result, measured
from benches.suite.report import columns_of
from benches.suite.targets import TARGETS

COLOURS = ("#1b6ca8", "#d1495b", "#edae49", "#66a182")
# Bars of so different heights are seen on such a scale alone.
LOGARITHMIC = 30
LEVEL_LABELS = 6
UNITS = {"B": 1, "KiB": 1 << 10, "MB": 10**6, "MiB": 1 << 20, "GB": 10**9}


def draw(result: Result, folder: Path) -> None:
    """NAME.png with a panel for each case that has a latency curve and each figure of a sweep; bars without either."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    groups = _groups(result)
    sweeps = {} if groups else _sweeps(result)
    bars = groups or ({} if result.curves or sweeps else _bars(result))
    panels = len(result.curves) + len(sweeps) + len(bars)
    if not panels:
        return
    across = min(3, panels)
    down = -(-panels // across)
    figure, axes = pyplot.subplots(down, across, figsize=(5 * across, 3.6 * down), squeeze=False)
    places = iter(axes.flat)
    colours = dict(zip(columns_of(result), COLOURS, strict=False))
    for case, curves in result.curves.items():
        place = next(places)
        for name, curve in curves.items():
            # Nothing beyond p99.9 is claimed.
            points = [(1 / (1 - part), value) for part, value in curve if part <= 0.999]
            place.plot(*zip(*points, strict=True), label=name, color=colours.get(name))
        place.set(xscale="log", yscale="log", title=case, ylabel="latency, µs")
        place.set_xticks([1, 2, 10, 100, 1000], ["0", "p50", "p90", "p99", "p99.9"])
    for figure_name, lines in sweeps.items():
        place = next(places)
        for name, points in lines.items():
            place.plot(*zip(*sorted(points), strict=True), marker="o", label=name, color=colours.get(name))
        place.set(xscale="log", title=figure_name, ylim=(0, None))
    for figure_name, cases in bars.items():
        place = next(places)
        _draw_bars(place, cases, colours)
        place.set(title=figure_name)
    for place in axes.flat:
        place.grid(alpha=0.3)
        if place.has_data():
            place.legend(fontsize="small")
        else:
            place.set_visible(False)
    figure.suptitle(result.title)
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{result.name}.png", dpi=110)
    pyplot.close(figure)


def _sweeps(result: Result) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """figure -> contestant -> (number in the case's name, median): where three cases have a number in front."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for case, figures in result.rows.items():
        match = re.match(r"([\d,.]+)(?: (B|KiB|MB|MiB|GB))?\b", case)
        if match is None:
            continue
        at = float(match[1].replace(",", "")) * UNITS.get(match[2] or "", 1)
        for figure, row in figures.items():
            for name, values in row.items():
                found.setdefault(figure, {}).setdefault(name, []).append((at, statistics.median(measured(values))))
    return {
        figure: lines for figure, lines in found.items() if all(len({x for x, _ in one}) > 2 for one in lines.values())
    }


def _groups(result: Result) -> dict[str, dict[str, dict[str, list[float]]]]:
    """The same as `_bars`, where cases have several numbers before a colon: a panel for each number, with the first
    figure that all its cases have.
    """
    numbered: dict[str, dict[str, dict[str, dict[str, list[float | None]]]]] = {}
    for case, figures in result.rows.items():
        number, colon, rest = case.partition(": ")
        if colon and number.isdecimal():
            numbered.setdefault(number, {})[rest] = figures
    found = {}
    for number, cases in numbered.items():
        first, *others = cases.values()
        if figure := next((name for name in first if all(name in row for row in others)), None):
            found[f"{number}: {figure}"] = {
                case: {name: measured(values) for name, values in row[figure].items()} for case, row in cases.items()
            }
    return found if len(found) > 1 else {}


def _bars(result: Result) -> dict[str, dict[str, dict[str, list[float]]]]:
    """figure -> case -> contestant -> values: of the first figures that some Kafka has too, at most three."""
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for case, figures in result.rows.items():
        for figure, row in figures.items():
            if case != "whole run":
                found.setdefault(figure, {})[case] = {name: measured(values) for name, values in row.items()}
    alone = len(columns_of(result)) == 1
    shared = {figure: cases for figure, cases in found.items() if alone or any(len(row) > 1 for row in cases.values())}
    return dict(list(shared.items())[:3])


def _draw_bars(place: Any, cases: dict[str, dict[str, list[float]]], colours: dict[str, str]) -> None:
    """Medians, with lines from the least to the greatest."""
    width = 0.8 / len(colours)
    for number, (name, colour) in enumerate(colours.items()):
        there = {at: row[name] for at, row in enumerate(cases.values()) if row.get(name)}
        if not there:
            continue
        medians = [statistics.median(values) for values in there.values()]
        below = [median - min(values) for median, values in zip(medians, there.values(), strict=True)]
        above = [max(values) - median for median, values in zip(medians, there.values(), strict=True)]
        at = [position + number * width for position in there]
        place.bar(at, medians, width, yerr=[below, above], label=name, color=colour, capsize=2)
    heights = [statistics.median(values) for row in cases.values() for values in row.values() if values]
    if heights and max(heights) > LOGARITHMIC * min(heights) > 0:
        place.set_yscale("log")
    if len(cases) > LEVEL_LABELS:
        place.set_xticks(range(len(cases)), list(cases), fontsize="x-small", rotation=60, ha="right")
    else:
        place.set_xticks(range(len(cases)), [textwrap.fill(case, 18) for case in cases], fontsize="x-small")


def draw_goals(results: list[Result], folder: Path) -> None:
    """goals.png: each goal's ratio as a part of the goal, over 1 where it is missed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    named = {result.name: result for result in results}
    rows = [(target, target.found(named)) for target in TARGETS]
    bars = [(target.text, target.part(statistics.median(values))) for target, values in rows if values]
    if not bars:
        return
    drawing, place = pyplot.subplots(figsize=(10, 0.32 * len(bars) + 1.2))
    names, parts = zip(*reversed(bars), strict=True)
    place.barh(names, parts, color=[COLOURS[0] if part <= 1 else COLOURS[1] for part in parts])
    place.axvline(1, color="black", linewidth=1)
    place.set(xlabel="of the goal (1: just reached; less is better)")
    drawing.tight_layout()
    drawing.savefig(folder / "goals.png", dpi=110)
    pyplot.close(drawing)
