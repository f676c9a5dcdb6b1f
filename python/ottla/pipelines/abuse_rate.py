"""Who asks too much: request rates of each client over ten seconds, a minute and an hour, and a verdict.

Crawlers, scrapers and broken scripts cost more than people do, and look like people in any single request. What gives
them away is how fast they ask, for how many different pages, and what they say of themselves. This pipeline counts
requests per client in windows of 10 s, one each 5 s, combines those into minutes, one each 20 s, and those into hours
(three chained aggregations over one pass of the stream; distinct pages are sketches that are merged, within about 2 %),
and scores each client and hour:

| sign                                                         | score |
|--------------------------------------------------------------|-------|
| more than `limits.per_10_s` requests in some 10 s            | 0.3   |
| more than `limits.per_minute` in some minute                 | 0.3   |
| more than `limits.per_hour` in the hour                      | 0.2   |
| at least 20 requests, four fifths of them different pages    | 0.2   |
| asked for /robots.txt, which browsers never do               | 0.3   |
| calls itself a bot, crawler, spider, or is a library or tool | 0.3   |

From 0.5 the verdict is "crawler", from 0.3 "suspect", below "normal". All go to the table, those that are not normal
to a topic too, with the client as key. A verdict falls when its hour is over and late events can no longer change it;
`window_s` can be smaller than an hour where that is too late (`limits.per_hour` is then that of the window), and with
`slide_s` an hour is judged each so many seconds.

Table and topic are exactly-once, the topic for readers of committed records.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ottla.errors import counted
from ottla.pipelines.frame import streaming
from ottla.pipelines.frame.config import Positive, Source
from ottla.pipelines.frame.progress import Progress
from ottla.pipelines.frame.streaming import STREAM_EXAMPLE, Batch, Format, Stream
from ottla.pipelines.frame.topic import Topic

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from ottla.pipelines.tables.results import Results

EXAMPLE = f"""\
format = "activity"             # activity (JSON of `ottla generate`) or access_log
table = "abuse/clients"
window_s = 3600                 # a multiple of 60
slide_s = 3600                  # an hour is judged each so many seconds: a multiple of 20, window_s unless given
picture = "abuse.png"           # may be left out

[limits]                        # more requests than these are a sign
per_10_s = 20
per_minute = 60
per_hour = 400

[verdicts]                      # may be left out
bootstrap = "127.0.0.1:9092"
topic = "verdicts"

{STREAM_EXAMPLE.format(name="abuse")}"""
SHORT_S, MIDDLE_S = 10, 60
SHORT_SLIDE_S, MIDDLE_SLIDE_S = 5, 20
CRAWLER, SUSPECT = 0.5, 0.3
PAGES_REQUESTS_MIN = 20
AGENT = r"(?i)bot|crawl|spider|slurp|feed|rss|curl|wget|python|java/|libwww|httpclient|scan|monitor"


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Requests; more are a sign."""

    per_10_s: Positive = 20
    per_minute: Positive = 60
    per_hour: Positive = 400


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See `EXAMPLE`."""

    source: Source
    stream: Stream
    table: str
    format: Format = "activity"
    window_s: Positive = 3600
    slide_s: Positive | None = None
    limits: Limits = Limits()
    verdicts: Topic | None = None
    picture: str | None = None

    def __post_init__(self) -> None:
        if self.window_s % MIDDLE_S:
            raise ValueError(f"window_s is {self.window_s}; it is a multiple of {MIDDLE_S}")
        if self.slide_s is not None and (self.slide_s % MIDDLE_SLIDE_S or self.window_s % self.slide_s):
            raise ValueError(
                f"slide_s is {self.slide_s}; it is a multiple of {MIDDLE_SLIDE_S} that window_s ({self.window_s}) is "
                "a multiple of"
            )


@dataclass(frozen=True, slots=True)
class Judged:
    """The clients in the table after a run, counted by their worst verdict."""

    crawlers: int
    suspects: int
    clients: int

    @property
    def found(self) -> str:
        """Those that are not normal, for people."""
        return f"{counted(self.crawlers, 'crawler')} and {counted(self.suspects, 'suspect')}"

    def __str__(self) -> str:
        return f"{self.found} among {counted(self.clients, 'client')}"


def rates(requests: "DataFrame", window_s: int, slide_s: int | None = None) -> "DataFrame":
    """Per client and window: `requests`, `errors`, `peak_10_s`, `peak_minute`, `pages`, `robots`, `declared`.

    Windows slide, so that no burst hides between two of them; a short one belongs to the longer ones in which it ends.
    Of all windows that a request is in, the one that ends first hands it on: so each request counts once in the next
    longer windows, whatever they are.
    """
    from pyspark.sql import functions as f

    counts = ("requests", "errors", "robots", "declared")

    def windows(seconds: int, slide_s: int, of: str) -> "Column":
        return f.window(of, f"{seconds} seconds", f"{slide_s} seconds").alias("window")

    def newest(slide_s: int) -> "Column":
        return f.col("over.end") - f.make_dt_interval(secs=f.lit(slide_s))

    def longer(frame: "DataFrame", seconds: int, slide_s: int, *peaks: str, is_last: bool = False) -> "DataFrame":
        hands_on = f.lit(is_last) | (f.col("window.end") > newest(slide_s))
        return (
            frame.withColumn("over", windows(seconds, slide_s, "window"))
            .groupBy("over", "client")
            .agg(
                f.sum("requests").alias("all"),
                *(f.sum(f.when(hands_on, f.col(name)).otherwise(0)).alias(name) for name in counts),
                *(f.max(f.when(hands_on, f.col(name))).alias(name) for name in peaks),
                f.hll_union_agg(f.when(hands_on, f.col("pages"))).alias("pages"),
            )
            .withColumnRenamed("over", "window")
        )

    agent = f.col("agent") if "agent" in requests.columns else f.lit("")
    signs = {
        "requests": f.lit(True),
        "errors": f.col("status") >= 400,
        "robots": f.col("page") == "/robots.txt",
        "declared": agent.rlike(AGENT),
    }
    hands_on = f.col("time") >= newest(SHORT_SLIDE_S)
    short = (
        requests.withColumn("over", windows(SHORT_S, SHORT_SLIDE_S, "time"))
        .groupBy("over", "client")
        .agg(
            f.count(f.lit(1)).alias("peak_10_s"),
            *(f.count(f.when(hands_on & sign, 1)).alias(name) for name, sign in signs.items()),
            f.hll_sketch_agg(f.when(hands_on, f.coalesce("page", f.lit("")))).alias("pages"),
        )
        .withColumnRenamed("over", "window")
    )
    middle = longer(short, MIDDLE_S, MIDDLE_SLIDE_S, "peak_10_s").withColumnRenamed("all", "peak_minute")
    whole = longer(middle, window_s, slide_s or window_s, "peak_10_s", "peak_minute", is_last=True)
    # A minute that ends in a window may have all its requests in the one before.
    return whole.where("all > 0").select(
        "client",
        f.col("window.start").alias("start"),
        f.col("all").alias("requests"),
        "errors",
        "peak_10_s",
        "peak_minute",
        f.hll_sketch_estimate("pages").alias("pages"),
        "robots",
        "declared",
    )


def scored(rates: "DataFrame", limits: Limits) -> "DataFrame":
    """With `score` and `verdict`."""
    from pyspark.sql import functions as f

    def sign(condition: "Column", worth: float) -> "Column":
        return f.when(condition, worth).otherwise(0.0)

    count = f.col("requests")
    score = (
        sign(f.col("peak_10_s") > limits.per_10_s, 0.3)
        + sign(f.col("peak_minute") > limits.per_minute, 0.3)
        + sign(count > limits.per_hour, 0.2)
        + sign((count >= PAGES_REQUESTS_MIN) & (f.col("pages") >= 0.8 * count), 0.2)
        + sign(f.col("robots") > 0, 0.3)
        + sign(f.col("declared") > 0, 0.3)
    )
    rounded = f.round(f.least(score, f.lit(1.0)), 2)
    verdict = f.when(rounded >= CRAWLER, "crawler").when(rounded >= SUSPECT, "suspect").otherwise("normal")
    return rates.withColumn("score", rounded).withColumn("verdict", verdict)


def run(spark: "SparkSession", config: Config, progress: Progress | None = None) -> Judged:
    """Reads what is there (or goes on, with `stream.every_s`) and judges the windows that are over.

    Raises:
        PipelineError: the table belongs to another checkpoint, or the verdicts cannot be produced.
    """
    values = streaming.records(spark, config.source, config.stream)
    read = streaming.activity if config.format == "activity" else streaming.requests
    found = scored(rates(read(values, config.stream.late_s), config.window_s, config.slide_s), config.limits)

    def tell(batch: Batch) -> None:
        from pyspark.sql import functions as f

        if config.verdicts is not None:
            told = batch.frame().where("verdict != 'normal'").withColumn("start", f.unix_timestamp("start"))
            rows = told.select(f.col("client").alias("key"), f.to_json(f.struct("*")).alias("value"))
            config.verdicts.write(rows, batch.query_id, batch.number)

    if config.verdicts is not None:
        config.verdicts.create()
    table = streaming.run(found, config.stream, Path(config.table), progress or Progress("abuse_rate"), tell)
    if config.picture is not None:
        draw(table, Path(config.picture))
    return _judged(table)


def _judged(table: "Results") -> Judged:
    worst: dict[str, float] = {}
    rows = table.read()
    if rows is not None:
        for client, score in zip(rows["client"].to_pylist(), rows["score"].to_pylist(), strict=True):
            worst[client] = max(score, worst.get(client, 0))
    crawlers = sum(score >= CRAWLER for score in worst.values())
    return Judged(crawlers, sum(score >= SUSPECT for score in worst.values()) - crawlers, len(worst))


def draw(table: "Results", path: Path) -> None:
    """A PNG: clients by their requests and their fastest minute, for each verdict."""
    import numpy as np

    from ottla.pipelines.frame.picture import COLORS, logarithmic, panels

    rows = table.read()
    if rows is None:
        return
    colors = {"normal": COLORS[0], "suspect": COLORS[3], "crawler": COLORS[2]}
    verdicts = np.array(rows["verdict"].to_pylist())
    places = np.stack([rows["requests"].to_numpy(), rows["peak_minute"].to_numpy()], axis=1)
    judged = _judged(table)
    # One below the other: clients of different verdicts may ask for as much.
    given = [verdict for verdict in colors if verdict in verdicts]
    with panels(
        path,
        f"Request rates of {counted(judged.clients, 'client')}: {judged.found}",
        "clients in a window; the larger a dot, the more of them are there",
        count=len(given),
        height=1.6 + 2.2 * len(given),
    ) as axes:
        for verdict, panel in zip(given, axes, strict=True):
            at, counts = np.unique(places[verdicts == verdict], axis=0, return_counts=True)
            panel.scatter(*at.T, s=20 * (1 + np.log2(counts)), alpha=0.7, lw=0, color=colors[verdict])
            panel.set_title(f"{verdict}: {counts.sum():,}", loc="right", fontsize=13, color=colors[verdict])
            panel.set_ylabel("in its busiest\nminute")
            panel.set_ylim(0.6, 2 * places[:, 1].max())
            panel.set_xlim(0.8, 1.4 * places[:, 0].max())
            logarithmic(panel)
        for panel in axes[:-1]:
            panel.tick_params(labelbottom=False)
        axes[-1].set_xlabel("requests in the window")
