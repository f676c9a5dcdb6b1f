"""News feeds: what members do, in the feed of each who follows them, readable at once and in order.

A feed that is put together when it is looked at asks all whom a member follows; one that is written in advance is read
with one look. So each event of a member is written once for every follower, to a topic whose records have the follower
as key: all of a feed is in one partition.

That is cheap for most and absurd for some: who has a million followers would be a million records with every click.
A member with more than `followers_max` followers is a celebrity: no feed gets what they do. It goes once to the topic
`celebrities`, with the celebrity as key, and whoever shows a feed merges in what those celebrities did whom its member
follows: pulled at reading instead of pushed at writing. The cap is the most records that one event can become; it
moves work from the pipeline to the readers, and changes nothing about what a reader can see.

The value is the event as it was. In a feed the events of one member stand in the order of the log, and those of
different members by time as far as that allows: a micro-batch is merged, and later ones follow. Events are written once
even if they are in the log twice with the same `id`, at most `stream.late_s` apart.

Followers come from Parquet, with the columns `member` and `follower`, as it is when the pipeline starts. The join is a
broadcast one, so they must fit into memory; events are sorted a batch at a time, on disk if need be.

Feeds are exactly-once, for readers of committed records: whoever is killed leaves nothing twice and nothing out.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from ottla.pipelines.frame import between, streaming
from ottla.pipelines.frame.between import Target
from ottla.pipelines.frame.config import PipelineError, Positive, Source
from ottla.pipelines.frame.progress import Progress
from ottla.pipelines.frame.streaming import STREAM_EXAMPLE, Stream
from ottla.pipelines.tables.results import query_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXAMPLE = f"""\
followers = "followers.parquet" # a file or folder with the columns member and follower
followers_max = 1000            # who has more is not pushed to feeds, but pulled by their readers
types = ["click", "search"]     # which activity is news
feeds = "feeds"                 # the topics
celebrities = "celebrities"
picture = "feeds.png"           # may be left out

[target]
bootstrap = "127.0.0.1:9092"
partitions = 8                  # of topics that are not there yet

{STREAM_EXAMPLE.format(name="feeds")}"""
COLUMNS = "value binary, partition int, offset long, timestamp timestamp"
EVENT = "id long, type string, time long, member long"


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See `EXAMPLE`."""

    source: Source
    stream: Stream
    target: Target
    followers: str
    followers_max: Positive = 1000
    types: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = ("click", "search")
    feeds: str = "feeds"
    celebrities: str = "celebrities"
    picture: str | None = None

    def __post_init__(self) -> None:
        if self.feeds == self.celebrities:
            raise ValueError(f"feeds and celebrities are both {self.feeds!r}: readers could not tell them apart")
        both = set(self.source.topics) & {self.feeds, self.celebrities}
        if both and self.source.bootstrap == self.target.bootstrap:
            raise ValueError(f"source.topics has {min(both)!r}, which is written to: it would feed itself")


@dataclass(frozen=True, slots=True)
class Fed:
    """The events that a run has read, and the members that it knows. Members are those who have followers."""

    events: int
    members: int
    celebrities: int

    def __str__(self) -> str:
        return (
            f"{self.events:,} events read; {self.members:,} members have followers, "
            f"{self.celebrities:,} of them more than the cap"
        )


def audience(follows: "DataFrame", followers_max: int, slots: int, feeds: str, celebrities: str) -> "DataFrame":
    """Whom an event of each `member` is for: `topic` and `keys`, in `slots` parts by the follower, so that as many
    tasks can write at once and each feed is written by one.
    """
    from pyspark.sql import functions as f

    pairs = follows.select(f.col("member").cast("long"), f.col("follower").cast("string")).distinct()
    pairs = pairs.where("member is not null and follower is not null")
    # Counts of each member, without a second look at the pairs.
    slot = f.pmod(f.hash("follower"), f.lit(slots)).alias("slot")
    parts = pairs.groupBy("member", slot).agg(
        f.count(f.lit(1)).alias("here"), f.sort_array(f.collect_list("follower")).alias("keys")
    )
    totals = parts.groupBy("member").agg(f.sum("here").alias("followers"))
    pushed = parts.join(totals.where(f.col("followers") <= followers_max).select("member"), "member").select(
        "member", "slot", f.lit(feeds).alias("topic"), "keys"
    )
    pulled = totals.where(f.col("followers") > followers_max).select(
        "member",
        f.pmod(f.hash("member"), f.lit(slots)).alias("slot"),
        f.lit(celebrities).alias("topic"),
        f.array(f.col("member").cast("string")).alias("keys"),
    )
    return pushed.unionByName(pulled)


def news(records: "DataFrame", types: tuple[str, ...], late_s: float) -> "DataFrame":
    """Each event of these types once: `member`, `value` and where it stood in the log."""
    from pyspark.sql import functions as f

    event = f.from_json(f.col("value").cast("string"), EVENT)
    return (
        records.select("value", "partition", "offset", "timestamp", event.alias("event"))
        .select("*", "event.*")
        .where(f.col("type").isin(*types) & f.col("id").isNotNull() & f.col("member").isNotNull())
        .withColumn("time", f.timestamp_millis("time"))
        .where("time is not null")
        .withWatermark("time", f"{late_s} seconds")
        .dropDuplicatesWithinWatermark(["id"])
        .select("member", "value", "partition", "offset", "timestamp")
    )


def fanned_out(events: "DataFrame", audience: "DataFrame", slots: int) -> "DataFrame":
    """A row for each event of a batch and follower, in the order of each feed: `topic`, `key` and `value`.

    A late event would hold its place by its time only by overtaking those before it in its partition: it goes by the
    newest time that its partition had reached.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    reached = f.max("timestamp").over(Window.partitionBy("partition").orderBy("offset"))
    each_slot = events.withColumn("reached", reached).withColumn(
        "slot", f.explode(f.array(*(f.lit(slot) for slot in range(slots))))
    )
    # Sorted behind the join: before it, Spark takes a sort for useless.
    wanted = each_slot.repartitionById(slots, "slot").join(f.broadcast(audience), ["member", "slot"])
    ordered = wanted.sortWithinPartitions("reached", "partition", "offset")
    return ordered.select("topic", f.explode("keys").alias("key"), "value")


def run(spark: "SparkSession", config: Config, progress: Progress | None = None) -> Fed:
    """Reads what is there (or goes on, with `stream.every_s`) and writes it to the feeds.

    Raises:
        PipelineError: the followers or the topics cannot be had.
    """
    from pyspark.sql import functions as f

    if not Path(config.followers).exists():
        raise PipelineError(f"followers: there is nothing at {config.followers}")
    follows = spark.read.parquet(config.followers)
    if missing := {"member", "follower"} - set(follows.columns):
        raise PipelineError(f"followers: {config.followers} has no column {' and no '.join(sorted(missing))}")
    for topic in (config.feeds, config.celebrities):
        config.target.ensure(topic)
    slots = spark.sparkContext.defaultParallelism
    known = audience(follows, config.followers_max, slots, config.feeds, config.celebrities).persist()
    try:
        sizes = known.groupBy("member", "topic").agg(f.sum(f.size("keys")).alias("followers"))
        counts = sizes.toArrow().to_pylist()
        records = streaming.records(spark, config.source, config.stream, COLUMNS)

        def write(events: "DataFrame", batch: int) -> None:
            rows = fanned_out(events, known, slots)
            # A batch that is repeated after a crash is left out if it is there already.
            once = {"txnAppId": f"{query_id(checkpoint)}-feeds", "txnVersion": str(batch)}
            rows.write.format("ottla").mode("append").options(**config.target.writing(), **once).save()

        checkpoint = Path(config.stream.checkpoint).resolve()
        writer = news(records, config.types, config.stream.late_s).writeStream.foreachBatch(write)
        read = between.run(writer, config.stream, progress or Progress("newsfeed_fanout"))
    finally:
        known.unpersist()
    celebrities = sum(row["topic"] == config.celebrities for row in counts)
    if config.picture is not None:
        everyone = follows.select("member", "follower").distinct().groupBy("member").count()
        draw([row["count"] for row in everyone.toArrow().to_pylist()], config.followers_max, Path(config.picture))
    return Fed(read, len(counts), celebrities)


def draw(followers: list[int], followers_max: int, path: Path) -> None:
    """A PNG: how many followers members have, the most first, and what the cap saves."""
    from ottla.pipelines.frame.picture import COLORS, drawing, legend_below, logarithmic

    if not followers:
        return
    followers = sorted(followers, reverse=True)
    celebrities = sum(count > followers_max for count in followers)
    saved = sum(followers[:celebrities]) / sum(followers)
    title = f"{celebrities:,} of {len(followers):,} members have {saved:.0%} of all followers"
    with drawing(path, title, "followers by member, the most first; what celebrities do is pulled, not pushed") as axes:
        ranks = range(1, len(followers) + 1)
        axes.fill_between(ranks, followers, color=COLORS[0], alpha=0.25, lw=0)
        axes.plot(
            ranks[celebrities:],
            followers[celebrities:],
            color=COLORS[0],
            label="pushed into the feed of every follower",
        )
        if celebrities:
            axes.plot(
                ranks[:celebrities], followers[:celebrities], "o-", ms=3, color=COLORS[2], label="celebrities: pulled"
            )
        axes.axhline(followers_max, color=COLORS[2], lw=1, ls="--")
        axes.annotate(
            f"cap: {followers_max:,}", (len(followers), followers_max), ha="right", va="bottom", color=COLORS[2]
        )
        logarithmic(axes)
        axes.set_xlabel("members, the one with most followers first")
        axes.set_ylabel("followers")
        legend_below(axes)
