"""The demonstration's result as a picture."""
# mypy: allow-untyped-calls

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.pipelines.demo.summary import Summary
from ottla.pipelines.frame.picture import COLORS, INK, grouped_number, panels, shortened, time_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REQUESTS, ERRORS, PAGES = COLORS[0], COLORS[2], COLORS[1]
PATH_CHARACTERS_MAX = 42
HOUR = timedelta(hours=1)


def draw(summary: Summary, title: str, path: Path) -> None:
    """Writes a PNG: requests per hour, errors per hour, and the most requested pages."""
    share = summary.errors / summary.requests if summary.requests else 0
    with panels(path, title, "", count=3, height=10, ratios=(1.1, 0.6, 1.15)) as (above, middle, below):
        _hours(above, [(hour.start, hour.requests) for hour in summary.hours], REQUESTS)
        above.set_title(f"requests per hour: {summary.requests:,} in all", loc="left", fontsize=13)
        above.set_ylabel("requests")
        above.tick_params(axis="x", which="both", labelbottom=False)
        _hours(middle, [(hour.start, hour.errors) for hour in summary.hours], ERRORS)
        middle.set_title(
            f"errors per hour (status 400 and above): {summary.errors:,} in all, {share:.1%}", loc="left", fontsize=13
        )
        middle.set_ylabel("errors")
        time_axis(middle, "hour")
        _pages(below, summary)


def _hours(axes: "Axes", values: list[tuple[datetime, int]], color: str) -> None:
    """Steps, one per hour; hours without an entry are 0."""
    from matplotlib import dates, ticker

    known = dict(values)
    first, last = (values[0][0], values[-1][0]) if values else (datetime(1970, 1, 1, tzinfo=UTC),) * 2
    count = int((last - first) / HOUR) + 1
    edges: Any = [first + HOUR * number for number in range(count + 1)]
    heights = [known.get(edge, 0) for edge in edges[:-1]]
    axes.stairs(heights, dates.date2num(edges), fill=True, color=color, alpha=0.3)
    axes.stairs(heights, dates.date2num(edges), color=color, lw=1.5)
    axes.set_ylim(bottom=0)
    axes.margins(x=0.005)
    axes.yaxis.set_major_locator(ticker.MaxNLocator(4, integer=True))
    axes.yaxis.set_major_formatter(grouped_number)
    time_axis(axes, "hour")
    axes.set_xlabel("")


def _pages(axes: "Axes", summary: Summary) -> None:
    names = [shortened(page.path, PATH_CHARACTERS_MAX) for page in summary.pages]
    counts = [page.requests for page in summary.pages]
    bars = axes.barh(range(len(names)), counts, color=PAGES, height=0.72)
    axes.set_yticks(range(len(names)), names, fontsize=11)
    axes.invert_yaxis()
    axes.bar_label(bars, labels=[f"{count:,}" for count in counts], padding=5, fontsize=11, color=INK)
    axes.set_title("the most requested pages", loc="left", fontsize=13)
    axes.set_xlabel("requests")
    axes.xaxis.set_major_formatter(grouped_number)
    axes.margins(x=0.1)
    axes.grid(False)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
