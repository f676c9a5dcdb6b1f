"""A topic's settings: its own where it has them, else the broker's, else the default.

The fields have the names of `Log`'s settings in the data plane where there is one; each is a Kafka setting with dots
for underlines.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import cast

from ottla.config.broker import BrokerConfig
from ottla.config.names import topic_setting
from ottla.config.table import TOPIC_SETTINGS
from ottla.config.values import ConfigError, Value, check, parse, write


class TopicConfig:
    """The settings that hold for one topic. It never changes.

    `get_int("segment.bytes")` and its relatives give one by Kafka's name. overrides: the text of the topic's own.
    """

    def __init__(self, values: dict[str, Value], overrides: Mapping[str, str]) -> None:
        """Use `from_broker`."""
        self._values = values
        self.overrides = dict(overrides)

    @classmethod
    def from_broker(cls, broker: BrokerConfig, overrides: Mapping[str, str] | None = None) -> TopicConfig:
        """The settings of a topic that has `overrides` of its own, on this broker.

        Raises UnknownSetting for a name that no setting of topics has, InvalidValue, and ConfigError for
        min.compaction.lag.ms over max.compaction.lag.ms.
        """
        own = check_topic(overrides or {}) if overrides else {}
        values = {name: own[name] if name in own else broker_value(broker, name) for name in TOPIC_SETTINGS}
        return cls(values, overrides or {})

    def get(self, name: str) -> Value:
        """The value of one setting. Raises UnknownSetting."""
        return self._values[topic_setting(name).name]

    def get_int(self, name: str) -> int:
        """The value of a setting of type int or long."""
        return cast(int, self._values[name])

    def get_bool(self, name: str) -> bool:
        """The value of a boolean setting."""
        return cast(bool, self._values[name])

    def get_float(self, name: str) -> float:
        """The value of a setting of type double."""
        return cast(float, self._values[name])

    def get_str(self, name: str) -> str:
        """The value of a setting of type string."""
        return cast(str, self._values[name])

    def get_list(self, name: str) -> list[str]:
        """The value of a setting of type list."""
        return cast("list[str]", self._values[name])

    def text(self, name: str) -> str | None:
        """The value of a setting as text, as Kafka writes it."""
        return write(self.get(name))

    @property
    def is_compacted(self) -> bool:
        """Whether cleanup.policy holds `compact`."""
        return "compact" in self.get_list("cleanup.policy")

    @property
    def is_deleted(self) -> bool:
        """Whether cleanup.policy holds `delete`: old segments go."""
        return "delete" in self.get_list("cleanup.policy")

    @property
    def is_log_append_time(self) -> bool:
        """Whether records get the broker's time instead of the producer's."""
        return self.get_str("message.timestamp.type") == "LogAppendTime"


def check_topic(overrides: Mapping[str, str]) -> dict[str, Value]:
    """The values of a topic's own settings.

    Raises UnknownSetting, InvalidValue or ConfigError, as CreateTopics answers.
    """
    values: dict[str, Value] = {}
    for name, text in overrides.items():
        setting = topic_setting(name)
        values[name] = parse(name, setting.type, text)
        check(name, values[name], setting.valid)
    lag = {
        name: values.get(name, TOPIC_SETTINGS[name].default)
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    }
    least_ms, most_ms = cast("list[int]", list(lag.values()))
    if least_ms > most_ms:
        raise ConfigError(
            "min.compaction.lag.ms", f"min.compaction.lag.ms={least_ms} is more than max.compaction.lag.ms={most_ms}"
        )
    return values


def broker_value(broker: BrokerConfig, name: str) -> Value:
    """What holds on this broker for topics without their own value of a setting."""
    match name:
        case "retention.ms":
            return broker.log_retention_ms
        case "segment.ms":
            return broker.log_roll_ms
        case "segment.jitter.ms":
            return broker.log_roll_jitter_ms
        case "flush.ms":
            return broker.log_flush_interval_ms
        case "message.format.version":
            return _full_version(cast(str, broker.get("log.message.format.version")))
    setting = TOPIC_SETTINGS[name]
    return setting.default if setting.broker_name is None else broker.get(setting.broker_name)


@lru_cache(maxsize=64)
def record_format(version: str) -> int:
    """The format of records that a `message.format.version` stands for: 0, 1 or 2."""
    from ottla.config.table import VERSIONS

    place = VERSIONS.names.index(_full_version(version))
    return sum(place >= VERSIONS.names.index(first) for first in ("0.10.0-IV0", "0.11.0-IV0"))


def _full_version(version: str) -> str:
    """The full name of a format version, as Kafka shows it for topics."""
    from ottla.config.table import VERSIONS

    return VERSIONS.full(version) or version
