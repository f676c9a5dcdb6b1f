"""The audit's report: what was found in each window, as a table and as a picture."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import dataset, parquet

from ottla.errors import counted
from ottla.pipelines.audit.counts import Key, shown
from ottla.pipelines.frame.config import PipelineError
from ottla.pipelines.tables.durable import sync

COUNTS = (
    "produced", "broker", "broker_missing", "broker_double", "broker_foreign", "broker_swapped",
    "warehouse", "warehouse_missing", "warehouse_double", "warehouse_foreign",
)  # fmt: skip
WRONG = tuple(name for name in COUNTS if "_" in name)
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("producer", pa.string()),
        ("start", pa.timestamp("ms", tz="UTC")),
        *((name, pa.bool_() if name == "broker_swapped" else pa.int64()) for name in COUNTS),
    ]
)
WINDOW = b"ottla.window_ms"


def compared(
    produced: Mapping[Key, tuple[int, int]], counted: Iterable[Mapping[str, Any]], *, has_table: bool
) -> list[dict[str, Any]]:
    """A row of the report for each window that there is anything in."""
    found = {(row["topic"], row["who"], row["window"]): row for row in counted}
    rows = []
    for key in sorted(produced.keys() | found.keys()):
        count, checksum = produced.get(key, (0, 0))
        there = found.get(key, {})
        different = there.get("different", 0)
        row = {
            "topic": key[0],
            "producer": key[1],
            "start": key[2],
            "produced": count,
            "broker": there.get("broker", 0),
            "broker_missing": max(0, count - different),
            "broker_double": there.get("broker", 0) - different,
            "broker_foreign": max(0, different - count),
            "broker_swapped": count == different and checksum != there.get("checksum", 0),
        }
        for name in COUNTS[6:]:
            row[name] = there.get(name, 0) if has_table else None
        rows.append(row)
    return rows


def sentence(row: Mapping[str, Any]) -> str:
    """The problems of a window in one sentence, for people; empty if there are none."""
    said = []
    for tier in ("broker", "warehouse"):
        wrong = [f"{row[name]:,} {name.partition('_')[2]}" for name in WRONG if name.startswith(tier) and row[name]]
        if tier == "broker" and row["broker_swapped"]:
            wrong[-1] = "as many as were produced, but not the same"
        if wrong:
            said.append(f"{' and '.join(wrong)} at the {tier}")
    if not said:
        return ""
    who = f" of {row['producer']}" if row["producer"] else ""
    return f"{row['topic']}{who}, {shown(row['start'])}: {'; '.join(said)}"


@dataclass(frozen=True, slots=True)
class Audited:
    """The totals of the report after a run: sums over its windows, and for `broker_swapped` the windows that are so."""

    windows: int
    totals: Mapping[str, int]

    def __str__(self) -> str:
        totals = self.totals
        at_broker = ", ".join(f"{totals[name]:,} {name.partition('_')[2]}" for name in WRONG[:3])
        swapped = (
            f", {totals['broker_swapped']:,} windows with others than produced" if totals["broker_swapped"] else ""
        )
        at_table = ", ".join(f"{totals[name]:,} {name.partition('_')[2]}" for name in WRONG[4:])
        return (
            f"{counted(totals['produced'], 'record')} produced in {counted(self.windows, 'window')}; "
            f"{totals['broker']:,} at the broker "
            f"({at_broker}{swapped}); {totals['warehouse']:,} at the warehouse ({at_table})"
        )


class Report:
    """The folder `location`: `span-<start>-<end>.parquet`, in milliseconds, one for each span that is audited.

    Raises:
        PipelineError: it was written with other windows.
    """

    def __init__(self, location: Path, window_ms: int) -> None:
        self.location = location
        self._window_ms = window_ms
        location.mkdir(parents=True, exist_ok=True)
        for left in location.glob("_*.new"):
            left.unlink()
        if paths := self._paths():
            written = int((parquet.read_schema(paths[-1]).metadata or {}).get(WINDOW, b"0"))
            if written != window_ms:
                raise PipelineError(
                    f"the report {location} has windows of {written // 1000} s, and window_s is {window_ms // 1000}: "
                    "leave it as it was, or give the report another folder"
                )

    def end_ms(self) -> int | None:
        """The end of the last span; None before the first."""
        paths = self._paths()
        return int(paths[-1].stem.rpartition("-")[2]) if paths else None

    def spans(self) -> int:
        """How many there are."""
        return len(self._paths())

    def add(self, start_ms: int, end_ms: int, rows: list[dict[str, Any]]) -> None:
        """Adds a span, whole and on disk when this returns. Only one process may add (`only_loader`)."""
        new = self.location / f"_{os.getpid()}.new"
        table = pa.Table.from_pylist(rows, schema=SCHEMA.with_metadata({WINDOW: str(self._window_ms)}))
        parquet.write_table(table, new)
        sync(new)
        new.rename(self.location / f"span-{start_ms:014}-{end_ms:014}.parquet")
        sync(self.location)

    def rows(self) -> Iterator[dict[str, Any]]:
        """All rows in the order of time."""
        for path in self._paths():
            yield from parquet.read_table(path).to_pylist()

    def audited(self) -> Audited:
        """The totals of all windows in the report."""
        paths = self._paths()
        if not paths:
            return Audited(0, dict.fromkeys(COUNTS, 0))
        table = dataset.dataset(paths).to_table()
        totals = {name: sum(value or 0 for value in table[name].to_pylist()) for name in COUNTS}
        return Audited(len(set(table["start"].to_pylist())), totals)

    def _paths(self) -> list[Path]:
        return sorted(self.location.glob("span-*.parquet"))


def draw(report: Report, path: Path) -> None:
    """A PNG: by window, what is missing downwards and what is double or foreign upwards, at each tier."""
    from ottla.pipelines.frame.picture import COLORS, grouped_number, legend_below, panels, time_axis

    sums: dict[datetime, dict[str, int]] = {}
    has_table = False
    for row in report.rows():
        entry = sums.setdefault(row["start"].astimezone(UTC), dict.fromkeys(COUNTS, 0))
        has_table |= row["warehouse"] is not None
        for name in COUNTS:
            entry[name] += row[name] or 0
    if not sums:
        return
    starts = sorted(sums)
    width = min((later - start for start, later in pairwise(starts)), default=timedelta(minutes=10))
    tiers = ("broker", "warehouse") if has_table else ("broker",)

    def total(*names: str) -> int:
        return sum(entry[f"{tier}_{name}"] for entry in sums.values() for tier in tiers for name in names)

    missing, more = total("missing"), total("double", "foreign")
    produced = counted(sum(entry["produced"] for entry in sums.values()), "record")
    wrong = [f"{count:,} {what}" for count, what in ((missing, "missing"), (more, "too many")) if count]
    title = f"Audit of {produced}: {' and '.join(wrong) or 'all are there, each once'}"
    with panels(
        path,
        title,
        "records that are missing, and that are too many, by window of their time",
        count=len(tiers),
        height=1.8 + 2.2 * len(tiers),
    ) as axes:
        for tier, panel in zip(tiers, axes, strict=True):
            above = [sums[start][f"{tier}_double"] + sums[start][f"{tier}_foreign"] for start in starts]
            below = [-sums[start][f"{tier}_missing"] for start in starts]
            panel.bar(starts, above, width=0.9 * width, align="edge", color=COLORS[0], label="double or foreign")
            panel.bar(starts, below, width=0.9 * width, align="edge", color=COLORS[2], label="missing")
            if not any(above + below):
                panel.text(0.5, 0.75, "each record once", transform=panel.transAxes, ha="center", va="center")
            panel.axhline(0, color=COLORS[5], lw=1)
            panel.set_yscale("symlog", linthresh=10)
            # Room for a mark at least, where nothing is wrong.
            low, high = panel.get_ylim()
            panel.set_ylim(min(low, -10), max(high, 10))
            panel.set_ylabel(f"at the {tier}")
            panel.yaxis.set_major_formatter(lambda value, _: grouped_number(abs(value)))
            panel.sharex(axes[-1])
        for panel in axes[:-1]:
            panel.tick_params(labelbottom=False)
        time_axis(axes[-1], "start of the window")
        legend_below(*axes)
