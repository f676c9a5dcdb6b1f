"""Visits: a client's events without a pause of more than half an hour, as rows of a table.

How long people stay, where they came in and how they left is asked of visits, not of single events; and visits are
what late events break: one that arrives after its visit was counted would make a second one. Here a visit is written
once, when no event of it can arrive any more (`stream.late_s` after its end), with the late ones in it and duplicates
counted once.

A visit ends when its client does nothing for `gap_s`. An event exactly `gap_s` after another one belongs to a new
visit. All of it is Spark's own session window: no Python per record.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ottla.errors import counted
from ottla.pipelines.frame import streaming
from ottla.pipelines.frame.config import Positive, Source
from ottla.pipelines.frame.progress import Progress
from ottla.pipelines.frame.streaming import STREAM_EXAMPLE, Format, Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.pipelines.tables.results import Results

EXAMPLE = f"""\
format = "activity"             # activity (JSON of `ottla generate`) or access_log
gap_s = 1800                    # a pause that ends a visit
table = "sessionize/visits"
picture = "visits.png"          # may be left out

{STREAM_EXAMPLE.format(name="sessionize")}"""
# Where the bars of the picture are divided.
LENGTHS_S = (1, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400)


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See `EXAMPLE`."""

    source: Source
    stream: Stream
    table: str
    format: Format = "activity"
    gap_s: Positive = 1800
    picture: str | None = None


@dataclass(frozen=True, slots=True)
class Visits:
    """The visits in the table after a run, and the events in them."""

    visits: int
    events: int

    def __str__(self) -> str:
        return f"{counted(self.visits, 'visit')} with {counted(self.events, 'event')}"


def sessions(events: "DataFrame", gap_s: int) -> "DataFrame":
    """One row per visit: `client`, `start` and `end` (its first and last event), `events`, `pages`, `clicks`."""
    from pyspark.sql import functions as f

    is_click = f.col("type") == "click" if "type" in events.columns else f.lit(False)
    return (
        events.groupBy(f.session_window("time", f"{gap_s} seconds").alias("session"), "client")
        .agg(
            f.count(f.lit(1)).alias("events"),
            f.approx_count_distinct("page").alias("pages"),
            f.count(f.when(is_click, 1)).alias("clicks"),
        )
        .select(
            "client",
            f.col("session.start").alias("start"),
            (f.col("session.end") - f.make_dt_interval(secs=f.lit(gap_s))).alias("end"),
            "events",
            "pages",
            "clicks",
        )
    )


def run(spark: "SparkSession", config: Config, progress: Progress | None = None) -> Visits:
    """Reads what is there (or goes on, with `stream.every_s`) and writes the visits that are over.

    Raises:
        PipelineError: the table belongs to another checkpoint.
    """
    values = streaming.records(spark, config.source, config.stream)
    read = streaming.activity if config.format == "activity" else streaming.requests
    found = sessions(read(values, config.stream.late_s), config.gap_s)
    table = streaming.run(found, config.stream, Path(config.table), progress or Progress("sessionize"))
    if config.picture is not None:
        draw(table, Path(config.picture))
    rows = table.read()
    return Visits(0, 0) if rows is None else Visits(rows.num_rows, sum(rows["events"].to_pylist()))


def draw(table: "Results", path: Path) -> None:
    """A PNG: how long visits last."""
    import numpy as np

    from ottla.pipelines.frame.picture import COLORS, drawing, grouped_number

    rows = table.read()
    if rows is None:
        return
    several = rows["events"].to_numpy() > 1
    seconds = (rows["end"].to_numpy() - rows["start"].to_numpy())[several].astype("timedelta64[s]").astype(int)
    counts, _ = np.histogram(seconds, bins=[0, *LENGTHS_S, np.inf])
    names = [f"under {_length(LENGTHS_S[0])}", *map(_span, pairwise(LENGTHS_S)), f"over {_length(LENGTHS_S[-1])}"]
    # From the first length that there is to the last one.
    there = np.flatnonzero(counts)
    shown = slice(there[0], there[-1] + 1) if len(there) else slice(0, 0)
    title = f"{counted(rows.num_rows, 'visit')}, {1 - several.mean():.0%} of them a single event"
    with drawing(path, title, "visits of more than one event, by their length") as axes:
        bars = axes.bar(names[shown], counts[shown], color=COLORS[0])
        axes.bar_label(bars, labels=[grouped_number(count) for count in counts[shown]], padding=3)
        axes.margins(y=0.1)
        axes.set_xlabel("length of the visit")
        axes.set_ylabel("visits")
        axes.yaxis.set_major_formatter(grouped_number)


def _length(seconds: int) -> str:
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def _span(lengths: tuple[int, int]) -> str:
    low, high = map(_length, lengths)
    # A unit that both have is said once.
    return f"{low.split()[0]}-{high}" if low.split()[1] == high.split()[1] else f"{low}-{high}"
