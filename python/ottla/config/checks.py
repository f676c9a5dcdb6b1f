"""What must hold between several settings, beyond each one's own range (kafka.server.KafkaConfig.validateValues).

Settings that ask for protection which Ottla does not have are refused here too (`security.py`): their author wants
strangers kept out, and a broker without the protection would serve everybody.
"""

from __future__ import annotations

from ottla.config.layers import Layers
from ottla.config.listeners import WILDCARDS, check_advertised
from ottla.config.security import check_security
from ottla.config.values import ConfigError, InvalidValue
from ottla.kafka import PROTOCOLS

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
#: The only one that Kafka brings.
REPLICA_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def check_together(config: Layers) -> None:
    """Raises ConfigError if the settings contradict each other, and InvalidValue for what the table cannot say."""
    _check_identity(config)
    _check_log(config)
    _check_replication(config)
    _check_connections(config)
    check_security(config)
    _check_listeners(config)


def _need(is_fulfilled: bool, name: str, message: str) -> None:
    if not is_fulfilled:
        raise InvalidValue(name, f"{name}: {message}")


def _check_identity(config: Layers) -> None:
    most = config.get_int("reserved.broker.max.id")
    if config.get_bool("broker.id.generation.enable"):
        _need(
            -1 <= config.broker_id <= most,
            "broker.id",
            f"{config.broker_id} is not between -1 (made up) and reserved.broker.max.id={most}",
        )
    else:
        _need(config.broker_id >= 0, "broker.id", "at least 0 is needed, since broker.id.generation.enable=false")
    _need(bool(config.data_directories), "log.dirs", "at least one directory is needed")


def _check_log(config: Layers) -> None:
    _need(config.log_roll_ms >= 1, "log.roll.ms", "it must be at least 1")
    _need(config.log_roll_jitter_ms >= 0, "log.roll.jitter.ms", "it must be at least 0")
    _need(config.log_retention_ms != 0, "log.retention.ms", "it must be at least 1, or -1 to keep records for ever")
    compression = config.get_str("compression.type")
    _need(compression in COMPRESSION_TYPES, "compression.type", f"it must be one of {', '.join(COMPRESSION_TYPES)}")
    threads = max(config.get_int("log.cleaner.threads"), 1)
    dedupe_bytes = config.get_int("log.cleaner.dedupe.buffer.size")
    _need(
        dedupe_bytes // threads > 1 << 20,
        "log.cleaner.dedupe.buffer.size",
        f"each of the {threads} cleaner threads needs more than 1048576 bytes of it",
    )


def _check_replication(config: Layers) -> None:
    wait_ms = config.get_int("replica.fetch.wait.max.ms")
    for name in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
        _need(config.get_int(name) >= wait_ms, name, f"it must be at least replica.fetch.wait.max.ms={wait_ms}")
    acks, replicas = config.get_int("offsets.commit.required.acks"), config.get_int("offsets.topic.replication.factor")
    _need(
        -1 <= acks <= replicas,
        "offsets.commit.required.acks",
        f"it must be between -1 and offsets.topic.replication.factor={replicas}",
    )
    selector = config.get_str("replica.selector.class")
    _need(
        selector in (None, REPLICA_SELECTOR),
        "replica.selector.class",
        f"it must be {REPLICA_SELECTOR}, or not be set: Ottla loads no Java classes, and has no other",
    )


def _check_connections(config: Layers) -> None:
    queued, frame = config.get_int("queued.max.request.bytes"), config.get_int("socket.request.max.bytes")
    _need(
        queued <= 0 or queued >= frame,
        "queued.max.request.bytes",
        f"it must be at least socket.request.max.bytes={frame}, or -1 for no limit",
    )
    idle_ms, delay_ms = (
        config.get_int("connections.max.idle.ms"),
        config.get_int("connection.failed.authentication.delay.ms"),
    )
    _need(
        idle_ms < 0 or delay_ms < idle_ms,
        "connection.failed.authentication.delay.ms",
        f"it must be less than connections.max.idle.ms={idle_ms}",
    )
    overrides = config.connections_per_ip_overrides
    if config.get_int("max.connections.per.ip") == 0:
        _need(bool(overrides), "max.connections.per.ip", "0 needs max.connections.per.ip.overrides, or nobody gets in")


def _check_listeners(config: Layers) -> None:
    if config.is_set("inter.broker.listener.name") and config.is_set("security.inter.broker.protocol"):
        raise ConfigError(
            "inter.broker.listener.name",
            "only one of inter.broker.listener.name and security.inter.broker.protocol is possible",
        )
    protocol = config.get_str("security.inter.broker.protocol")
    _need(protocol in PROTOCOLS, "security.inter.broker.protocol", f"it must be one of {', '.join(PROTOCOLS)}")
    check_advertised(config.advertised_listeners, config.listeners, config.inter_broker_listener)
    if control := config.get_str("control.plane.listener.name"):
        names = [endpoint.name for endpoint in config.advertised_listeners]
        _need(
            control.upper() in names and control.upper() != config.inter_broker_listener,
            "control.plane.listener.name",
            f"{control} is not one of the advertised listeners {', '.join(names)} besides the inter-broker listener "
            f"{config.inter_broker_listener}",
        )
    accepted, heard = "inter.broker.accepted.listener.names", [endpoint.name for endpoint in config.listeners]
    for name in config.get_list(accepted):
        _need(name.upper() in heard, accepted, f"{name} is not one of the listeners {', '.join(heard)}")
    if config.is_set("advertised.listeners"):
        for endpoint in config.advertised_listeners:
            _need(
                endpoint.host not in WILDCARDS,
                "advertised.listeners",
                f"{endpoint} is no address that a client could connect to; name a host",
            )
