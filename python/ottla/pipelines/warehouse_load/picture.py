"""A table's records by hour, as a picture."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ottla.pipelines.frame.picture import COLORS, drawing, grouped_number, legend_below

TOPICS_MAX = len(COLORS)


def draw(hours: Mapping[tuple[str, str, int], int], location: str, path: Path) -> None:
    """Writes a PNG of records per hour, the topics on top of each other; `hours` are (topic, date, hour)."""
    by_topic: dict[str, dict[datetime, int]] = {}
    for (topic, date, hour), count in hours.items():
        start = datetime.fromisoformat(date).replace(tzinfo=UTC) + timedelta(hours=hour)
        by_topic.setdefault(topic, {})[start] = count
    largest = sorted(by_topic, key=lambda topic: -sum(by_topic[topic].values()))[:TOPICS_MAX]
    starts = sorted({start for topic in largest for start in by_topic[topic]})
    with drawing(
        path, f"{sum(hours.values()):,} records loaded", f"by hour of their time (UTC), into {location}"
    ) as axes:
        below = [0] * len(starts)
        for topic, color in zip(largest, COLORS, strict=False):
            heights = [by_topic[topic].get(start, 0) for start in starts]
            axes.bar(starts, heights, width=1 / 26, bottom=below, color=color, label=topic)
            below = [low + height for low, height in zip(below, heights, strict=True)]
        axes.set_xlabel("hour (UTC)")
        axes.set_ylabel("records")
        axes.yaxis.set_major_formatter(grouped_number)
        legend_below(axes)
