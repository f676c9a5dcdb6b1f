"""A topic's settings: its own, else the broker's, else the default."""

import pytest

from ottla.config import TOPIC_SETTINGS, BrokerConfig, ConfigError, InvalidValue, TopicConfig, UnknownSetting


def test_without_settings_everything_has_its_default() -> None:
    topic = TopicConfig.from_broker(BrokerConfig())
    for name, setting in TOPIC_SETTINGS.items():
        assert topic.get(name) == setting.default
    assert (topic.is_compacted, topic.is_deleted, topic.is_log_append_time) == (False, True, False)


def test_the_brokers_settings_hold_for_topics_without_their_own() -> None:
    broker = BrokerConfig(
        {
            "log.retention.minutes": "2",
            "log.roll.hours": "3",
            "log.segment.bytes": "1000",
            "log.cleanup.policy": "compact",
            "log.message.format.version": "2.0",
            "log.message.timestamp.type": "LogAppendTime",
        }
    )
    topic = TopicConfig.from_broker(broker, {"segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.25"})
    assert topic.get_int("retention.ms") == 120_000
    assert topic.get_int("segment.ms") == 10_800_000
    assert topic.get_int("segment.bytes") == 2000
    assert topic.get_float("min.cleanable.dirty.ratio") == 0.25
    assert topic.get_str("message.format.version") == "2.0-IV1"
    assert (topic.is_compacted, topic.is_deleted, topic.is_log_append_time) == (True, False, True)
    assert topic.text("min.cleanable.dirty.ratio") == "0.25"


def test_dynamic_settings_of_the_broker_reach_topics() -> None:
    broker = BrokerConfig().with_dynamic({}, {"message.max.bytes": "77"})
    assert TopicConfig.from_broker(broker).get_int("max.message.bytes") == 77


@pytest.mark.parametrize(
    ("overrides", "error", "message"),
    [
        ({"retention.mss": "1"}, UnknownSetting, r"called retention\.mss; did you mean retention\.ms\?"),
        ({"log.retention.ms": "1"}, UnknownSetting, r"for topics it is retention\.ms"),
        ({"retention.ms": "-2"}, InvalidValue, "at least -1"),
        ({"cleanup.policy": "keep"}, InvalidValue, "one of compact, delete"),
        ({"min.insync.replicas": "many"}, InvalidValue, "whole number"),
        ({"compression.type": "brotli"}, InvalidValue, "one of uncompressed"),
        ({"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}, ConfigError, "2 is more than max"),
    ],
)
def test_what_topics_cannot_have(overrides: dict[str, str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        TopicConfig.from_broker(BrokerConfig(), overrides)
