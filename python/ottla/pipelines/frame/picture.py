"""How pictures of results look: matplotlib, quiet colours, the title says what was found."""
# mypy: allow-untyped-calls

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

INK, FAINT, PAPER = "#22303c", "#8a98a5", "#fbfaf7"
COLORS = ("#3d7ea6", "#66a182", "#d1495b", "#edae49", "#7d5ba6", "#8a98a5")


def grouped_number(value: float, _: object = None) -> str:
    """12,345"""
    return f"{value:,.0f}"


def legend_below(axes: Any, columns: int = 4) -> None:
    """A legend outside of the axes, where it hides nothing."""
    axes.figure.legend(loc="outside lower left", frameon=False, ncols=columns)


@contextmanager
def drawing(path: Path, title: str, subtitle: str, *, height: float = 4.5) -> Iterator[Any]:
    """Axes to draw on; at the end of the block they are a PNG at `path`, with both titles."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    style: dict[str, Any] = {
        "font.size": 10,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": FAINT,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "xtick.color": INK,
        "ytick.color": INK,
        "figure.facecolor": PAPER,
        "axes.facecolor": PAPER,
    }
    with pyplot.rc_context(style):  # type: ignore[arg-type, unused-ignore]
        figure, axes = pyplot.subplots(figsize=(11, height), layout="constrained")
        try:
            figure.suptitle(title, fontsize=15, fontweight="bold", x=0.012, ha="left")
            axes.set_title(subtitle, loc="left", fontsize=10, color=FAINT)
            yield axes
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=110, metadata={"Software": None})
        finally:
            pyplot.close(figure)
