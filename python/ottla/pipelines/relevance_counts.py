"""Which items are clicked when they are shown: impressions and clicks joined, counted and smoothed into rates.

What to show next is decided by click-through rates, and those are easily wrong: a click counted without its impression,
an impression seen twice, an item with one lucky click ahead of all others. Here a click counts only if it follows its
impression within `click_s`, each once; counts are of the window of the impression, so that a rate never has clicks of
other impressions than those it is divided by; and the rate is smoothed towards `prior_clicks / prior_impressions`, as
if so many had been seen before.

    rate = (clicks + prior_clicks) / (impressions + prior_impressions)

It is a join of two streams and an aggregation, both in Spark's JVM. A window is written when no click can follow any
more: `click_s` and `stream.late_s` after its end. Rows go to a table, and to a compacted topic that has the newest rate
of each item under its number.

Table and topic are exactly-once, the topic for readers of committed records.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from ottla.pipelines.frame import streaming
from ottla.pipelines.frame.config import Positive, Source
from ottla.pipelines.frame.progress import Progress
from ottla.pipelines.frame.streaming import STREAM_EXAMPLE, Batch, Stream
from ottla.pipelines.frame.topic import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.pipelines.tables.results import Results

EXAMPLE = f"""\
table = "relevance/rates"
window_s = 3600
click_s = 600                   # a click counts if it follows its impression within so many seconds
prior_clicks = 1
prior_impressions = 10
picture = "relevance.png"       # may be left out

[rates]                         # may be left out
bootstrap = "127.0.0.1:9092"
topic = "rates"

{STREAM_EXAMPLE.format(name="relevance")}"""
COMPACTED = {"cleanup.policy": "compact"}
ITEMS_SHOWN = 25


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See `EXAMPLE`."""

    source: Source
    stream: Stream
    table: str
    window_s: Positive = 3600
    click_s: Positive = 600
    prior_clicks: Annotated[float, msgspec.Meta(ge=0)] = 1
    prior_impressions: Annotated[float, msgspec.Meta(gt=0)] = 10
    rates: Topic | None = None
    picture: str | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """The sums of the table after a run."""

    items: int
    impressions: int
    clicks: int

    def __str__(self) -> str:
        return f"{self.impressions:,} impressions and {self.clicks:,} clicks of {self.items:,} items"


def counts(impressions: "DataFrame", clicks: "DataFrame", window_s: int, click_s: int) -> "DataFrame":
    """Per item and window of impressions: `impressions` and `clicks`, of two frames of the same events."""
    from pyspark.sql import functions as f

    shown = impressions.where("type = 'impression'").select("id", "item", f.col("time").alias("shown"))
    clicked = clicks.where("type = 'click'").select("impression", f.col("time").alias("clicked"))
    follows = f.expr(f"id = impression and clicked >= shown and clicked <= shown + interval {click_s} seconds")
    return (
        shown.join(clicked, follows, "left_outer")
        .groupBy(f.window("shown", f"{window_s} seconds").alias("window"), "item")
        .agg(f.count(f.lit(1)).alias("impressions"), f.count("clicked").alias("clicks"))
        .select("item", f.col("window.start").alias("start"), "impressions", "clicks")
    )


def smoothed(counts: "DataFrame", prior_clicks: float, prior_impressions: float) -> "DataFrame":
    """With `rate`."""
    from pyspark.sql import functions as f

    rate = (f.col("clicks") + prior_clicks) / (f.col("impressions") + prior_impressions)
    return counts.withColumn("rate", f.round(rate, 6))


def run(spark: "SparkSession", config: Config, progress: Progress | None = None) -> Counted:
    """Reads what is there (or goes on, with `stream.every_s`) and writes the windows that are over.

    Raises:
        PipelineError: the table belongs to another checkpoint, or the rates cannot be produced.
    """
    sides = [
        streaming.activity(streaming.records(spark, config.source, config.stream), config.stream.late_s)
        for _ in range(2)
    ]
    found = counts(sides[0], sides[1], config.window_s, config.click_s)
    rates = smoothed(found, config.prior_clicks, config.prior_impressions)

    def tell(batch: Batch) -> None:
        from pyspark.sql import functions as f

        if config.rates is not None:
            # The newest window of an item last, since the last record of a key is what compaction keeps.
            in_order = replace(batch, rows=batch.rows.sort_by("start")).frame()
            told = in_order.withColumn("start", f.unix_timestamp("start"))
            rows = told.select(f.col("item").cast("string").alias("key"), f.to_json(f.struct("*")).alias("value"))
            config.rates.write(rows, batch.query_id, batch.number)

    if config.rates is not None:
        config.rates.create(COMPACTED)
    table = streaming.run(rates, config.stream, Path(config.table), progress or Progress("relevance_counts"), tell)
    if config.picture is not None:
        draw(table, Path(config.picture))
    rows = table.read()
    if rows is None:
        return Counted(0, 0, 0)
    totals = (sum(rows[name].to_pylist()) for name in ("impressions", "clicks"))
    return Counted(len(rows["item"].unique()), *totals)


def draw(table: "Results", path: Path) -> None:
    """A PNG: the rates of the most shown items over all windows, with the range that chance explains."""
    from ottla.pipelines.frame.picture import COLORS, drawing, legend_below

    rows = table.read()
    if rows is None:
        return
    totals: dict[int, list[int]] = {}
    for item, shown, clicked in zip(
        *(rows[name].to_pylist() for name in ("item", "impressions", "clicks")), strict=True
    ):
        entry = totals.setdefault(item, [0, 0])
        entry[0] += shown
        entry[1] += clicked
    items = sorted(totals, key=lambda item: -totals[item][0])[:ITEMS_SHOWN]
    rates = [totals[item][1] / totals[item][0] for item in items]
    errors = [2 * (rate * (1 - rate) / totals[item][0]) ** 0.5 for item, rate in zip(items, rates, strict=True)]
    overall = sum(clicks for _, clicks in totals.values()) / max(1, sum(shown for shown, _ in totals.values()))
    title = f"Click-through rates: {overall:.1%} of all impressions are clicked"
    with drawing(path, title, f"the {len(items)} most shown items, each with two standard errors") as axes:
        axes.errorbar(
            range(len(items)),
            rates,
            yerr=errors,
            fmt="o",
            color=COLORS[0],
            ecolor=COLORS[5],
            capsize=2,
            label="an item",
        )
        axes.axhline(overall, color=COLORS[2], lw=1, label="all items")
        axes.set_xticks(range(len(items)), [str(item) for item in items])
        axes.set_xlabel("item, the most shown first")
        axes.set_ylabel("clicks per impression")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.set_ylim(bottom=0)
        legend_below(axes)
