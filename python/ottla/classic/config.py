"""The settings of the classic clients: names and defaults of 0.8 to 0.10, names of 0.7 as aliases.

A setting is a field; its name is the field's with dots. `docs/classic.md` has a table of them that a test compares
with these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, get_type_hints

from ottla.classic.errors import InvalidConfig

INT_MAX = (1 << 31) - 1
CODECS = {"0": "none", "1": "gzip", "2": "snappy", "3": "lz4"}


def setting(
    default: Any,
    *aliases: str,
    least: int | None = None,
    choices: tuple[str, ...] = (),
    required: bool = False,
    unused: bool = False,
) -> Any:
    """A field. `aliases` are its names in 0.7; `unused` ones are accepted and mean nothing here."""
    about = {"aliases": aliases, "least": least, "choices": choices, "required": required, "unused": unused}
    return field(default=default, metadata=about)


class _Config:
    """What both tables can do."""

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Settings by name, as text or as values.

        Raises:
            InvalidConfig: one is unknown (the nearest name is told), missing, named twice, or cannot have its value.
        """
        fields = {name_of(each): each for each in dataclasses.fields(cls)}  # type: ignore[arg-type]
        by_alias = {alias: name for name, each in fields.items() for alias in each.metadata["aliases"]}
        hints = get_type_hints(cls)
        values: dict[str, Any] = {}
        named: dict[str, str] = {}
        for given, value in settings.items():
            name = by_alias.get(given, given)
            if name not in fields:
                from ottla.config.nearest import hint

                raise InvalidConfig(f"unknown setting '{given}'{hint(given, [*fields, *by_alias])}")
            if name in named:
                raise InvalidConfig(f"'{given}' and '{named[name]}' are one setting")
            named[name] = given
            values[fields[name].name] = _value(given, value, hints[fields[name].name], fields[name].metadata)
        for name, each in fields.items():
            if each.metadata["required"] and not values.get(each.name):
                raise InvalidConfig(f"'{name}' is missing")
        config = cls(**values)
        config.check()
        return config

    def check(self) -> None:
        """Raises InvalidConfig for settings that contradict each other."""


# ruff's RUF009 does not know that `setting` is a `field`.
def name_of(each: dataclasses.Field[Any]) -> str:
    return each.name.replace("_", ".")


def _value(name: str, value: Any, kind: Any, about: Mapping[str, Any]) -> Any:
    if kind is Any or value is None:
        return value
    text = value.strip() if isinstance(value, str) else value
    if kind is bool:
        if isinstance(value, bool):
            return value
        if isinstance(text, str) and text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise InvalidConfig(f"'{name}' is true or false, not {value!r}")
    if kind is int:
        try:
            if isinstance(value, bool | float):
                raise ValueError
            number = int(text)
        except (TypeError, ValueError):
            raise InvalidConfig(f"'{name}' is a whole number, not {value!r}") from None
        if about["least"] is not None and not about["least"] <= number <= INT_MAX:
            raise InvalidConfig(f"'{name}' is from {about['least']} to {INT_MAX}, not {number}")
        return number
    if isinstance(value, list | tuple):
        text = ",".join(map(str, value))
    elif not isinstance(value, str | int):
        raise InvalidConfig(f"'{name}' is text, not {value!r}")
    text = str(text)
    if name == "compression.codec":
        text = CODECS.get(text, text.lower())
    if about["choices"] and text not in about["choices"]:
        raise InvalidConfig(f"'{name}' is {' or '.join(about['choices'])}, not {value!r}")
    return text


@dataclass(frozen=True)
class ProducerConfig(_Config):
    """`ProducerConfig.of({"metadata.broker.list": "127.0.0.1:9092"})`. Times are milliseconds, sizes bytes."""

    metadata_broker_list: str = setting("", "broker.list")
    zookeeper_connect: str = setting("", "zk.connect")
    producer_type: str = setting("sync", choices=("sync", "async"))
    request_required_acks: int = setting(0, least=-1)
    request_timeout_ms: int = setting(10_000, "socket.timeout.ms", least=1)
    connect_timeout_ms: int = setting(10_000, least=1)
    message_send_max_retries: int = setting(3, "num.retries", least=0)
    retry_backoff_ms: int = setting(100, least=0)
    topic_metadata_refresh_interval_ms: int = setting(600_000, least=-1)
    compression_codec: str = setting("none", choices=("none", "gzip", "snappy", "lz4"))
    compressed_topics: str = setting("")
    serializer_class: Any = setting("kafka.serializer.DefaultEncoder")  # noqa: RUF009
    key_serializer_class: Any = setting(None)  # noqa: RUF009
    partitioner_class: Any = setting("kafka.producer.DefaultPartitioner")  # noqa: RUF009
    event_handler: Any = setting(None)  # noqa: RUF009
    event_handler_props: Any = setting(None)  # noqa: RUF009
    callback_handler: Any = setting(None)  # noqa: RUF009
    callback_handler_props: Any = setting(None)  # noqa: RUF009
    queue_buffering_max_ms: int = setting(5000, "queue.time", least=0)
    queue_buffering_max_messages: int = setting(10_000, "queue.size", least=1)
    queue_enqueue_timeout_ms: int = setting(-1, least=-1)
    batch_num_messages: int = setting(200, "batch.size", least=1)
    max_message_size: int = setting(1_000_000, least=1)
    client_id: str = setting("")
    zookeeper_session_timeout_ms: int = setting(6000, "zk.sessiontimeout.ms", least=100)
    zookeeper_connection_timeout_ms: int = setting(6000, "zk.connectiontimeout.ms", least=1)
    send_buffer_bytes: int = setting(102_400, "buffer.size", unused=True)
    reconnect_interval: int = setting(INT_MAX, unused=True)
    zookeeper_sync_time_ms: int = setting(2000, "zk.synctime.ms", unused=True)

    def check(self) -> None:
        if bool(self.metadata_broker_list) == bool(self.zookeeper_connect):
            raise InvalidConfig("one of 'metadata.broker.list' and 'zookeeper.connect' says where the brokers are")
        if self.request_required_acks > 1:
            raise InvalidConfig(f"'request.required.acks' is 0, 1 or -1, not {self.request_required_acks}")
        if self.batch_num_messages > self.queue_buffering_max_messages:
            raise InvalidConfig("'batch.num.messages' is greater than 'queue.buffering.max.messages'")

    def codec(self, topic: str) -> str:
        """The compression of a topic: with `compressed.topics`, only those named there."""
        named = self.compressed_topics.replace(" ", "").split(",")
        return self.compression_codec if named == [""] or topic in named else "none"


@dataclass(frozen=True)
class ConsumerConfig(_Config):
    """`ConsumerConfig.of({"group.id": "mine", "zookeeper.connect": "127.0.0.1:2181"})`. Times are milliseconds."""

    group_id: str = setting("", "groupid", required=True)
    zookeeper_connect: str = setting("", "zk.connect", required=True)
    consumer_id: str = setting("", "consumerid")
    client_id: str = setting("")
    auto_commit_enable: bool = setting(True, "autocommit.enable")
    auto_commit_interval_ms: int = setting(60_000, "autocommit.interval.ms", least=1)
    auto_offset_reset: str = setting("largest", "autooffset.reset", choices=("smallest", "largest", "error"))
    consumer_timeout_ms: int = setting(-1, least=-1)
    fetch_message_max_bytes: int = setting(1024 * 1024, "fetch.size", least=1)
    fetch_wait_max_ms: int = setting(100, least=0)
    queued_max_message_chunks: int = setting(2, "queuedchunks.max", least=1)
    socket_timeout_ms: int = setting(30_000, least=1)
    refresh_leader_backoff_ms: int = setting(200, "backoff.increment.ms", least=1)
    exclude_internal_topics: bool = setting(True)
    partition_assignment_strategy: str = setting("range", choices=("range", "roundrobin"))
    rebalance_max_retries: int = setting(4, "rebalance.retries.max", least=0)
    rebalance_backoff_ms: int = setting(2000, least=1)
    zookeeper_session_timeout_ms: int = setting(6000, "zk.sessiontimeout.ms", least=100)
    zookeeper_connection_timeout_ms: int = setting(6000, "zk.connectiontimeout.ms", least=1)
    offsets_storage: str = setting("zookeeper", choices=("zookeeper", "kafka"))
    dual_commit_enabled: bool = setting(True)
    offsets_channel_backoff_ms: int = setting(1000, least=1)
    offsets_channel_socket_timeout_ms: int = setting(10_000, least=1)
    offsets_commit_max_retries: int = setting(5, least=0)
    fetch_min_bytes: int = setting(1, unused=True)
    num_consumer_fetchers: int = setting(1, unused=True)
    socket_receive_buffer_bytes: int = setting(64 * 1024, "socket.buffersize", unused=True)
    zookeeper_sync_time_ms: int = setting(2000, "zk.synctime.ms", unused=True)

    def check(self) -> None:
        if "/" in self.group_id or "/" in self.consumer_id:
            raise InvalidConfig("'group.id' and 'consumer.id' are names of nodes in ZooKeeper, without '/'")
