"""Which settings do something in this version. `tests/config/test_reference.py` compares it with what the code reads.

Kafka's settings are all known, so that its files work; those of parts that are not there yet are taken and change
nothing. People must be able to see which: `docs/settings.md` marks them, and a broker that is given one without
effect says so when it starts.
"""

from __future__ import annotations

from typing import Final

from ottla.config.table import SYNONYMS, TOPIC_SETTINGS

# Read by their names.
_READ: Final = frozenset(
    {
        "auto.create.topics.enable",
        "auto.leader.rebalance.enable",
        "broker.early.removal.enable",
        "broker.id.generation.enable",
        "broker.rack",
        "connection.failed.authentication.delay.ms",
        "connections.max.idle.ms",
        "connections.max.reauth.ms",
        "control.plane.listener.name",
        "controlled.shutdown.enable",
        "controlled.shutdown.max.retries",
        "controlled.shutdown.retry.backoff.ms",
        "controller.socket.timeout.ms",
        "controller.quota.window.num",
        "controller.quota.window.size.seconds",
        "default.replication.factor",
        "delete.topic.enable",
        "fetch.max.bytes",
        "follower.replication.throttled.rate",
        "group.initial.rebalance.delay.ms",
        "group.max.bytes",
        "group.max.pending.members",
        "group.max.session.timeout.ms",
        "group.max.size",
        "group.member.metadata.max.bytes",
        "group.min.session.timeout.ms",
        "leader.imbalance.check.interval.seconds",
        "leader.imbalance.per.broker.percentage",
        "leader.replication.throttled.rate",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.enable",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.threads",
        "log.flush.offset.checkpoint.interval.ms",
        "log.flush.on.acks.all",
        "log.flush.start.offset.checkpoint.interval.ms",
        "log.retention.check.interval.ms",
        "logging.format",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "max.incremental.fetch.session.cache.slots",
        "metrics.listener",
        "num.partitions",
        "num.replica.alter.log.dirs.threads",
        "num.recovery.threads.per.data.dir",
        "offset.metadata.max.bytes",
        "offsets.commit.required.acks",
        "offsets.commit.timeout.ms",
        "offsets.load.buffer.size",
        "offsets.retention.check.interval.ms",
        "offsets.retention.minutes",
        "offsets.topic.compression.codec",
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "offsets.topic.segment.bytes",
        "num.replica.fetchers",
        "queued.max.request.bytes",
        "quota.consumer.default",
        "quota.producer.default",
        "quota.window.num",
        "quota.window.size.seconds",
        "queued.max.request.percent.per.ip",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "replica.fetch.backoff.ms",
        "replica.fetch.max.bytes",
        "replica.fetch.min.bytes",
        "replica.fetch.response.max.bytes",
        "replica.fetch.wait.max.ms",
        "replica.high.watermark.checkpoint.interval.ms",
        "replica.lag.time.max.ms",
        "replica.selector.class",
        "replica.socket.receive.buffer.bytes",
        "replica.socket.timeout.ms",
        "replication.quota.window.num",
        "replication.quota.window.size.seconds",
        "request.timeout.ms",
        "reserved.broker.max.id",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.mechanism.inter.broker.protocol",
        "sasl.server.callback.handler.class",
        "socket.receive.buffer.bytes",
        "socket.request.max.bytes",
        "socket.send.buffer.bytes",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.principal.mapping.rules",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "transaction.max.timeout.ms",
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        "transaction.state.log.load.buffer.size",
        "transaction.state.log.min.isr",
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "transaction.state.log.segment.bytes",
        "transactional.id.expiration.ms",
        "unclean.start.wait.ms",
        "zookeeper.connection.timeout.ms",
        "zookeeper.session.timeout.ms",
    }
)

# Read through a property of the settings (`Layers`), or by its checks of what is safe.
_DERIVED: Final = frozenset(
    {
        "advertised.host.name",
        "advertised.listeners",
        "advertised.port",
        "authorizer.class.name",
        "broker.id",
        "host.name",
        "inter.broker.listener.name",
        "inter.broker.protocol.version",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "password.encoder.cipher.algorithm",
        "password.encoder.iterations",
        "password.encoder.key.length",
        "password.encoder.keyfactory.algorithm",
        "password.encoder.old.secret",
        "password.encoder.secret",
        "port",
        "security.inter.broker.protocol",
        "security.settings.ignored",
        "zookeeper.connect",
    }
)

EFFECTIVE_OF_TOPICS: Final = frozenset(
    {
        "cleanup.policy",
        "compression.type",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "index.interval.bytes",
        "leader.replication.throttled.replicas",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.difference.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
        "unclean.leader.election.enable",
    }
)
"""The settings of topics that do something."""


def _of_brokers() -> frozenset[str]:
    of_topics = {TOPIC_SETTINGS[name].broker_name or name for name in EFFECTIVE_OF_TOPICS}
    return _READ | _DERIVED | {synonym for name in of_topics for synonym in SYNONYMS.get(name, (name,))}


EFFECTIVE: Final = _of_brokers()
"""The settings of brokers that do something, also those that are only the default of a topic's."""

PARTIAL: Final[dict[str, str]] = {}
"""What some settings do less than their description says."""
