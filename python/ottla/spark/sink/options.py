"""The options of `write.format("ottla")` and `writeStream.format("ottla")`: those of Spark's Kafka sink by its names,
and a few of our own.

Settings of Kafka's producer are given as `kafka.*`. Those that mean something here are used, those that only concern
the Java client's inner life are accepted, and those that would be wrong are refused by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client import Cluster, Security
from ottla.kafka import ACKS, ACKS_ALL
from ottla.spark.given import choice, flag, lower, number, refuse_unknown, security

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LEVELS = {"gzip": range(1, 10), "lz4": range(1, 18), "zstd": range(-131_072, 23)}
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

# checkpointLocation is Spark's own; the asynchronous ones are looked at to be refused. The column headers is written if
# it is there, whatever includeHeaders says, which is so in Spark's Kafka sink.
OPTIONS = (
    "topic", "includeHeaders", "delivery", "transactionalIdPrefix", "includeTimestamp", "checkpointLocation",
    "txnAppId", "txnVersion",
    "asyncProgressTrackingEnabled", "asyncProgressTrackingCheckpointIntervalMs",
    "_asyncProgressTrackingOverrideSinkSupportCheck",
)  # fmt: skip

REFUSED_SETTINGS = {
    "key.serializer": "keys are bytes; convert them with DataFrame operations",
    "value.serializer": "values are bytes; convert them with DataFrame operations",
    "interceptor.classes": "there is no Java producer here to intercept",
    "partitioner.class": "there is no Java producer here; the column partition says where a row goes",
    "transactional.id": "each task has an id of its own; the option transactionalIdPrefix says how they begin",
}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of one write, checked and typed. Sizes in bytes, times in milliseconds."""

    bootstrap_servers: str
    security: Security | None
    topic: str | None
    """Of all rows; None takes the column `topic`."""
    exactly_once: bool
    prefix: str
    """How transactional ids begin."""
    include_timestamp: bool
    """True if the column `timestamp` is written; else a row has the time of its writing."""
    acks: int
    idempotent: bool
    compression: str
    level: int | None
    batch_bytes: int
    request_bytes_max: int
    memory_bytes: int
    delivery_timeout_ms: int
    block_ms_max: int
    """How long metadata and coordinators are waited for."""
    transaction_timeout_ms: int
    client_id: str
    checkpoint: str | None
    """Of a stream: where Spark keeps its state, if the query says so itself."""
    once: tuple[str, int] | None
    """Of a batch write: the name and the number under which it is done once; the numbers of a name only grow."""

    def cluster(self) -> Cluster:
        """The brokers that are written to."""
        return Cluster(
            self.bootstrap_servers, client_id=self.client_id, timeout_ms=self.block_ms_max, security=self.security
        )


def parse(given: Mapping[str, str]) -> WriteOptions:
    """Checks every option and gives their meaning.

    Raises:
        ValueError: an unknown option, a value out of its range, or options that contradict each other.
    """
    options = {key: value.strip() for key, value in lower(given).items()}
    refuse_unknown(options, OPTIONS, REFUSED_SETTINGS)
    servers = options.get("kafka.bootstrap.servers")
    if not servers:
        raise ValueError(
            "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer: HOST:PORT of brokers. "
            "(An INSERT INTO a table has none of the table's options; give it its own: INSERT INTO table "
            "WITH ('kafka.bootstrap.servers'='...', 'topic'='...') SELECT ...)"
        )
    exactly_once = choice(options, "delivery", (EXACTLY_ONCE, AT_LEAST_ONCE)) == EXACTLY_ONCE
    if exactly_once and flag(options, "asyncProgressTrackingEnabled"):
        raise ValueError(
            "asyncProgressTrackingEnabled=true does not go with delivery=exactly-once: Spark may replay batches that "
            "it did not keep in order. Leave it out, or say delivery=at-least-once"
        )
    acks = ACKS[choice(options, "kafka.acks", ("all", "-1", "0", "1"))]
    idempotent = acks == ACKS_ALL and flag(options, "kafka.enable.idempotence", default=True)
    if exactly_once and not idempotent:
        raise ValueError(
            "delivery=exactly-once needs kafka.acks=all and kafka.enable.idempotence=true, which are the defaults"
        )
    if number(options, "kafka.retries", INT_MAX, 0, INT_MAX) == 0:
        raise ValueError(
            "kafka.retries=0 loses rows when a leader moves; how long to try is said with kafka.delivery.timeout.ms"
        )
    compression = choice(options, "kafka.compression.type", CODECS)
    topic = options.get("topic")
    if topic == "":
        raise ValueError("the option topic is empty; leave it out to take the column topic")
    request_bytes_max = number(options, "kafka.max.request.size", 1024 * 1024, 1, INT_MAX)
    return WriteOptions(
        bootstrap_servers=servers,
        security=security(options),
        topic=topic,
        exactly_once=exactly_once,
        prefix=options.get("transactionalidprefix") or "ottla-sink",
        include_timestamp=flag(options, "includeTimestamp"),
        acks=acks,
        idempotent=idempotent,
        compression=compression,
        level=_level(options, compression),
        batch_bytes=min(number(options, "kafka.batch.size", 256 * 1024, 0, INT_MAX), request_bytes_max),
        request_bytes_max=request_bytes_max,
        memory_bytes=number(options, "kafka.buffer.memory", 32 * 1024 * 1024, 1, INT_MAX),
        delivery_timeout_ms=number(options, "kafka.delivery.timeout.ms", 120_000, 1, INT_MAX),
        block_ms_max=number(options, "kafka.max.block.ms", 60_000, 1, INT_MAX),
        transaction_timeout_ms=number(options, "kafka.transaction.timeout.ms", 300_000, 1, INT_MAX),
        client_id=options.get("kafka.client.id", "ottla-spark-sink"),
        checkpoint=options.get("checkpointlocation"),
        once=_once(options, exactly_once),
    )


def _once(options: Mapping[str, str], exactly_once: bool) -> tuple[str, int] | None:
    name, version = options.get("txnappid"), options.get("txnversion")
    if name is None and version is None:
        return None
    if not name or version is None:
        raise ValueError("txnAppId and txnVersion go together: the name of an output, and the number of its batch")
    if not exactly_once:
        raise ValueError("txnAppId and txnVersion need delivery=exactly-once, which is the default")
    return name, number(options, "txnVersion", 0, 0, LONG_MAX)


def _level(options: Mapping[str, str], compression: str) -> int | None:
    name = f"kafka.compression.{compression}.level"
    if name not in options:
        return None
    try:
        level = int(options[name])
    except ValueError:
        level = None
    if compression not in LEVELS or level not in LEVELS[compression]:
        known = LEVELS.get(compression)
        what = f"from {known[0]} to {known[-1]}" if known else "not for this codec"
        raise ValueError(f"{name} is '{options[name]}'; levels are {what}")
    return level
