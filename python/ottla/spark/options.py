"""The options of `spark.read.format("ottla")`: those of Spark's Kafka source by its names, and a few of our own.

Spark gives options in a dictionary with lower-case keys. What Spark's Kafka source refuses is refused here in similar
words; an option that it silently ignores is a warning, or an error with the nearest name where it looks misspelt.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ottla.kafka import INTERNAL_TOPICS
from ottla.reading import options as reading
from ottla.reading.layout import Layout
from ottla.reading.options import Advice
from ottla.reading.topics import Topics
from ottla.spark.given import SINK_TOPIC, choice, flag, lower, number, refuse_unknown, security
from ottla.spark.limits import Use, parse_assignment, parse_limit
from ottla.spark.schema import layout

log = logging.getLogger(__name__)

# Those about triggers concern streams alone; a batch accepts them, as Spark's source does.
OPTIONS = (
    "subscribe", "subscribePattern", "assign", "path", "upTo", "pushdown", "corruptBatches", "corruptReport",
    "columns", "isolation.level", "verifyCrc", "timestamps", "commitGroup",
    "startingOffsets", "endingOffsets", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp",
    "startingTimestamp", "endingTimestamp", "startingOffsetsByTimestampStrategy",
    "failOnDataLoss", "minPartitions", "maxRecordsPerPartition", "splitPartitions", "includeHeaders",
    "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "groupIdPrefix",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
)  # fmt: skip
STRATEGIES = ("assign", "subscribe", "subscribePattern")

# Of Kafka's consumer settings, those that cannot mean here what they say. Others are used (see `parse`), or concern
# groups or the Java client's inner life and are accepted, since `kafka.*` options are often copied between jobs.
REFUSED_SETTINGS = {
    "auto.offset.reset": "set the option startingOffsets to earliest or latest instead, which holds for new queries; "
    "others go on where they were",
    "key.deserializer": "keys are deserialized as byte arrays; convert them with DataFrame operations",
    "value.deserializer": "values are deserialized as byte arrays; convert them with DataFrame operations",
    "enable.auto.commit": "this source commits no offsets",
    "interceptor.classes": "there is no Java consumer here to intercept",
}

# How long the driver waits for brokers, fetchOffset.numRetries times over.
API_TIMEOUT_MS = 20_000

# The units of Spark's times; without one they are milliseconds.
UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

# What Java's regular expressions have and Python's read differently or not at all.
JAVA_ONLY = (
    (re.compile(r"\\[pP]"), r"a property class (\p or \P)"),
    (re.compile(r"[*+?}]\+"), "a possessive quantifier"),
    (re.compile(r"&&"), "a class intersection (&&)"),
    (re.compile(r"\\[QEGzhHRvVX]"), r"one of \Q \E \G \z \h \H \R \v \V \X"),
    (re.compile(r"\(\?<[A-Za-z]"), "a named group in Java's form"),
    (re.compile(r"\[[^\]\\]*\["), "a class inside a class"),
)


#: Topics that a pattern never means, as in Spark's source.
UNWANTED_TOPICS = INTERNAL_TOPICS | {SINK_TOPIC}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(reading.ReadOptions):
    """The options of one batch read or stream, checked and typed. Sizes in bytes, times in milliseconds."""

    advice: ClassVar[Advice] = Advice(
        data_loss=". With failOnDataLoss=false what is missing is left out",
        no_later_record="; with startingOffsetsByTimestampStrategy=latest such partitions are empty",
        damage=". corruptBatches=skip leaves it out and says so",
        timestamp=". timestamps=null makes it null",
    )

    partitions_min: int | None
    records_per_partition_max: int | None
    splits_partitions: bool
    """True if several tasks may read parts of one topic partition; one task keeps its order."""
    include_headers: bool
    offsets_per_trigger_max: int | None
    offsets_per_trigger_min: int | None
    trigger_delay_ms: int
    pushdown: bool
    commit_group: str | None

    def layout(self, names: Sequence[str]) -> Layout:
        return layout(names)


def parse(given: Mapping[str, str], use: Use = Use.BATCH) -> ReadOptions:
    """Checks every option and gives their meaning.

    Raises:
        ValueError: an unknown option, a value out of its range, or options that contradict each other.
    """
    options = lower(given)
    refuse_unknown(options, OPTIONS, REFUSED_SETTINGS, warn=use is not Use.EITHER)
    path, servers = options.get("path"), options.get("kafka.bootstrap.servers")
    if (path is None) == (servers is None):
        raise ValueError(
            "Option 'kafka.bootstrap.servers' must be specified, or 'path' (a data directory)"
            + (", not both" if path is not None else "")
        )
    if "commitgroup" in options and path is not None:
        raise ValueError("commitGroup needs brokers (option kafka.bootstrap.servers): there is nobody to commit to")
    if "upto" in options and path is None:
        raise ValueError("upTo belongs to reads from a data directory (option path)")
    if "corruptreport" in options and options.get("corruptbatches", "").strip().lower() != "skip":
        raise ValueError("corruptReport says where to note batches that are skipped; it needs corruptBatches=skip")
    most = number(options, "maxOffsetsPerTrigger", None, 1)
    least = number(options, "minOffsetsPerTrigger", None, 1)
    if most is not None and least is not None and least > most:
        raise ValueError(f"the value of minOffsetsPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most})")
    for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
        if use is Use.BATCH and name.lower() in options:
            log.warning("%s is ignored in batch queries", name)
    if use is not Use.EITHER and "kafka.group.id" in options and "groupidprefix" in options:
        log.warning("groupIdPrefix is ignored, since kafka.group.id is set")
    splits = flag(options, "splitPartitions", default=True)
    for name in ("minPartitions", "maxRecordsPerPartition"):
        if not splits and name.lower() in options:
            raise ValueError(
                f"{name} splits topic partitions, which splitPartitions=false forbids: leave one of them out"
            )
    return ReadOptions(
        topics=_topics(options),
        starting=parse_limit(options, "starting", use),
        ending=parse_limit(options, "ending", use),
        bootstrap_servers=servers,
        security=security(options) if servers is not None else None,
        paths=() if path is None else (path,),
        up_to_log_end=choice(options, "upTo", ("highWatermark", "logEnd")) == "logEnd",
        latest_if_no_timestamp=choice(options, "startingOffsetsByTimestampStrategy", ("error", "latest")) == "latest",
        fail_on_data_loss=flag(options, "failOnDataLoss", default=True),
        partitions_min=number(options, "minPartitions", None, 1),
        records_per_partition_max=number(options, "maxRecordsPerPartition", None, 1),
        splits_partitions=splits,
        include_headers=flag(options, "includeHeaders"),
        read_committed=_read_committed(options),
        client_id=options.get("kafka.client.id", "ottla-spark"),
        poll_timeout_ms=number(options, "kafkaConsumer.pollTimeoutMs", 120_000, 1),
        api_timeout_ms=number(options, "kafka.default.api.timeout.ms", API_TIMEOUT_MS, 1),
        fetch_bytes_max=number(options, "kafka.fetch.max.bytes", None, 1),
        fetch_wait_ms_max=number(options, "kafka.fetch.max.wait.ms", None, 0),
        offset_attempts=number(options, "fetchOffset.numRetries", 3, 1),
        offset_retry_ms=number(options, "fetchOffset.retryIntervalMs", 1000, 0),
        offsets_per_trigger_max=most,
        offsets_per_trigger_min=least,
        trigger_delay_ms=_duration(options, "maxTriggerDelay", "15m"),
        pushdown=flag(options, "pushdown"),
        skip_corrupt=choice(options, "corruptBatches", ("fail", "skip")) == "skip",
        corrupt_report=options.get("corruptreport"),
        verify_crc=flag(options, "verifyCrc", default=True),
        timestamps=choice(options, "timestamps", ("error", "null")),
        commit_group=options.get("commitgroup"),
    )


def _topics(options: Mapping[str, str]) -> Topics:
    given = [name for name in STRATEGIES if name.lower() in options]
    if len(given) != 1:
        if given:
            raise ValueError(f"Only one of the following options can be specified: {', '.join(STRATEGIES)}")
        raise ValueError(f"One of the following options must be specified: {', '.join(STRATEGIES)}")
    strategy, value = given[0], options[given[0].lower()]
    if strategy == "assign":
        if not value.strip().startswith("{"):
            raise ValueError(f"No topicpartitions to assign as specified value for option 'assign' is '{value}'")
        try:
            return Topics(partitions=parse_assignment(value))
        except ValueError as problem:
            raise ValueError(f"assign: {problem}") from None
    if strategy == "subscribe":
        names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
        if not names:
            raise ValueError(f"No topics to subscribe to as specified value for option 'subscribe' is '{value}'")
        return Topics(names=names)
    pattern = value.strip()
    if not pattern:
        raise ValueError(f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{value}'")
    for java, what in JAVA_ONLY:
        if java.search(pattern):
            raise ValueError(f"subscribePattern '{pattern}' has {what}, which Java and Python read differently")
    try:
        re.compile(pattern)
    except re.error as problem:
        raise ValueError(f"subscribePattern '{pattern}': {problem}") from None
    return Topics(pattern=pattern, unwanted=UNWANTED_TOPICS)


def _read_committed(options: Mapping[str, str]) -> bool:
    names = [name for name in ("isolation.level", "kafka.isolation.level") if name in options]
    levels = {choice(options, name, ("read_uncommitted", "read_committed")) for name in names}
    if len(levels) > 1:
        raise ValueError("isolation.level and kafka.isolation.level contradict each other: one of them is enough")
    return levels == {"read_committed"}


def _duration(options: Mapping[str, str], name: str, default: str) -> int:
    """Milliseconds of a time in Spark's form."""
    value = options.get(name.lower(), default)
    found = re.fullmatch(r"(\d+)([a-z]*)", value.strip().lower())
    if found is None or found[2] not in UNITS_MS:
        raise ValueError(f"{name} is '{value}'; it is a whole number with one of ms, s, m, h, d, such as 30s")
    return int(found[1]) * UNITS_MS[found[2]]
