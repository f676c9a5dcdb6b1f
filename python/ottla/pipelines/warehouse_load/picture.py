"""A table's records by hour, as a picture."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ottla.errors import counted
from ottla.pipelines.frame.picture import COLORS, drawing, grouped_number, legend_below, time_axis

HOUR = timedelta(hours=1)


def draw(hours: Mapping[tuple[str, str, int], int], location: str, path: Path) -> None:
    """Writes a PNG of records per hour, the topics on top of each other; `hours` are (topic, date, hour)."""
    totals: dict[str, int] = {}
    for (topic, _, _), count in hours.items():
        totals[topic] = totals.get(topic, 0) + count
    largest = sorted(totals, key=lambda topic: -totals[topic])
    named = largest if len(largest) <= len(COLORS) else largest[: len(COLORS) - 1]
    others = f"{len(largest) - len(named)} other topics"
    by_name: dict[str, dict[datetime, int]] = {}
    for (topic, date, hour), count in hours.items():
        start = datetime.fromisoformat(date).replace(tzinfo=UTC) + timedelta(hours=hour)
        of_name = by_name.setdefault(topic if topic in named else others, {})
        of_name[start] = of_name.get(start, 0) + count
    starts = sorted({start for of_name in by_name.values() for start in of_name})
    of = largest[0] if len(largest) == 1 else f"{len(largest)} topics"
    title = f"{counted(sum(totals.values()), 'record')} of {of} loaded"
    with drawing(path, title, f"records by the hour of their time, into {location}") as axes:
        below = [0] * len(starts)
        for name, color in zip([*named, others], COLORS, strict=False):
            if name not in by_name:
                continue
            heights = [by_name[name].get(start, 0) for start in starts]
            axes.bar(starts, heights, width=HOUR, align="edge", bottom=below, color=color, ec=color, lw=0.5, label=name)
            below = [low + height for low, height in zip(below, heights, strict=True)]
        axes.set_ylabel("records")
        axes.yaxis.set_major_formatter(grouped_number)
        time_axis(axes, "hour")
        if len(by_name) > 1:
            legend_below(axes)
