"""Pictures: latency curves, sweeps over a number, and the goals at one look."""

from __future__ import annotations

import re
import statistics
from pathlib import Path

from benches.suite.figures import Result, measured
from benches.suite.report import columns_of
from benches.suite.targets import TARGETS

COLOURS = ("#1b6ca8", "#d1495b", "#edae49", "#66a182")
UNITS = {"B": 1, "KiB": 1 << 10, "MB": 10**6, "MiB": 1 << 20, "GB": 10**9}


def draw(result: Result, folder: Path) -> None:
    """NAME.png with a panel for each case that has a latency curve and each figure of a sweep; nothing without one."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sweeps = _sweeps(result)
    panels = len(result.curves) + len(sweeps)
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
    for place in axes.flat:
        place.grid(alpha=0.3)
        if place.lines:
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
