"""How services fare: requests, errors and latencies in windows of time, and alerts when they should worry somebody.

Operators look at rates and percentiles, not at requests; and the worst failure is the one that sends nothing at all.
Per service and window this counts requests and errors (status 500 and above) and finds the median and the 99th
percentile of latencies (exact up to 10,000 requests a window). An alert is raised once for each window

| kind         | when                                                                                        |
|--------------|---------------------------------------------------------------------------------------------|
| `errors`     | more than `limits.error_share` of at least `limits.requests_min` requests failed            |
| `slow`       | the 99th percentile is above `limits.p99_ms`, of at least `limits.requests_min` requests    |
| `no_data`    | a service that was there before has had no requests for `limits.no_data_s`, while others had |
| `data_again` | and when it is there again                                                                  |

Input is JSON of `ottla generate`, or what counts by itself, in counters that only grow: status snapshots of NGINX Plus
(a service is a server zone), or the metrics of Ottla's own brokers, which `ottla scrape` brings into a topic (a service
is an API, such as Produce, over all brokers; an error is any but those of a client's ordinary life). What is counted is
the difference between a window's first and last snapshot of each counter; one that fell has begun anew at 0.

Windows and alerts are exactly-once tables; alerts also go to a topic, each once for readers of committed records.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from ottla import errors
from ottla.pipelines.frame import streaming
from ottla.pipelines.frame.config import Positive, Source
from ottla.pipelines.frame.progress import Progress
from ottla.pipelines.frame.streaming import STREAM_EXAMPLE, Batch, Stream
from ottla.pipelines.frame.topic import Topic
from ottla.pipelines.tables.results import Results

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

EXAMPLE = f"""\
format = "activity"             # JSON of `ottla generate`; nginx_plus: status snapshots; ottla: of `ottla scrape`
table = "ops/windows"
alerts_table = "ops/alerts"
window_s = 60
picture = "ops.png"             # may be left out

[limits]
error_share = 0.05
p99_ms = 100
requests_min = 20
no_data_s = 300

[alerts]                        # may be left out
bootstrap = "127.0.0.1:9092"
topic = "alerts"

{STREAM_EXAMPLE.format(name="ops")}"""
SNAPSHOT = (
    "timestamp long, server_zones map<string, struct<requests: long, responses: struct<`5xx`: long>, discarded: long>>"
)
# Requests by API and version; errors by API. NONE is counted too, and the others that are no failure: nothing that a
# client would not do again, or would do otherwise.
METRIC = r"^kafka_network_requestmetrics_(requests|errors)_total\{([^}]*)\} (\S+)$"
LABEL_REQUEST, LABEL_ERROR = r'request="([^"]*)"', r'[{,]error="([^"]*)"'
ORDINARY = ("NONE", "REBALANCE_IN_PROGRESS", "MEMBER_ID_REQUIRED", "TOPIC_ALREADY_EXISTS", "FETCH_SESSION_ID_NOT_FOUND")
PERCENTILES = (0.5, 0.99)
LATENCIES = ("p50_ms", "p99_ms")
SERVICES_SHOWN = 6
# Of each kind of alert in the picture.
MARKS = {
    "errors": ("v", "#d1495b"), "slow": ("s", "#edae49"), "no_data": ("X", "#22303c"), "data_again": ("^", "#66a182"),
}  # fmt: skip


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When to raise alerts."""

    error_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.05
    p99_ms: Positive = 100
    requests_min: Positive = 20
    no_data_s: Positive = 300


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See `EXAMPLE`."""

    source: Source
    stream: Stream
    table: str
    alerts_table: str
    format: Literal["activity", "nginx_plus", "ottla"] = "activity"
    window_s: Positive = 60
    limits: Limits = Limits()
    alerts: Topic | None = None
    picture: str | None = None


class Alert(msgspec.Struct, frozen=True):
    """`value` is a share, milliseconds or seconds, by the kind; `start` is that of the window."""

    service: str
    start: datetime
    kind: str
    value: float


@dataclass(frozen=True, slots=True)
class Watched:
    """The contents of the tables after a run: windows, the requests in them, and alerts by kind."""

    windows: int
    requests: int
    alerts: dict[str, int]

    def __str__(self) -> str:
        told = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.alerts.items())) or "none"
        windows, requests = errors.counted(self.windows, "window"), errors.counted(self.requests, "request")
        return f"{windows} with {requests}; alerts: {told}"


def windows(events: "DataFrame", window_s: int) -> "DataFrame":
    """Per service and window with requests: `requests`, `errors`, `p50_ms`, `p99_ms`."""
    from pyspark.sql import functions as f

    latencies = f.percentile_approx("latency_ms", list(PERCENTILES), 10_000)
    return (
        events.groupBy(f.window("time", f"{window_s} seconds").alias("window"), "service")
        .agg(
            f.count(f.lit(1)).alias("requests"),
            f.count(f.when(f.col("status") >= 500, 1)).alias("errors"),
            latencies.alias("latencies"),
        )
        .select(
            "service",
            f.col("window.start").alias("start"),
            "requests",
            "errors",
            f.col("latencies")[0].cast("double").alias("p50_ms"),
            f.col("latencies")[1].cast("double").alias("p99_ms"),
        )
    )


def snapshots(values: "DataFrame", late_s: float) -> "DataFrame":
    """`time`, `service`, `counter`, and its `requests` and `errors`, of NGINX Plus."""
    from pyspark.sql import functions as f

    return (
        values.select(f.from_json(f.col("value").cast("string"), SNAPSHOT).alias("snapshot"))
        .select(f.timestamp_millis("snapshot.timestamp").alias("time"), f.explode("snapshot.server_zones"))
        .where("time is not null")
        .select(
            "time",
            f.col("key").alias("service"),
            f.lit("").alias("counter"),
            f.col("value.requests").alias("requests"),
            f.col("value.responses.5xx").alias("errors"),
        )
        .withWatermark("time", f"{late_s} seconds")
    )


def metrics(records: "DataFrame", late_s: float) -> "DataFrame":
    """The same of Ottla's brokers: records of `ottla scrape`, with `key` and `timestamp`."""
    from pyspark.sql import functions as f

    def part(expression: str, group: int = 1) -> "Column":
        return f.regexp_extract("line", expression, group)

    number = part(METRIC, 3).cast("double").cast("long")
    is_error = f.col("what") == "errors"
    return (
        records.select(
            f.col("timestamp").alias("time"),
            f.col("key").cast("string").alias("broker"),
            f.explode(f.split(f.col("value").cast("string"), "\n")).alias("line"),
        )
        .select("time", "broker", "line", part(METRIC).alias("what"), part(LABEL_ERROR).alias("error"))
        .where((f.col("what") != "") & ~f.col("error").isin(*ORDINARY))
        .select(
            "time",
            part(LABEL_REQUEST).alias("service"),
            f.concat_ws(" ", "broker", part(METRIC, 2)).alias("counter"),
            f.when(~is_error, number).otherwise(0).alias("requests"),
            f.when(is_error, number).otherwise(0).alias("errors"),
        )
        .withWatermark("time", f"{late_s} seconds")
    )


def counted(snapshots: "DataFrame", window_s: int) -> "DataFrame":
    """As `windows`, of counters."""
    from pyspark.sql import functions as f

    names = ("requests", "errors")
    ends = [
        end(name, "time").alias(f"{which}_{name}")
        for name in names
        for which, end in (("first", f.min_by), ("last", f.max_by))
    ]
    grown = [
        f.when(f.col(f"last_{name}") < f.col(f"first_{name}"), f.col(f"last_{name}"))
        .otherwise(f.col(f"last_{name}") - f.col(f"first_{name}"))
        .alias(name)
        for name in names
    ]
    window = f.window("time", f"{window_s} seconds").alias("window")
    nothing = f.lit(None).cast("double")
    return (
        snapshots.groupBy(window, "service", "counter")
        .agg(*ends)
        .select("window", "service", *grown)
        .groupBy(f.window("window", f"{window_s} seconds").alias("window"), "service")
        .agg(*(f.sum(name).alias(name) for name in names))
        .select("service", f.col("window.start").alias("start"), *names, *(nothing.alias(name) for name in LATENCIES))
    )


def alerts(
    rows: Iterable[dict[str, Any]], before: Iterable[dict[str, Any]], limits: Limits, window_s: int
) -> list[Alert]:
    """The alerts of some windows, given those `before` them; windows without requests count as no data."""
    ends: dict[str, datetime] = {}
    newest: datetime | None = None
    window, patience = timedelta(seconds=window_s), timedelta(seconds=limits.no_data_s)
    for row in before:
        newest = row["start"] if newest is None else max(newest, row["start"])
        if row["requests"]:
            ends[row["service"]] = max(row["start"] + window, ends.get(row["service"], row["start"] + window))
    silent = {service for service, end in ends.items() if newest is not None and newest - end >= patience}
    found = []
    in_order = sorted(rows, key=lambda row: (row["start"], row["service"]))
    for start, of in groupby(in_order, key=lambda row: row["start"]):
        active = [row for row in of if row["requests"]]
        there = {row["service"] for row in active}
        for service, end in sorted(ends.items()):
            if start - end >= patience and service not in silent | there:
                silent.add(service)
                found.append(Alert(service, start, "no_data", (start - end).total_seconds()))
        for row in active:
            service = row["service"]
            if service in silent:
                silent.remove(service)
                found.append(Alert(service, start, "data_again", (start - ends[service]).total_seconds()))
            ends[service] = start + window
            found += _of_window(row, limits)
    return found


def _of_window(row: dict[str, Any], limits: Limits) -> Iterator[Alert]:
    requests = row["requests"]
    if requests < limits.requests_min:
        return
    if (share := row["errors"] / requests) > limits.error_share:
        yield Alert(row["service"], row["start"], "errors", round(share, 4))
    if (row["p99_ms"] or 0) > limits.p99_ms:
        yield Alert(row["service"], row["start"], "slow", row["p99_ms"])


def run(spark: "SparkSession", config: Config, progress: Progress | None = None) -> Watched:
    """Reads what is there (or goes on, with `stream.every_s`) and writes the windows that are over.

    Raises:
        PipelineError: a table belongs to another checkpoint, or the alerts cannot be produced.
    """
    import pyarrow as pa

    columns = "key binary, value binary, timestamp timestamp" if config.format == "ottla" else "value binary"
    records = streaming.records(spark, config.source, config.stream, columns)
    late_s = config.stream.late_s
    if config.format == "activity":
        found = windows(streaming.activity(records, late_s), config.window_s)
    else:
        found = counted((metrics if config.format == "ottla" else snapshots)(records, late_s), config.window_s)
    table = Path(config.table)
    checkpoint = Path(config.stream.checkpoint).resolve()
    raised = Results(Path(config.alerts_table), checkpoint)
    needed = ["service", "start", "requests"]
    utc = pa.timestamp("us", tz="UTC")
    schema = pa.schema([("service", pa.string()), ("start", utc), ("kind", pa.string()), ("value", pa.float64())])

    def watch(batch: Batch) -> None:
        earlier = Results(table, checkpoint).read(before=batch.number)
        before = [] if earlier is None else earlier.select(needed).to_pylist()
        new = alerts(batch.rows.to_pylist(), before, config.limits, config.window_s)
        if not new:
            return
        if config.alerts is not None:
            told = pa.table(
                {"key": [each.service for each in new], "value": [msgspec.json.encode(each) for each in new]}
            )
            config.alerts.write(batch.spark.createDataFrame(told), batch.query_id, batch.number)
        rows = pa.Table.from_pylist([msgspec.structs.asdict(alert) for alert in new], schema=schema)
        raised.commit(batch.number, rows)

    if config.alerts is not None:
        config.alerts.create()
    written = streaming.run(found, config.stream, table, progress or Progress("ops_monitoring"), watch)
    if config.picture is not None:
        draw(written, raised, Path(config.picture))
    rows, told = written.read(), raised.read()
    kinds = [] if told is None else told["kind"].to_pylist()
    counts = {kind: kinds.count(kind) for kind in set(kinds)}
    return Watched(0, 0, counts) if rows is None else Watched(rows.num_rows, sum(rows["requests"].to_pylist()), counts)


def draw(table: Results, alerts: Results, path: Path) -> None:
    """A PNG: requests of each service over time, and a mark for each alert."""
    from ottla.pipelines.frame.picture import COLORS, grouped_number, legend_below, panels, shortened, time_axis

    rows, told = table.read(), alerts.read()
    if rows is None:
        return
    by_service: dict[str, list[tuple[datetime, int]]] = {}
    for row in rows.select(["service", "start", "requests"]).to_pylist():
        by_service.setdefault(row["service"], []).append((row["start"], row["requests"]))
    busiest = sorted(by_service, key=lambda service: -sum(count for _, count in by_service[service]))
    shown = busiest[:SERVICES_SHOWN]
    marks = [] if told is None else told.to_pylist()
    told_of = errors.counted(len(marks), "alert") if marks else "no alerts"
    title = f"Requests of {errors.counted(len(busiest), 'service')}, and {told_of}"
    named = "each service" if len(shown) == len(busiest) else f"the {len(shown)} busiest services"
    kinds = [kind for kind in MARKS if any(mark["kind"] == kind for mark in marks)]
    with panels(
        path, title, f"requests of {named} by window", count=len(shown), height=1.6 + 1.5 * max(2, len(shown))
    ) as axes:
        for service, panel in zip(shown, axes, strict=True):
            points = dict(sorted(by_service[service]))
            peak = max(points.values())
            panel.plot(list(points), list(points.values()), color=COLORS[0], lw=1.2)
            own = [kind for kind in kinds if any((each["service"], each["kind"]) == (service, kind) for each in marks)]
            # Above all that is drawn, each kind at a height of its own.
            for level, kind in enumerate(own):
                marker, color = MARKS[kind]
                at = [mark["start"] for mark in marks if (mark["service"], mark["kind"]) == (service, kind)]
                height = peak * (1.2 + 0.22 * level)
                panel.scatter(at, [height] * len(at), marker=marker, s=40, color=color, lw=0, label=f"alert: {kind}")
            panel.set_ylim(0, max(1, peak * (1.1 + 0.22 * len(own))))
            panel.set_ylabel(shortened(service, 20), rotation=0, ha="right", va="center")
            panel.yaxis.get_major_locator().set_params(nbins=3, integer=True)
            panel.yaxis.set_major_formatter(grouped_number)
            panel.sharex(axes[-1])
        for panel in axes[:-1]:
            panel.tick_params(labelbottom=False)
        time_axis(axes[-1], "start of the window")
        if kinds:
            legend_below(*axes)
