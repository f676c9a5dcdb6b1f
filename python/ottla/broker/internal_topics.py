"""The internal topics of this broker, with Kafka's settings for them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from ottla.config import ConfigError
from ottla.errors import CoordinatorNotAvailable, InvalidReplicationFactor, TopicAlreadyExists
from ottla.kafka import ACKS_ALL, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.logging_setup import Repeated
from ottla.replication.internal_topic import InternalTopic

if TYPE_CHECKING:
    from ottla.broker.admin import Admin
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.config import BrokerConfig
    from ottla.net import Server
    from ottla.replication.delayed import Deadlines
    from ottla.replication.replicas import Replicas
    from ottla.replication.turn import Turn


#: How long a request that needs the topic waits for its leaders before the client is told to ask again.
CREATE_SECONDS = 5.0


class Host(Protocol):
    """The parts of a broker that its internal topics need."""

    log: logging.Logger
    admin: Admin
    metadata: MetadataCache
    replicas: Replicas
    server: Server
    deadlines: Deadlines
    turn: Turn

    @property
    def config(self) -> BrokerConfig:
        """The settings that hold now."""


def offsets_settings(config: BrokerConfig) -> dict[str, str]:
    """The settings that `__consumer_offsets` is made with."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.get_int("offsets.topic.segment.bytes")),
    }


def transaction_state_settings(config: BrokerConfig) -> dict[str, str]:
    """The settings that `__transaction_state` is made with."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(config.get_int("transaction.state.log.min.isr")),
        "segment.bytes": str(config.get_int("transaction.state.log.segment.bytes")),
        "unclean.leader.election.enable": "false",
    }


def offsets_topic(broker: Host) -> InternalTopic:
    """`__consumer_offsets`: groups and how far they have read."""
    config = broker.config
    return _topic(
        broker,
        OFFSETS_TOPIC,
        partitions="offsets.topic.num.partitions",
        replication_factor="offsets.topic.replication.factor",
        overrides=offsets_settings(config),
        append_timeout_ms=config.get_int("offsets.commit.timeout.ms"),
        load_bytes=config.get_int("offsets.load.buffer.size"),
        compression=_codec(config.get_int("offsets.topic.compression.codec")),
        required_acks=config.get_int("offsets.commit.required.acks"),
    )


def transaction_state_topic(broker: Host) -> InternalTopic:
    """`__transaction_state`: transactional ids and what became of their transactions."""
    config = broker.config
    return _topic(
        broker,
        TRANSACTIONS_TOPIC,
        partitions="transaction.state.log.num.partitions",
        replication_factor="transaction.state.log.replication.factor",
        overrides=transaction_state_settings(config),
        append_timeout_ms=config.get_int("request.timeout.ms"),
        load_bytes=config.get_int("transaction.state.log.load.buffer.size"),
    )


#: offsets.topic.compression.codec: the numbers of Kafka's CompressionType
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def _codec(number: int) -> str:
    if number not in range(len(CODECS)):
        numbers = ", ".join(f"{number} {name}" for number, name in enumerate(CODECS))
        name = "offsets.topic.compression.codec"
        raise ConfigError(name, f"{name} is {number}, but must be one of {numbers}")
    return CODECS[number]


class _PartitionCount:
    """How many partitions a topic has, or will have. Once known it stays: with another count keys would belong to other
    partitions, away from what they have.
    """

    def __init__(self, broker: Host, name: str, wanted: int, said: Repeated) -> None:
        self._broker = broker
        self._name = name
        self._wanted = wanted
        self._said = said
        self._known = 0

    def __call__(self) -> int:
        name, now = self._name, len(self._broker.metadata.topics.get(self._name, ()))
        known = self._known = self._known or now
        if now > known:
            self._said.log(
                logging.ERROR,
                (name, now),
                "somebody has given %s %d partitions, past every check. This broker goes on with the %d that it had; "
                "one that starts from now on looks elsewhere for what is stored there, and does not find groups or "
                "transactions: let the topic's node in the tree have %d again before any does",
                name,
                now,
                known,
                known,
                extra={"topic": name},
            )
        return known or self._wanted


def _topic(
    broker: Host,
    name: str,
    *,
    partitions: str,
    replication_factor: str,
    overrides: Mapping[str, str | None],
    append_timeout_ms: int,
    load_bytes: int,
    compression: str = "none",
    required_acks: int = ACKS_ALL,
) -> InternalTopic:
    """`partitions` and `replication_factor` are the settings that tell these numbers."""
    partition_count_wanted = broker.config.get_int(partitions)
    replicas_wanted = broker.config.get_int(replication_factor)

    said = Repeated(broker.log)
    partition_count = _PartitionCount(broker, name, partition_count_wanted, said)

    async def create() -> None:
        metadata = broker.metadata
        if name in metadata.topics:
            return
        try:
            await broker.admin.create_topic(
                name, partitions=partition_count_wanted, replication_factor=replicas_wanted, overrides=overrides
            )
        except TopicAlreadyExists:
            pass  # another broker was first
        except InvalidReplicationFactor as error:
            message = (
                f"{name} needs {replicas_wanted} brokers ({replication_factor}); "
                f"the clients that need it wait until they are there: {error}"
            )
            # Every client asks again and again.
            said.log(logging.ERROR, name, "%s", message, extra={"topic": name})
            raise CoordinatorNotAvailable(message) from error

        def has_leaders() -> bool:
            return metadata.has_leaders(name, range(partition_count()))

        with metadata.patience(CREATE_SECONDS):
            await metadata.wait_until(has_leaders)

    return InternalTopic(
        name,
        replicas=broker.replicas,
        server=broker.server,
        deadlines=broker.deadlines,
        turn=broker.turn,
        partition_count=partition_count,
        create=create,
        append_timeout_ms=append_timeout_ms,
        compression=compression,
        load_bytes=load_bytes,
        required_acks=required_acks,
    )
