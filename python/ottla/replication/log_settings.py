"""Where the settings of logs come from, and what the data plane is told of them."""

from __future__ import annotations

from typing import Final, Protocol

from ottla._core import LogConfig
from ottla.config import BrokerConfig, TopicConfig
from ottla.config.topic import record_format

#: Retention without a bound.
FOREVER: Final = -1


class SettingsSource(Protocol):
    """Where settings come from; they may change while the logs are open."""

    config: BrokerConfig
    topics: dict[str, dict[str, str]]

    async def load_topic(self, topic: str) -> None: ...

    def keeps_everything(self, topic: str | None) -> bool:
        """Whether settings that hold for a topic are not understood, so that nothing may be taken out of its logs."""
        ...


def topic_config(settings: SettingsSource, topic: str | None) -> TopicConfig:
    """The settings that hold for a topic now (None: for one without settings of its own)."""
    own = settings.topics.get(topic, {}) if topic is not None else {}
    return TopicConfig.as_stored(settings.config, own, keeps_everything=settings.keeps_everything(topic))


def native_config(topic: TopicConfig, broker: BrokerConfig) -> LogConfig:
    """A topic's settings as the data plane takes them."""
    return LogConfig(
        segment_bytes=topic.get_int("segment.bytes"),
        segment_ms=topic.get_int("segment.ms"),
        segment_jitter_ms=topic.get_int("segment.jitter.ms"),
        segment_index_bytes=topic.get_int("segment.index.bytes"),
        index_interval_bytes=topic.get_int("index.interval.bytes"),
        flush_messages=topic.get_int("flush.messages"),
        flush_ms=topic.get_int("flush.ms"),
        retention_bytes=FOREVER if topic.keeps_everything else topic.get_int("retention.bytes"),
        retention_ms=FOREVER if topic.keeps_everything else topic.get_int("retention.ms"),
        max_message_bytes=topic.get_int("max.message.bytes"),
        message_format=record_format(topic.get_str("message.format.version")),
        compression_type=topic.get_str("compression.type"),
        message_timestamp_type=topic.get_str("message.timestamp.type"),
        message_timestamp_difference_max_ms=topic.get_int("message.timestamp.difference.max.ms"),
        file_delete_delay_ms=topic.get_int("file.delete.delay.ms"),
        cleanup_policy=",".join(topic.get_list("cleanup.policy")),
        max_compaction_lag_ms=topic.get_int("max.compaction.lag.ms"),
        min_compaction_lag_ms=topic.get_int("min.compaction.lag.ms"),
        min_cleanable_dirty_ratio=topic.get_float("min.cleanable.dirty.ratio"),
        delete_retention_ms=topic.get_int("delete.retention.ms"),
        verify_transactions=True,
        producer_id_expiration_ms=broker.get_int("transactional.id.expiration.ms"),
    )
