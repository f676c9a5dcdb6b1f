"""The demonstration's result as a picture."""
# mypy: allow-untyped-calls

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.pipelines.demo.summary import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, FAINT, PAPER = "#22303c", "#8a98a5", "#fbfaf7"
REQUESTS, ERRORS, PAGES = "#3d7ea6", "#d1495b", "#66a182"
PATH_CHARACTERS_MAX = 42
HOUR = timedelta(hours=1)


def draw(summary: Summary, title: str, path: Path) -> None:
    """Writes a PNG: requests per hour, errors per hour, and the most requested pages."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    style: dict[str, Any] = {
        "font.family": "DejaVu Sans",
        "font.size": 10,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": FAINT,
        "xtick.color": INK,
        "ytick.color": INK,
        "figure.facecolor": PAPER,
        "axes.facecolor": PAPER,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with pyplot.rc_context(style):  # type: ignore[arg-type, unused-ignore]
        figure, (above, middle, below) = pyplot.subplots(
            3, 1, figsize=(11, 9), height_ratios=(1.15, 0.5, 1.05), layout="constrained"
        )
        layout: Any = figure.get_layout_engine()
        layout.set(h_pad=0.1, w_pad=0.12)
        figure.suptitle(title, fontsize=16, fontweight="bold", x=0.012, ha="left")
        share = summary.errors / summary.requests if summary.requests else 0
        _hours(above, [(hour.start, hour.requests) for hour in summary.hours], REQUESTS)
        above.set_title(f"requests per hour: {summary.requests:,} in all", loc="left", fontsize=11)
        above.tick_params(axis="x", which="both", labelbottom=False)
        _hours(middle, [(hour.start, hour.errors) for hour in summary.hours], ERRORS)
        middle.set_title(
            f"errors per hour (status 400 and above): {summary.errors:,} in all, {share:.1%}", loc="left", fontsize=11
        )
        _pages(below, summary)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110, metadata={"Software": None})
        pyplot.close(figure)


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
    axes.yaxis.set_major_locator(ticker.MaxNLocator(5, integer=True))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.grid(color=FAINT, alpha=0.25)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_locator(dates.DayLocator())
    axes.xaxis.set_major_formatter(dates.DateFormatter("%a %d %b"))
    axes.xaxis.set_minor_locator(dates.HourLocator(byhour=(6, 12, 18)))
    axes.xaxis.set_minor_formatter(dates.DateFormatter("%H:%M"))
    axes.tick_params(axis="x", which="minor", labelsize=7, labelcolor=FAINT)
    axes.tick_params(axis="x", which="major", length=9)


def _pages(axes: "Axes", summary: Summary) -> None:
    from matplotlib import ticker

    names = [_short(page.path) for page in summary.pages]
    counts = [page.requests for page in summary.pages]
    bars = axes.barh(range(len(names)), counts, color=PAGES, height=0.72)
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.invert_yaxis()
    axes.bar_label(bars, labels=[f"{count:,}" for count in counts], padding=5, fontsize=9, color=INK)
    axes.set_title("the most requested pages", loc="left", fontsize=11)
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.margins(x=0.08)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _short(path: str) -> str:
    """The end of a long path says more than its beginning."""
    return path if len(path) <= PATH_CHARACTERS_MAX else "…" + path[-PATH_CHARACTERS_MAX + 1 :]
