"""Every setting of Apache Kafka 2.7's broker and of its topics, by Kafka's own names, and the few that are only ours.

One row is one setting: name, type, Kafka's default, importance, how it may be changed while the broker runs, and what
values are possible. `tests/config/test_table.py` compares all of it with the definitions inside Kafka's own jar.
Where Ottla's default differs, the row keeps Kafka's and OUR_DEFAULTS holds ours with the reason, so that the
differences can be read in one place.

What a setting does is told in `documentation.py`, which is loaded only when somebody asks: this file is on the way of
every start.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from ottla.config.values import OneOf, Range, Throttled, Type, Valid, Value, Version


class Importance(Enum):
    """How likely it is that an installation has to think about a setting."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Update(Enum):
    """How a broker's setting may be changed (KIP-226): by a restart, for one running broker, or for all."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Setting(NamedTuple):
    """One setting of the broker.

    default: what it is when nobody sets it; `kafka_default` is Apache Kafka's where ours differs from it.
    valid: the possible values; None is every value of the type.
    is_ours: Kafka has no setting of this name.
    """

    name: str
    type: Type
    default: Value
    importance: Importance
    update: Update
    valid: Valid = None
    kafka_default: Value = None
    is_ours: bool = False

    @property
    def is_sensitive(self) -> bool:
        """Whether its value is a secret, never shown and never logged."""
        return self.type is Type.PASSWORD


class TopicSetting(NamedTuple):
    """One setting of a topic.

    `broker_name` is the broker's setting that holds for topics which do not have their own value.
    """

    name: str
    type: Type
    default: Value
    importance: Importance
    broker_name: str | None
    valid: Valid = None


S = Setting
T = TopicSetting
BOOLEAN, STRING, INT, SHORT, LONG = Type.BOOLEAN, Type.STRING, Type.INT, Type.SHORT, Type.LONG
DOUBLE, LIST, CLASS, PASSWORD = Type.DOUBLE, Type.LIST, Type.CLASS, Type.PASSWORD
HIGH, MEDIUM, LOW = Importance
READ_ONLY, PER_BROKER, CLUSTER_WIDE = Update
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
DOUBLE_MAX: Final = 1.7976931348623157e308


def at_least(least: int) -> Range:
    """Numbers from `least` on."""
    return Range(least, None)


# The protocol and format versions that Kafka 2.7 knows; a release such as 2.7 or 2.7.1 means its last one.
VERSIONS = Version(
    (
        *("0.8.0", "0.8.1", "0.8.2", "0.9.0", "0.10.0-IV0", "0.10.0-IV1", "0.10.1-IV0", "0.10.1-IV1", "0.10.1-IV2"),
        *(
            "0.10.2-IV0",
            "0.11.0-IV0",
            "0.11.0-IV1",
            "0.11.0-IV2",
            "1.0-IV0",
            "1.1-IV0",
            "2.0-IV0",
            "2.0-IV1",
            "2.1-IV0",
        ),
        *("2.1-IV1", "2.1-IV2", "2.2-IV0", "2.2-IV1", "2.3-IV0", "2.3-IV1", "2.4-IV0", "2.4-IV1", "2.5-IV0", "2.6-IV0"),
        *("2.7-IV0", "2.7-IV1", "2.7-IV2"),
    )
)

SECTIONS: Final[dict[str, tuple[Setting, ...]]] = {
    "Who this broker is, and where its data is": (
        S("broker.id", INT, -1, HIGH, READ_ONLY),
        S("broker.id.generation.enable", BOOLEAN, True, MEDIUM, READ_ONLY),
        S("broker.rack", STRING, None, MEDIUM, READ_ONLY),
        S("log.dir", STRING, "/tmp/kafka-logs", HIGH, READ_ONLY),
        S("log.dirs", STRING, None, HIGH, READ_ONLY),
        S("reserved.broker.max.id", INT, 1000, MEDIUM, READ_ONLY, at_least(0)),
    ),
    "Listeners and connections": (
        S("advertised.host.name", STRING, None, HIGH, READ_ONLY),
        S("advertised.listeners", STRING, None, HIGH, PER_BROKER),
        S("advertised.port", INT, None, HIGH, READ_ONLY),
        S("connections.max.idle.ms", LONG, 600000, MEDIUM, READ_ONLY),
        S("control.plane.listener.name", STRING, None, HIGH, READ_ONLY),
        S("host.name", STRING, "", HIGH, READ_ONLY),
        S("inter.broker.listener.name", STRING, None, MEDIUM, READ_ONLY),
        S(
            "listener.security.protocol.map",
            STRING,
            "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
            LOW,
            PER_BROKER,
        ),
        S("listeners", STRING, None, HIGH, PER_BROKER),
        S("max.connection.creation.rate", INT, INT_MAX, MEDIUM, CLUSTER_WIDE, at_least(0)),
        S("max.connections", INT, INT_MAX, MEDIUM, CLUSTER_WIDE, at_least(0)),
        S("max.connections.per.ip", INT, INT_MAX, MEDIUM, CLUSTER_WIDE, at_least(0)),
        S("max.connections.per.ip.overrides", STRING, "", MEDIUM, CLUSTER_WIDE),
        S("port", INT, 9092, HIGH, READ_ONLY),
        S("security.inter.broker.protocol", STRING, "PLAINTEXT", MEDIUM, READ_ONLY),
        S("socket.connection.setup.timeout.max.ms", LONG, 127000, MEDIUM, READ_ONLY),
        S("socket.connection.setup.timeout.ms", LONG, 10000, MEDIUM, READ_ONLY),
        S("socket.receive.buffer.bytes", INT, 102400, HIGH, READ_ONLY),
        S("socket.request.max.bytes", INT, 104857600, HIGH, READ_ONLY, at_least(1)),
        S("socket.send.buffer.bytes", INT, 102400, HIGH, READ_ONLY),
    ),
    "Requests and their queues": (
        S("background.threads", INT, 10, HIGH, CLUSTER_WIDE, at_least(1)),
        S("delete.records.purgatory.purge.interval.requests", INT, 1, MEDIUM, READ_ONLY),
        S("fetch.max.bytes", INT, 57671680, MEDIUM, READ_ONLY, at_least(1024)),
        S("fetch.purgatory.purge.interval.requests", INT, 1000, MEDIUM, READ_ONLY),
        S("max.incremental.fetch.session.cache.slots", INT, 1000, MEDIUM, READ_ONLY, at_least(0)),
        S("num.io.threads", INT, 8, HIGH, CLUSTER_WIDE, at_least(1)),
        S("num.network.threads", INT, 3, HIGH, CLUSTER_WIDE, at_least(1)),
        S("producer.purgatory.purge.interval.requests", INT, 1000, MEDIUM, READ_ONLY),
        S("queued.max.request.bytes", LONG, -1, MEDIUM, READ_ONLY),
        S("queued.max.requests", INT, 500, HIGH, READ_ONLY, at_least(1)),
        S("request.timeout.ms", INT, 30000, HIGH, READ_ONLY),
    ),
    "Topics and their logs": (
        S("auto.create.topics.enable", BOOLEAN, True, HIGH, READ_ONLY),
        S("compression.type", STRING, "producer", HIGH, CLUSTER_WIDE),
        S("delete.topic.enable", BOOLEAN, True, HIGH, READ_ONLY),
        S("log.cleanup.policy", LIST, ["delete"], MEDIUM, CLUSTER_WIDE, OneOf(("compact", "delete"))),
        S("log.flush.interval.messages", LONG, LONG_MAX, HIGH, CLUSTER_WIDE, at_least(1)),
        S("log.flush.interval.ms", LONG, None, HIGH, CLUSTER_WIDE),
        S("log.flush.offset.checkpoint.interval.ms", INT, 60000, HIGH, READ_ONLY, at_least(0)),
        S("log.flush.scheduler.interval.ms", LONG, LONG_MAX, HIGH, READ_ONLY),
        S("log.flush.start.offset.checkpoint.interval.ms", INT, 60000, HIGH, READ_ONLY, at_least(0)),
        S("log.index.interval.bytes", INT, 4096, MEDIUM, CLUSTER_WIDE, at_least(0)),
        S("log.index.size.max.bytes", INT, 10485760, MEDIUM, CLUSTER_WIDE, at_least(4)),
        S("log.message.downconversion.enable", BOOLEAN, True, LOW, CLUSTER_WIDE),
        S("log.message.format.version", STRING, "2.7-IV2", MEDIUM, READ_ONLY, VERSIONS),
        S("log.message.timestamp.difference.max.ms", LONG, LONG_MAX, MEDIUM, CLUSTER_WIDE),
        S(
            "log.message.timestamp.type",
            STRING,
            "CreateTime",
            MEDIUM,
            CLUSTER_WIDE,
            OneOf(("CreateTime", "LogAppendTime")),
        ),
        S("log.preallocate", BOOLEAN, False, MEDIUM, CLUSTER_WIDE),
        S("log.retention.bytes", LONG, -1, HIGH, CLUSTER_WIDE),
        S("log.retention.check.interval.ms", LONG, 300000, MEDIUM, READ_ONLY, at_least(1)),
        S("log.retention.hours", INT, 168, HIGH, READ_ONLY),
        S("log.retention.minutes", INT, None, HIGH, READ_ONLY),
        S("log.retention.ms", LONG, None, HIGH, CLUSTER_WIDE),
        S("log.roll.hours", INT, 168, HIGH, READ_ONLY, at_least(1)),
        S("log.roll.jitter.hours", INT, 0, HIGH, READ_ONLY, at_least(0)),
        S("log.roll.jitter.ms", LONG, None, HIGH, CLUSTER_WIDE),
        S("log.roll.ms", LONG, None, HIGH, CLUSTER_WIDE),
        S("log.segment.bytes", INT, 1073741824, HIGH, CLUSTER_WIDE, at_least(14)),
        S("log.segment.delete.delay.ms", LONG, 60000, HIGH, CLUSTER_WIDE, at_least(0)),
        S("message.max.bytes", INT, 1048588, HIGH, CLUSTER_WIDE, at_least(0)),
        S("num.partitions", INT, 1, MEDIUM, READ_ONLY, at_least(1)),
        S("num.recovery.threads.per.data.dir", INT, 1, HIGH, CLUSTER_WIDE, at_least(1)),
    ),
    "Log compaction": (
        S("log.cleaner.backoff.ms", LONG, 15000, MEDIUM, CLUSTER_WIDE, at_least(0)),
        S("log.cleaner.dedupe.buffer.size", LONG, 134217728, MEDIUM, CLUSTER_WIDE),
        S("log.cleaner.delete.retention.ms", LONG, 86400000, MEDIUM, CLUSTER_WIDE),
        S("log.cleaner.enable", BOOLEAN, True, MEDIUM, READ_ONLY),
        S("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, MEDIUM, CLUSTER_WIDE),
        S("log.cleaner.io.buffer.size", INT, 524288, MEDIUM, CLUSTER_WIDE, at_least(0)),
        S("log.cleaner.io.max.bytes.per.second", DOUBLE, DOUBLE_MAX, MEDIUM, CLUSTER_WIDE),
        S("log.cleaner.max.compaction.lag.ms", LONG, LONG_MAX, MEDIUM, CLUSTER_WIDE),
        S("log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, MEDIUM, CLUSTER_WIDE),
        S("log.cleaner.min.compaction.lag.ms", LONG, 0, MEDIUM, CLUSTER_WIDE),
        S("log.cleaner.threads", INT, 1, MEDIUM, CLUSTER_WIDE, at_least(0)),
    ),
    "Replication and the controller": (
        S("auto.leader.rebalance.enable", BOOLEAN, True, HIGH, READ_ONLY),
        S("controlled.shutdown.enable", BOOLEAN, True, MEDIUM, READ_ONLY),
        S("controlled.shutdown.max.retries", INT, 3, MEDIUM, READ_ONLY),
        S("controlled.shutdown.retry.backoff.ms", LONG, 5000, MEDIUM, READ_ONLY),
        S("controller.socket.timeout.ms", INT, 30000, MEDIUM, READ_ONLY),
        S("default.replication.factor", INT, 1, MEDIUM, READ_ONLY),
        S("inter.broker.protocol.version", STRING, "2.7-IV2", MEDIUM, READ_ONLY, VERSIONS),
        S("leader.imbalance.check.interval.seconds", LONG, 300, HIGH, READ_ONLY),
        S("leader.imbalance.per.broker.percentage", INT, 10, HIGH, READ_ONLY),
        S("min.insync.replicas", INT, 1, HIGH, CLUSTER_WIDE, at_least(1)),
        S("num.replica.alter.log.dirs.threads", INT, None, HIGH, READ_ONLY),
        S("num.replica.fetchers", INT, 1, HIGH, CLUSTER_WIDE),
        S("replica.fetch.backoff.ms", INT, 1000, MEDIUM, READ_ONLY, at_least(0)),
        S("replica.fetch.max.bytes", INT, 1048576, MEDIUM, READ_ONLY, at_least(0)),
        S("replica.fetch.min.bytes", INT, 1, HIGH, READ_ONLY),
        S("replica.fetch.response.max.bytes", INT, 10485760, MEDIUM, READ_ONLY, at_least(0)),
        S("replica.fetch.wait.max.ms", INT, 500, HIGH, READ_ONLY),
        S("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, HIGH, READ_ONLY),
        S("replica.lag.time.max.ms", LONG, 30000, HIGH, READ_ONLY),
        S("replica.selector.class", STRING, None, MEDIUM, READ_ONLY),
        S("replica.socket.receive.buffer.bytes", INT, 65536, HIGH, READ_ONLY),
        S("replica.socket.timeout.ms", INT, 30000, HIGH, READ_ONLY),
        S("unclean.leader.election.enable", BOOLEAN, False, HIGH, CLUSTER_WIDE),
    ),
    "The coordination tree in ZooKeeper": (
        S("zookeeper.clientCnxnSocket", STRING, None, MEDIUM, READ_ONLY),
        S("zookeeper.connect", STRING, None, HIGH, READ_ONLY),
        S("zookeeper.connection.timeout.ms", INT, None, HIGH, READ_ONLY),
        S("zookeeper.max.in.flight.requests", INT, 10, HIGH, READ_ONLY, at_least(1)),
        S("zookeeper.session.timeout.ms", INT, 18000, HIGH, READ_ONLY),
        S("zookeeper.set.acl", BOOLEAN, False, HIGH, READ_ONLY),
        S("zookeeper.ssl.cipher.suites", LIST, None, LOW, READ_ONLY),
        S("zookeeper.ssl.client.enable", BOOLEAN, False, MEDIUM, READ_ONLY),
        S("zookeeper.ssl.crl.enable", BOOLEAN, False, LOW, READ_ONLY),
        S("zookeeper.ssl.enabled.protocols", LIST, None, LOW, READ_ONLY),
        S("zookeeper.ssl.endpoint.identification.algorithm", STRING, "HTTPS", LOW, READ_ONLY),
        S("zookeeper.ssl.keystore.location", STRING, None, MEDIUM, READ_ONLY),
        S("zookeeper.ssl.keystore.password", PASSWORD, None, MEDIUM, READ_ONLY),
        S("zookeeper.ssl.keystore.type", STRING, None, MEDIUM, READ_ONLY),
        S("zookeeper.ssl.ocsp.enable", BOOLEAN, False, LOW, READ_ONLY),
        S("zookeeper.ssl.protocol", STRING, "TLSv1.2", LOW, READ_ONLY),
        S("zookeeper.ssl.truststore.location", STRING, None, MEDIUM, READ_ONLY),
        S("zookeeper.ssl.truststore.password", PASSWORD, None, MEDIUM, READ_ONLY),
        S("zookeeper.ssl.truststore.type", STRING, None, MEDIUM, READ_ONLY),
        S("zookeeper.sync.time.ms", INT, 2000, LOW, READ_ONLY),
    ),
    "Groups and their offsets": (
        S("group.initial.rebalance.delay.ms", INT, 3000, MEDIUM, READ_ONLY),
        S("group.max.session.timeout.ms", INT, 1800000, MEDIUM, READ_ONLY),
        S("group.max.size", INT, INT_MAX, MEDIUM, READ_ONLY, at_least(1)),
        S("group.min.session.timeout.ms", INT, 6000, MEDIUM, READ_ONLY),
        S("offset.metadata.max.bytes", INT, 4096, HIGH, READ_ONLY),
        S("offsets.commit.required.acks", SHORT, -1, HIGH, READ_ONLY),
        S("offsets.commit.timeout.ms", INT, 5000, HIGH, READ_ONLY, at_least(1)),
        S("offsets.load.buffer.size", INT, 5242880, HIGH, READ_ONLY, at_least(1)),
        S("offsets.retention.check.interval.ms", LONG, 600000, HIGH, READ_ONLY, at_least(1)),
        S("offsets.retention.minutes", INT, 10080, HIGH, READ_ONLY, at_least(1)),
        S("offsets.topic.compression.codec", INT, 0, HIGH, READ_ONLY),
        S("offsets.topic.num.partitions", INT, 50, HIGH, READ_ONLY, at_least(1)),
        S("offsets.topic.replication.factor", SHORT, 3, HIGH, READ_ONLY, at_least(1)),
        S("offsets.topic.segment.bytes", INT, 104857600, HIGH, READ_ONLY, at_least(1)),
    ),
    "Transactions": (
        S("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10000, LOW, READ_ONLY, at_least(1)),
        S("transaction.max.timeout.ms", INT, 900000, HIGH, READ_ONLY, at_least(1)),
        S("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3600000, LOW, READ_ONLY, at_least(1)),
        S("transaction.state.log.load.buffer.size", INT, 5242880, HIGH, READ_ONLY, at_least(1)),
        S("transaction.state.log.min.isr", INT, 2, HIGH, READ_ONLY, at_least(1)),
        S("transaction.state.log.num.partitions", INT, 50, HIGH, READ_ONLY, at_least(1)),
        S("transaction.state.log.replication.factor", SHORT, 3, HIGH, READ_ONLY, at_least(1)),
        S("transaction.state.log.segment.bytes", INT, 104857600, HIGH, READ_ONLY, at_least(1)),
        S("transactional.id.expiration.ms", INT, 604800000, HIGH, READ_ONLY, at_least(1)),
    ),
    "Quotas": (
        S("alter.log.dirs.replication.quota.window.num", INT, 11, LOW, READ_ONLY, at_least(1)),
        S("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, LOW, READ_ONLY, at_least(1)),
        S("client.quota.callback.class", CLASS, None, LOW, READ_ONLY),
        S("controller.quota.window.num", INT, 11, LOW, READ_ONLY, at_least(1)),
        S("controller.quota.window.size.seconds", INT, 1, LOW, READ_ONLY, at_least(1)),
        S("quota.consumer.default", LONG, LONG_MAX, HIGH, READ_ONLY, at_least(1)),
        S("quota.producer.default", LONG, LONG_MAX, HIGH, READ_ONLY, at_least(1)),
        S("quota.window.num", INT, 11, LOW, READ_ONLY, at_least(1)),
        S("quota.window.size.seconds", INT, 1, LOW, READ_ONLY, at_least(1)),
        S("replication.quota.window.num", INT, 11, LOW, READ_ONLY, at_least(1)),
        S("replication.quota.window.size.seconds", INT, 1, LOW, READ_ONLY, at_least(1)),
    ),
    "Who may do what": (
        S("alter.config.policy.class.name", CLASS, None, LOW, READ_ONLY),
        S("authorizer.class.name", STRING, "", LOW, READ_ONLY),
        S("connection.failed.authentication.delay.ms", INT, 100, LOW, READ_ONLY, at_least(0)),
        S("connections.max.reauth.ms", LONG, 0, MEDIUM, READ_ONLY),
        S("create.topic.policy.class.name", CLASS, None, LOW, READ_ONLY),
        S("principal.builder.class", CLASS, None, MEDIUM, PER_BROKER),
        S("security.providers", STRING, None, LOW, READ_ONLY),
    ),
    "TLS": (
        S("ssl.cipher.suites", LIST, [], MEDIUM, PER_BROKER),
        S("ssl.client.auth", STRING, "none", MEDIUM, PER_BROKER, OneOf(("required", "requested", "none"))),
        S("ssl.enabled.protocols", LIST, ["TLSv1.2", "TLSv1.3"], MEDIUM, PER_BROKER),
        S("ssl.endpoint.identification.algorithm", STRING, "https", LOW, PER_BROKER),
        S("ssl.engine.factory.class", CLASS, None, LOW, PER_BROKER),
        S("ssl.key.password", PASSWORD, None, MEDIUM, PER_BROKER),
        S("ssl.keymanager.algorithm", STRING, "SunX509", MEDIUM, PER_BROKER),
        S("ssl.keystore.certificate.chain", PASSWORD, None, MEDIUM, PER_BROKER),
        S("ssl.keystore.key", PASSWORD, None, MEDIUM, PER_BROKER),
        S("ssl.keystore.location", STRING, None, MEDIUM, PER_BROKER),
        S("ssl.keystore.password", PASSWORD, None, MEDIUM, PER_BROKER),
        S("ssl.keystore.type", STRING, "JKS", MEDIUM, PER_BROKER),
        S("ssl.principal.mapping.rules", STRING, "DEFAULT", LOW, READ_ONLY),
        S("ssl.protocol", STRING, "TLSv1.3", MEDIUM, PER_BROKER),
        S("ssl.provider", STRING, None, MEDIUM, PER_BROKER),
        S("ssl.secure.random.implementation", STRING, None, LOW, PER_BROKER),
        S("ssl.trustmanager.algorithm", STRING, "PKIX", MEDIUM, PER_BROKER),
        S("ssl.truststore.certificates", PASSWORD, None, MEDIUM, PER_BROKER),
        S("ssl.truststore.location", STRING, None, MEDIUM, PER_BROKER),
        S("ssl.truststore.password", PASSWORD, None, MEDIUM, PER_BROKER),
        S("ssl.truststore.type", STRING, "JKS", MEDIUM, PER_BROKER),
    ),
    "SASL": (
        S("sasl.client.callback.handler.class", CLASS, None, MEDIUM, READ_ONLY),
        S("sasl.enabled.mechanisms", LIST, ["GSSAPI"], MEDIUM, PER_BROKER),
        S("sasl.jaas.config", PASSWORD, None, MEDIUM, PER_BROKER),
        S("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", MEDIUM, PER_BROKER),
        S("sasl.kerberos.min.time.before.relogin", LONG, 60000, MEDIUM, PER_BROKER),
        S("sasl.kerberos.principal.to.local.rules", LIST, ["DEFAULT"], MEDIUM, PER_BROKER),
        S("sasl.kerberos.service.name", STRING, None, MEDIUM, PER_BROKER),
        S("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, MEDIUM, PER_BROKER),
        S("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8, MEDIUM, PER_BROKER),
        S("sasl.login.callback.handler.class", CLASS, None, MEDIUM, READ_ONLY),
        S("sasl.login.class", CLASS, None, MEDIUM, READ_ONLY),
        S("sasl.login.refresh.buffer.seconds", SHORT, 300, MEDIUM, PER_BROKER),
        S("sasl.login.refresh.min.period.seconds", SHORT, 60, MEDIUM, PER_BROKER),
        S("sasl.login.refresh.window.factor", DOUBLE, 0.8, MEDIUM, PER_BROKER),
        S("sasl.login.refresh.window.jitter", DOUBLE, 0.05, MEDIUM, PER_BROKER),
        S("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", MEDIUM, PER_BROKER),
        S("sasl.server.callback.handler.class", CLASS, None, MEDIUM, READ_ONLY),
    ),
    "Delegation tokens": (
        S("delegation.token.expiry.check.interval.ms", LONG, 3600000, LOW, READ_ONLY, at_least(1)),
        S("delegation.token.expiry.time.ms", LONG, 86400000, MEDIUM, READ_ONLY, at_least(1)),
        S("delegation.token.master.key", PASSWORD, None, MEDIUM, READ_ONLY),
        S("delegation.token.max.lifetime.ms", LONG, 604800000, MEDIUM, READ_ONLY, at_least(1)),
    ),
    "Passwords kept in dynamic settings": (
        S("password.encoder.cipher.algorithm", STRING, "AES/CBC/PKCS5Padding", LOW, READ_ONLY),
        S("password.encoder.iterations", INT, 4096, LOW, READ_ONLY, at_least(1024)),
        S("password.encoder.key.length", INT, 128, LOW, READ_ONLY, at_least(8)),
        S("password.encoder.keyfactory.algorithm", STRING, None, LOW, READ_ONLY),
        S("password.encoder.old.secret", PASSWORD, None, MEDIUM, READ_ONLY),
        S("password.encoder.secret", PASSWORD, None, MEDIUM, READ_ONLY),
    ),
    "Metrics": (
        S("kafka.metrics.polling.interval.secs", INT, 10, LOW, READ_ONLY, at_least(1)),
        S("kafka.metrics.reporters", LIST, [], LOW, READ_ONLY),
        S("metric.reporters", LIST, [], LOW, CLUSTER_WIDE),
        S("metrics.num.samples", INT, 2, LOW, READ_ONLY, at_least(1)),
        S("metrics.recording.level", STRING, "INFO", LOW, READ_ONLY),
        S("metrics.sample.window.ms", LONG, 30000, LOW, READ_ONLY, at_least(1)),
    ),
}
"""Kafka's settings by subject, each with Kafka's default."""

# Settings of Kafka's that exist only in the coordination tree: no file can hold them (kafka.server.DynamicConfig).
DYNAMIC_ONLY: Final = (
    S("follower.replication.throttled.rate", LONG, LONG_MAX, MEDIUM, CLUSTER_WIDE, at_least(0)),
    S("leader.replication.throttled.rate", LONG, LONG_MAX, MEDIUM, CLUSTER_WIDE, at_least(0)),
    S("replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, MEDIUM, CLUSTER_WIDE, at_least(0)),
)

# What Kafka has no name for.
OURS: Final = (
    S("log.flush.on.acks.all", BOOLEAN, True, HIGH, CLUSTER_WIDE, is_ours=True),
    S("audit.log.allowed", BOOLEAN, False, LOW, READ_ONLY, is_ours=True),
    S("audit.log.file", STRING, None, MEDIUM, READ_ONLY, is_ours=True),
    S("audit.log.files", INT, 10, LOW, READ_ONLY, Range(2, 1000), is_ours=True),
    S("audit.log.max.bytes", LONG, 64 << 20, LOW, READ_ONLY, at_least(65_536), is_ours=True),
    S("broker.early.removal.enable", BOOLEAN, True, MEDIUM, READ_ONLY, is_ours=True),
    S("group.max.bytes", INT, 16 << 20, LOW, READ_ONLY, at_least(1), is_ours=True),
    S("group.max.pending.members", INT, 10_000, LOW, READ_ONLY, at_least(1), is_ours=True),
    S("group.member.metadata.max.bytes", INT, 8 << 20, LOW, READ_ONLY, at_least(1), is_ours=True),
    S("inter.broker.accepted.listener.names", LIST, [], LOW, READ_ONLY, is_ours=True),
    S("logging.format", STRING, "text", LOW, READ_ONLY, OneOf(("text", "json")), is_ours=True),
    S("metrics.listener", STRING, None, MEDIUM, READ_ONLY, is_ours=True),
    S("metrics.password.file", STRING, None, LOW, READ_ONLY, is_ours=True),
    S("metrics.security.protocol", STRING, "PLAINTEXT", LOW, READ_ONLY, OneOf(("PLAINTEXT", "SSL")), is_ours=True),
    S("metrics.user", STRING, None, LOW, READ_ONLY, is_ours=True),
    S("queued.max.request.percent.per.ip", INT, 50, LOW, READ_ONLY, Range(1, 100), is_ours=True),
    S("sasl.oauthbearer.client.credentials.client.id", STRING, None, LOW, PER_BROKER, is_ours=True),
    S("sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None, LOW, PER_BROKER, is_ours=True),
    S("sasl.oauthbearer.clock.skew.seconds", INT, 30, LOW, PER_BROKER, at_least(0), is_ours=True),
    S("sasl.oauthbearer.expected.audience", LIST, [], LOW, PER_BROKER, is_ours=True),
    S("sasl.oauthbearer.expected.issuer", STRING, None, LOW, PER_BROKER, is_ours=True),
    S("sasl.oauthbearer.header.urlencode", BOOLEAN, False, LOW, PER_BROKER, is_ours=True),
    S("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3_600_000, LOW, PER_BROKER, at_least(1_000), is_ours=True),
    S("sasl.oauthbearer.jwks.endpoint.url", STRING, None, MEDIUM, PER_BROKER, is_ours=True),
    S("sasl.oauthbearer.scope", STRING, None, LOW, PER_BROKER, is_ours=True),
    S("sasl.oauthbearer.scope.claim.name", STRING, "scope", LOW, PER_BROKER, is_ours=True),
    S("sasl.oauthbearer.sub.claim.name", STRING, "sub", LOW, PER_BROKER, is_ours=True),
    S("sasl.oauthbearer.token.endpoint.url", STRING, None, LOW, PER_BROKER, is_ours=True),
    S("security.settings.ignored", LIST, [], HIGH, READ_ONLY, is_ours=True),
    S("unclean.start.wait.ms", LONG, 30_000, MEDIUM, READ_ONLY, at_least(0), is_ours=True),
    S("zookeeper.sasl.jaas.config", PASSWORD, None, MEDIUM, READ_ONLY, is_ours=True),
)

# Where our default is not Kafka's, and why.
OUR_DEFAULTS: Final[dict[str, tuple[Value, str]]] = {
    "host.name": ("127.0.0.1", "nobody from outside gets in until somebody says so"),
    "log.dir": ("./data", "/tmp is emptied when the machine starts, and a log should outlive that"),
    "replica.high.watermark.checkpoint.interval.ms": (
        200,
        "after a crash less of what was committed is hidden at first; it is written only when something moved",
    ),
    "socket.receive.buffer.bytes": (
        -1,
        "large batches are read in fewer calls; the system's grows only where a connection is read as it sends",
    ),
    "socket.send.buffer.bytes": (
        262144,
        "a large Fetch takes fewer turns, and what is sent is still in the processor's caches when it is received",
    ),
    "num.recovery.threads.per.data.dir": (
        16,
        "opening a log waits for the disk more than it computes, and a thread costs little",
    ),
    "queued.max.request.bytes": (
        268435456,
        "memory has one budget: past it the broker stops reading from its clients instead of growing",
    ),
    "group.max.size": (
        5_000,
        "a rebalance goes through all members, and the record of a group has no room for more",
    ),
    "zookeeper.connect": (None, "without it the broker keeps the coordination tree itself, in its data directory"),
}

# Without ZooKeeper the cluster is this one broker, and these defaults, made for three, could never be fulfilled.
ALONE_DEFAULTS: Final[dict[str, Value]] = {
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}

TOPIC: Final = (
    T("cleanup.policy", LIST, ["delete"], MEDIUM, "log.cleanup.policy", OneOf(("compact", "delete"))),
    T(
        "compression.type",
        STRING,
        "producer",
        MEDIUM,
        "compression.type",
        OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    ),
    T("delete.retention.ms", LONG, 86400000, MEDIUM, "log.cleaner.delete.retention.ms", at_least(0)),
    T("file.delete.delay.ms", LONG, 60000, MEDIUM, "log.segment.delete.delay.ms", at_least(0)),
    T("flush.messages", LONG, LONG_MAX, MEDIUM, "log.flush.interval.messages", at_least(0)),
    T("flush.ms", LONG, LONG_MAX, MEDIUM, "log.flush.interval.ms", at_least(0)),
    T("follower.replication.throttled.replicas", LIST, [], MEDIUM, None, Throttled()),
    T("index.interval.bytes", INT, 4096, MEDIUM, "log.index.interval.bytes", at_least(0)),
    T("leader.replication.throttled.replicas", LIST, [], MEDIUM, None, Throttled()),
    T("max.compaction.lag.ms", LONG, LONG_MAX, MEDIUM, "log.cleaner.max.compaction.lag.ms", at_least(1)),
    T("max.message.bytes", INT, 1048588, MEDIUM, "message.max.bytes", at_least(0)),
    T("message.downconversion.enable", BOOLEAN, True, LOW, "log.message.downconversion.enable"),
    T("message.format.version", STRING, "2.7-IV2", MEDIUM, "log.message.format.version", VERSIONS),
    T(
        "message.timestamp.difference.max.ms",
        LONG,
        LONG_MAX,
        MEDIUM,
        "log.message.timestamp.difference.max.ms",
        at_least(0),
    ),
    T(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        MEDIUM,
        "log.message.timestamp.type",
        OneOf(("CreateTime", "LogAppendTime")),
    ),
    T("min.cleanable.dirty.ratio", DOUBLE, 0.5, MEDIUM, "log.cleaner.min.cleanable.ratio", Range(0, 1)),
    T("min.compaction.lag.ms", LONG, 0, MEDIUM, "log.cleaner.min.compaction.lag.ms", at_least(0)),
    T("min.insync.replicas", INT, 1, MEDIUM, "min.insync.replicas", at_least(1)),
    T("preallocate", BOOLEAN, False, MEDIUM, "log.preallocate"),
    T("retention.bytes", LONG, -1, MEDIUM, "log.retention.bytes"),
    T("retention.ms", LONG, 604800000, MEDIUM, "log.retention.ms", at_least(-1)),
    T("segment.bytes", INT, 1073741824, MEDIUM, "log.segment.bytes", at_least(14)),
    T("segment.index.bytes", INT, 10485760, MEDIUM, "log.index.size.max.bytes", at_least(0)),
    T("segment.jitter.ms", LONG, 0, MEDIUM, "log.roll.jitter.ms", at_least(0)),
    T("segment.ms", LONG, 604800000, MEDIUM, "log.roll.ms", at_least(1)),
    T("unclean.leader.election.enable", BOOLEAN, False, MEDIUM, "unclean.leader.election.enable"),
)

# Several names for one thing, the one that wins first (kafka.server.DynamicBrokerConfig.brokerConfigSynonyms).
_ROLL = ("log.roll.ms", "log.roll.hours")
_JITTER = ("log.roll.jitter.ms", "log.roll.jitter.hours")
_RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
SYNONYMS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(_ROLL, _ROLL),
    **dict.fromkeys(_JITTER, _JITTER),
    **dict.fromkeys(_RETENTION, _RETENTION),
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
}


def _with_our_default(setting: Setting) -> Setting:
    if setting.name not in OUR_DEFAULTS:
        return setting
    return setting._replace(default=OUR_DEFAULTS[setting.name][0], kafka_default=setting.default)


BROKER_SETTINGS: Final = {
    setting.name: _with_our_default(setting) for settings in (*SECTIONS.values(), OURS) for setting in settings
}
"""Every setting that a `server.properties` can hold, by name."""

DYNAMIC_SETTINGS: Final = {
    **{name: setting for name, setting in BROKER_SETTINGS.items() if setting.update is not READ_ONLY},
    **{setting.name: setting for setting in DYNAMIC_ONLY},
}
"""Every setting of brokers that can be changed while they run, by name."""

TOPIC_SETTINGS: Final = {setting.name: setting for setting in TOPIC}
"""Every setting of topics, by name."""
