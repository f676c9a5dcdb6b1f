"""Topics in another cluster: a copy, or that part of it which may go there in the form in which it may.

Another site, another department, a test system: they want the records, but not all of them, or not with everything in
them. A mirror that is killed must neither lose nor repeat; one that changes the order of records breaks every reader
that builds state by key; and two that face each other must not send everything to and fro for ever. Here

- keys, timestamps, headers and values without a value (deletions) are kept, and so is the order within a partition:
  one task reads all that a batch has of a partition, and writes it in that order;
- with `partitioning = "same"` each record goes to the partition of the number it came from, and the target must have as
  many; with "key" it goes where its key belongs among the target's, and records of one key keep their order;
- every copy is written once, for readers of committed records (`ottla.spark.sink`), and only committed ones are copied;
- each copy has one header more, `ottla.mirror.from`, with the name of the cluster that it came from. Records that have
  been in the target already, by any way, have its name in one of them, and are left out: mirrors may face each other,
  or go in circles, as long as each cluster has one name everywhere.

`where`, `key` and `value` are expressions of Spark's SQL over the columns `key`, `value`, `topic`, `partition`,
`offset`, `timestamp`, `headers`, and `text`, the value as a string; e.g. `get_json_object(text, '$.type') = 'click'`.
Topics that are not there are made, with as many partitions as at the source and its settings about how long records
are kept. Offsets are not kept: what is left out leaves no gap.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from ottla.client import Admin, Cluster
from ottla.pipelines.frame import between, streaming
from ottla.pipelines.frame.between import Target
from ottla.pipelines.frame.clients import ask
from ottla.pipelines.frame.config import PipelineError, Source
from ottla.pipelines.frame.progress import Progress
from ottla.pipelines.frame.streaming import Stream
from ottla.spark.filters import Wanted
from ottla.spark.options import parse
from ottla.spark.places import place

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

EXAMPLE = """\
source_name = "east"            # of the clusters, for the header that keeps records from going in circles
target_name = "west"
rename = "{topic}"              # the target's topics: {topic} and {source} stand for names
partitioning = "same"           # same, or key
where = "get_json_object(text, '$.type') = 'click'"    # may be left out: all
value = "regexp_replace(text, '\\"client\\":\\"[^\\"]*\\",', '')"    # may be left out: as it is; so may key
picture = "mirror.png"          # may be left out

[source]
bootstrap = "127.0.0.1:9092"    # or path = "DATA_DIRECTORY" to read log files
topics = ["activity"]

[target]
bootstrap = "127.0.0.1:9093"

[stream]
checkpoint = "mirror/checkpoint"
records_per_batch = 1_000_000
every_s = 0                     # a batch every so many seconds; 0: end when all is read
"""
HEADER = "ottla.mirror.from"
COLUMNS = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>"
)
READING = {"includeHeaders": "true", "splitPartitions": "false", "kafka.isolation.level": "read_committed"}
# Of a topic's settings, those about its records rather than about its cluster.
KEPT_SETTINGS = (
    "cleanup.policy", "compression.type", "delete.retention.ms", "max.compaction.lag.ms", "max.message.bytes",
    "min.compaction.lag.ms", "retention.bytes", "retention.ms",
)  # fmt: skip
TIMES = "message.timestamp.type"
NAME = r"^[A-Za-z0-9._-]+$"
ClusterName = Annotated[str, msgspec.Meta(pattern=NAME)]


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See `EXAMPLE`."""

    source: Source
    stream: Stream
    target: Target
    source_name: ClusterName
    target_name: ClusterName
    rename: str = "{topic}"
    partitioning: Literal["same", "key"] = "same"
    where: str | None = None
    key: str | None = None
    value: str | None = None
    picture: str | None = None

    def __post_init__(self) -> None:
        if self.source_name == self.target_name:
            raise ValueError(f"source_name and target_name are both {self.source_name!r}: nothing would be copied")
        names = self.renamed()
        if len(set(names.values())) < len(names):
            raise ValueError(f"rename = {self.rename!r} gives several topics one name: put {{topic}} into it")
        if bad := [name for name in names.values() if not re.fullmatch(NAME, name)]:
            raise ValueError(f"rename = {self.rename!r} gives {bad[0]!r}, which no topic can be called")
        if self.source.bootstrap == self.target.bootstrap and set(names) & set(names.values()):
            raise ValueError("source and target are the same topics of the same brokers: set rename, or another target")
        if set(self.source.options) & {"minPartitions", "maxRecordsPerPartition", "splitPartitions"}:
            raise ValueError("source.options would split partitions between tasks, which loses their order")

    def renamed(self) -> dict[str, str]:
        """The target's topic for each of the source's."""
        return {
            topic: self.rename.replace("{topic}", topic).replace("{source}", self.source_name)
            for topic in self.source.topics
        }


@dataclass(slots=True)
class Mirrored:
    """The work of this run: records read, and those not copied, because they had been in the target or because of
    `where`. `batches` are (copied, returned, filtered).
    """

    records: int = 0
    returned: int = 0
    filtered: int = 0
    batches: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def copied(self) -> int:
        """Records that were written."""
        return self.records - self.returned - self.filtered

    def __str__(self) -> str:
        return (
            f"{self.copied:,} records copied of {self.records:,}; {self.returned:,} had come from there, "
            f"{self.filtered:,} were not wanted"
        )

    def add(self, report: Mapping[str, Any]) -> None:
        """Spark's report of a batch."""
        found = report["observedMetrics"].get("mirror")
        if found is not None:
            self.records += found["records"]
            self.returned += found["returned"]
            self.filtered += found["filtered"]
            copied = found["records"] - found["returned"] - found["filtered"]
            self.batches.append((copied, found["returned"], found["filtered"]))


def transformed(records: "DataFrame", config: Config) -> "DataFrame":
    """The rows to be written of these records, with the columns of the sink.

    Raises:
        PipelineError: an expression cannot be understood.
    """
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql import functions as f

    def understood(name: str, text: str, types: tuple[str, ...]) -> "Column":
        column = f.expr(text)
        try:
            found = records.select(column.alias("it")).schema["it"].dataType.simpleString()
        except (AnalysisException, ParseException) as problem:
            said = (problem.getMessage() or str(problem)).strip().splitlines()
            raise PipelineError(f"{name} = {text!r}: {' '.join(said[0].split())}") from None
        if found not in types:
            raise PipelineError(f"{name} = {text!r} gives {found}; it must give {' or '.join(types)}")
        return column

    records = records.withColumn("text", f.col("value").cast("string"))
    is_wanted = f.lit(True) if config.where is None else understood("where", config.where, ("boolean",))
    key = f.col("key") if config.key is None else understood("key", config.key, ("string", "binary"))
    value = f.col("value") if config.value is None else understood("value", config.value, ("string", "binary"))
    target = f.lit(config.target_name.encode())
    has_been_there = f.exists("headers", lambda each: (each["key"] == HEADER) & (each["value"] == target))
    judged = records.withColumn("returned", f.coalesce(has_been_there, f.lit(False)))
    judged = judged.withColumn("filtered", ~f.col("returned") & ~f.coalesce(is_wanted, f.lit(False)))
    counted = judged.observe(
        "mirror",
        f.count(f.lit(1)).alias("records"),
        f.count_if("returned").alias("returned"),
        f.count_if("filtered").alias("filtered"),
    )
    own = f.struct(f.lit(HEADER).alias("key"), f.lit(config.source_name.encode()).alias("value"))
    names = f.create_map(*(f.lit(name) for pair in config.renamed().items() for name in pair))
    columns = [
        names[f.col("topic")].alias("topic"),
        key.alias("key"),
        value.alias("value"),
        f.concat(f.coalesce("headers", f.array().cast("array<struct<key:string,value:binary>>")), f.array(own)).alias(
            "headers"
        ),
        f.col("timestamp"),
    ]
    if config.partitioning == "same":
        columns.append(f.col("partition"))
    return counted.where("not returned and not filtered").select(*columns)


def prepare(config: Config) -> None:
    """Makes the target's topics ready.

    Raises:
        PipelineError: they cannot be had, have another number of partitions, or times of their own.
    """
    reading = parse(config.source.reading())
    counts: dict[str, int] = {}
    for each in place(reading).resolve(reading, Wanted()):
        counts[each.partition.topic] = max(counts.get(each.partition.topic, 0), each.partition.partition + 1)
    for topic, name in config.renamed().items():
        source, target = config.source, config.target
        given = {} if source.bootstrap is None else _settings(source.bootstrap, source.options, topic)
        kept = {setting: value for setting, value in given.items() if setting in KEPT_SETTINGS}
        partitions = counts.get(topic, 1)
        wanted = partitions if config.partitioning == "same" or target.partitions < 0 else None
        there = target.ensure(name, wanted, {**kept, TIMES: "CreateTime"})
        if config.partitioning == "same" and there != partitions:
            raise PipelineError(
                f"{topic} has {partitions} partitions, {name} at the target has {there}: give it as many, or say "
                'partitioning = "key"'
            )
        if _settings(target.bootstrap, target.options, name, is_all=True).get(TIMES) == "LogAppendTime":
            raise PipelineError(
                f"{name} at the target has {TIMES}=LogAppendTime, "
                "which would replace the records' times: let it be CreateTime"
            )


def _settings(bootstrap: str, options: Mapping[str, str], topic: str, *, is_all: bool = False) -> dict[str, str]:
    """A topic's settings: those of its own, or all that hold for it."""

    async def describe(cluster: Cluster) -> dict[str, str]:
        found = await Admin(cluster).describe_settings(topic)
        return {each.name: each.value for each in found if each.value is not None and (is_all or each.source == 1)}

    return ask(f"cannot ask {bootstrap} about topic {topic!r}", bootstrap, options, describe)


def run(spark: "SparkSession", config: Config, progress: Progress | None = None) -> Mirrored:
    """Copies what is there and not yet copied (or goes on, with `stream.every_s`).

    Raises:
        PipelineError: an expression cannot be understood, or the target's topics do not fit.
    """
    source = msgspec.structs.replace(config.source, options=READING | config.source.options)
    records = streaming.records(spark, source, config.stream, COLUMNS)
    copies = transformed(records, config)
    prepare(config)
    mirrored = Mirrored()
    writing = {**config.target.writing(), "includeTimestamp": "true"}
    writer = between.into_topics(copies, writing)
    between.run(writer, config.stream, progress or Progress("mirror_transform"), mirrored.add)
    if config.picture is not None:
        draw(mirrored, config, Path(config.picture))
    return mirrored


def draw(mirrored: Mirrored, config: Config, path: Path) -> None:
    """A PNG: what became of the records of each batch of this run."""
    from ottla.pipelines.frame.picture import COLORS, drawing, grouped_number, legend_below

    batches = [batch for batch in mirrored.batches if any(batch)]
    if not batches:
        return
    numbers = range(1, len(batches) + 1)
    title = (
        f"{mirrored.copied:,} of {mirrored.records:,} records copied from {config.source_name} to {config.target_name}"
    )
    below = [0] * len(batches)
    with drawing(path, title, "what became of the records that each batch of this run read") as axes:
        labels = ("copied", f"had come from {config.target_name}", "not wanted")
        for place_, (label, color) in enumerate(zip(labels, (COLORS[0], COLORS[2], COLORS[5]), strict=True)):
            heights = [batch[place_] for batch in batches]
            if any(heights):
                axes.bar(numbers, heights, bottom=below, color=color, label=f"{label}: {sum(heights):,}")
            below = [low + height for low, height in zip(below, heights, strict=True)]
        axes.set_xlim(0.4, len(batches) + 0.6)
        axes.xaxis.get_major_locator().set_params(integer=True, nbins=12)
        axes.set_xlabel("batch")
        axes.set_ylabel("records")
        axes.yaxis.set_major_formatter(grouped_number)
        legend_below(axes)
