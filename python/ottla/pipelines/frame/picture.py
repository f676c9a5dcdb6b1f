"""How pictures of results look: matplotlib, quiet colours, the title says what was found.

Whoever looks at one on a page sees it at half its size: texts are large enough for that. Legends stand outside of the
axes, where they hide nothing.
"""
# mypy: allow-untyped-calls

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

INK, FAINT, PAPER = "#22303c", "#5f6d79", "#fbfaf7"
COLORS = ("#3d7ea6", "#66a182", "#d1495b", "#edae49", "#7d5ba6", "#8a98a5")
WIDTH, HEIGHT = 11, 5


def grouped_number(value: float, _: object = None) -> str:
    """12,345"""
    return f"{value:,.0f}"


def legend_below(*axes: Any, columns: int = 4) -> Any:
    """A legend outside of the axes, where it hides nothing. What several have in common is named once."""
    named: dict[str, Any] = {}
    for each in axes:
        for handle, label in zip(*each.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    return axes[0].figure.legend(named.values(), named, loc="outside lower left", frameon=False, ncols=columns)


def logarithmic(axes: Any) -> None:
    """Both axes are counts by their logarithms, with plain numbers at the powers of ten."""
    from matplotlib import ticker

    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(grouped_number)
        axis.set_minor_formatter(ticker.NullFormatter())


def time_axis(axes: Any, label: str) -> None:
    """The horizontal axis is one of times in UTC: dates stand where they change. Called when all is drawn."""
    from matplotlib import dates

    locator = dates.AutoDateLocator(minticks=4, maxticks=9)
    formatter = dates.ConciseDateFormatter(locator)
    first, last = axes.get_xlim()
    formatter.zero_formats[3] = "%d %b"
    # At the end of the axis stands what all its times have in common.
    formatter.offset_formats[3] = "%d %b %Y" if int(first) == int(last) else "%Y"
    formatter.offset_formats[4] = "%d %b %Y"
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(formatter)
    axes.set_xlabel(f"{label} (UTC)")


def shortened(name: str, characters_max: int) -> str:
    """The end of a long name says more than its beginning."""
    return name if len(name) <= characters_max else "…" + name[-characters_max + 1 :]


@contextmanager
def panels(
    path: Path, title: str, subtitle: str, *, count: int, height: float = HEIGHT, ratios: Sequence[float] | None = None
) -> Iterator[list[Any]]:
    """`count` axes to draw on, one below the other; at the end of the block they are a PNG at `path`."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    style: dict[str, Any] = {
        "font.size": 12,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": FAINT,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "grid.color": "#e3e2dd",
        "xtick.color": INK,
        "ytick.color": INK,
        "figure.facecolor": PAPER,
        "axes.facecolor": PAPER,
    }
    with pyplot.rc_context(style):  # type: ignore[arg-type, unused-ignore]
        figure, found = pyplot.subplots(
            count, figsize=(WIDTH, height), height_ratios=ratios, layout="constrained", squeeze=False
        )
        try:
            layout: Any = figure.get_layout_engine()
            layout.set(h_pad=0.1, w_pad=0.12)
            axes = list(found[:, 0])
            heading = figure.suptitle(title, fontsize=17, fontweight="bold", ha="left")
            if subtitle:
                axes[0].set_title(subtitle, loc="left", fontsize=12, color=FAINT)
            yield axes
            # The title begins where the axes do, which is known when everything is laid out.
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
            heading.set_x(axes[0].get_position().x0)
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=110, metadata={"Software": None})
        finally:
            pyplot.close(figure)


@contextmanager
def drawing(path: Path, title: str, subtitle: str, *, height: float = HEIGHT) -> Iterator[Any]:
    """Axes to draw on; at the end of the block they are a PNG at `path`, with both titles."""
    with panels(path, title, subtitle, count=1, height=height) as (axes,):
        yield axes
