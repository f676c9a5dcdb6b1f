"""The audit span by span, on the driver."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from ottla.client import TopicPartition
from ottla.pipelines.audit import counts
from ottla.pipelines.audit.report import Audited, Report, compared, draw, sentence
from ottla.pipelines.audit.warehouse import Loaded, Warehouse
from ottla.pipelines.frame.config import PipelineError, Positive, Source
from ottla.pipelines.frame.progress import Progress
from ottla.pipelines.tables import only_loader
from ottla.spark.filters import Wanted
from ottla.spark.options import parse
from ottla.spark.places import place
from ottla.spark.planning import Range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = """\
table = "audit/report"
window_s = 600
span_s = 3600                   # windows that are audited at once, together so long
late_s = 1800                   # a window is audited so much later, with what has arrived by then
every_s = 0                     # look again after so many seconds; 0: end when all is audited
id = "id"                       # the field of JSON values that tells records apart; "" takes the whole value
producer = "service"            # the field that names who produced the record; may be left out
picture = "audit.png"           # may be left out

[source]                        # the topics that are audited
bootstrap = "127.0.0.1:9092"    # or path = "DATA_DIRECTORY" to read log files
topics = ["activity"]

[tallies]                       # what producers say that they produced
bootstrap = "127.0.0.1:9092"
topics = ["tallies"]

[warehouse]                     # what warehouse_load writes; may be left out
location = "warehouse/activity"
format = "parquet"
"""
TOLD_MAX = 10


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See `EXAMPLE`."""

    source: Source
    tallies: Source
    table: str
    warehouse: Warehouse | None = None
    window_s: Positive = 600
    span_s: Positive = 3600
    late_s: Annotated[float, msgspec.Meta(ge=0)] = 1800
    every_s: Annotated[float, msgspec.Meta(ge=0)] = 0
    id: str = "id"
    producer: str | None = None
    picture: str | None = None

    def __post_init__(self) -> None:
        if self.span_s % self.window_s:
            raise ValueError(f"span_s is {self.span_s}; it is a multiple of window_s, {self.window_s}")


def run(spark: "SparkSession", config: Config, progress: Progress | None = None) -> Audited:
    """Audits the windows that are over and not yet in the report; with `every_s`, goes on until interrupted.

    Raises:
        PipelineError: nobody has reported what was produced, there is no warehouse, or the report is another audit's.
        KafkaError, OSError: brokers or files cannot be read.
    """
    progress = progress or Progress("audit")
    location = Path(config.table)
    with only_loader(location):
        report = Report(location, config.window_s * 1000)
        while True:
            _pass(spark, config, report, progress)
            if not config.every_s:
                break
            time.sleep(config.every_s)
    if config.picture is not None:
        draw(report, Path(config.picture))
    return report.audited()


def _pass(spark: "SparkSession", config: Config, report: Report, progress: Progress) -> None:
    """Audits all spans that can be audited now."""
    window_ms, span_ms, late_ms = config.window_s * 1000, config.span_s * 1000, round(config.late_s * 1000)
    over_ms = (round(time.time() * 1000) - late_ms) // window_ms * window_ms
    produced = counts.produced(spark, config.tallies.reading(), window_ms, config.producer is not None)
    produced = {key: value for key, value in produced.items() if key[0] in config.source.topics}
    start_ms = report.end_ms()
    if start_ms is None:
        if not produced:
            raise PipelineError(
                f"nobody says in {', '.join(config.tallies.topics)} what was produced to "
                f"{', '.join(config.source.topics)}: let the producers do so (ottla.pipelines.audit.Tally)"
            )
        start_ms = min(window for *_, window in produced)
    last_ms = max((window for *_, window in produced), default=start_ms)
    loaded = None
    while start_ms < over_ms:
        # Spans begin at multiples of their length, so that each has few of the warehouse's hours.
        end_ms = min((start_ms // span_ms + 1) * span_ms, over_ms)
        ranges = _ranges(config, start_ms, end_ms + late_ms)
        if not any(each.offsets for each in ranges) and start_ms > last_ms:
            return
        if config.warehouse is not None:
            loaded = loaded or config.warehouse.look(each.partition for each in ranges)
            if (behind := _behind(ranges, loaded)) is not None:
                progress.note(
                    f"waits at {counts.shown(start_ms)}: the warehouse has not loaded {behind} up to then yet"
                )
                return
        mine = {key: value for key, value in produced.items() if start_ms <= key[2] < end_ms}
        _span(spark, config, report, progress, mine, ranges, loaded, start_ms, end_ms)
        start_ms = end_ms


def _ranges(config: Config, start_ms: int, end_ms: int) -> list[Range]:
    """Where the records of this time are in the log, as of the time when they had to have arrived."""
    reading = config.source.reading() | {
        "startingTimestamp": str(start_ms),
        "startingOffsetsByTimestampStrategy": "latest",
        "endingTimestamp": str(end_ms),
    }
    options = parse(reading)
    return place(options).resolve(options, Wanted())


def _behind(ranges: list[Range], loaded: Loaded) -> TopicPartition | None:
    """A partition of which the table does not have all records of the ranges."""
    for each in ranges:
        if each.offsets and loaded.position.offsets.get(each.partition, 0) < each.end:
            return each.partition
    return None


def _span(
    spark: "SparkSession",
    config: Config,
    report: Report,
    progress: Progress,
    produced: dict[counts.Key, tuple[int, int]],
    ranges: list[Range],
    loaded: Loaded | None,
    start_ms: int,
    end_ms: int,
) -> None:
    number = report.spans() + 1
    progress.begins(number, sum(each.offsets for each in ranges))
    log = counts.in_log(spark, config.source, ranges, config.id, config.producer)
    table = None
    for topic in config.source.topics if loaded is not None else ():
        files = loaded.of(topic, start_ms, end_ms) if loaded is not None else []
        if files and loaded is not None:
            part = counts.in_table(spark, topic, files, loaded.schema, config.id, config.producer)
            table = part if table is None else table.unionByName(part)
    if table is not None:
        table = counts.before(table, {each.partition: each.end for each in ranges})
    rows = counts.counted(log, table, start_ms, end_ms, config.window_s * 1000).toArrow().to_pylist()
    report.add(start_ms, end_ms, found := compared(produced, rows, has_table=loaded is not None))
    wrong = sorted(found, key=lambda row: -row["broker_missing"] - (row["warehouse_missing"] or 0))
    for text in [text for row in wrong if (text := sentence(row))][:TOLD_MAX]:
        progress.note(text)
    progress.done(number, sum(row["broker"] for row in found), f"up to {counts.shown(end_ms)}")
