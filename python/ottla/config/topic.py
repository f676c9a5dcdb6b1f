"""A topic's settings: its own where it has them, else the broker's, else the default.

The fields have the names of `Log`'s settings in the data plane where there is one; each is a Kafka setting with dots
for underlines.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Final, cast

from ottla.config.broker import BrokerConfig
from ottla.config.names import topic_setting
from ottla.config.table import TOPIC_SETTINGS, TopicSetting
from ottla.config.values import ConfigError, UnknownSetting, Value, check, parse, write


class TopicConfig:
    """The settings that hold for one topic. It never changes.

    `get_int("segment.bytes")` and its relatives give one by Kafka's name. overrides: the text of the topic's own.
    """

    def __init__(
        self,
        values: dict[str, Value],
        overrides: Mapping[str, str],
        problems: Mapping[str, ConfigError] | None = None,
        *,
        keeps_everything: bool = False,
    ) -> None:
        """Use `from_broker` or `as_stored`."""
        self._values = values
        self.overrides = dict(overrides)
        #: The settings among `overrides` that have no effect, each with the reason.
        self.problems = dict(problems or {})
        #: Nothing is taken out of the topic's logs: no retention, no compaction.
        self.keeps_everything = keeps_everything or bool(self.not_understood)

    @classmethod
    def from_broker(cls, broker: BrokerConfig, overrides: Mapping[str, str] | None = None) -> TopicConfig:
        """The settings of a topic that has `overrides` of its own, on this broker.

        Raises UnknownSetting for a name that no setting of topics has, InvalidValue, and ConfigError for
        min.compaction.lag.ms over max.compaction.lag.ms.
        """
        own = check_topic(overrides or {}) if overrides else {}
        values = {name: own[name] if name in own else broker_value(broker, name) for name in TOPIC_SETTINGS}
        return cls(values, overrides or {})

    @classmethod
    def as_stored(
        cls, broker: BrokerConfig, overrides: Mapping[str, str], *, keeps_everything: bool = False
    ) -> TopicConfig:
        """The settings of a topic as `/config/topics` has them, where a later Kafka, or a hand, may have written them.

        Names that no setting of topics has have no effect. Where a value is not understood the broker's holds, and
        nothing is taken out of the topic's logs, since that value may have said so.
        """
        values, problems = understood(overrides)
        whole = {name: values[name] if name in values else broker_value(broker, name) for name in TOPIC_SETTINGS}
        return cls(whole, overrides, problems, keeps_everything=keeps_everything)

    @property
    def unknown(self) -> list[str]:
        """The names among the topic's own settings that no setting of topics has."""
        return [name for name, problem in self.problems.items() if isinstance(problem, UnknownSetting)]

    @property
    def not_understood(self) -> list[str]:
        """The topic's own settings whose values cannot be taken."""
        return [name for name, problem in self.problems.items() if not isinstance(problem, UnknownSetting)]

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
        """The value of a setting as text, as Kafka writes it; one that is not understood as it is stored."""
        return self.overrides[name] if name in self.problems else write(self.get(name))

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


def check_topic(overrides: Mapping[str, str], untouched: Collection[str] = ()) -> dict[str, Value]:
    """The values of a topic's own settings. Those of `untouched` that are not valid are left out: they were stored
    before, and a change of other settings does not wait for them to be mended.

    Raises UnknownSetting, InvalidValue or ConfigError, as CreateTopics answers: the first that is found.
    """
    values: dict[str, Value] = {}
    for name, text in overrides.items():
        if name in untouched and name not in TOPIC_SETTINGS:
            continue
        try:
            values[name] = _value(topic_setting(name), text)
        except ConfigError:
            if name not in untouched:
                raise
    if (contradiction := _contradiction(values)) and not values.keys() & set(LAGS) <= set(untouched):
        raise contradiction
    return values


def understood(overrides: Mapping[str, str]) -> tuple[dict[str, Value], dict[str, ConfigError]]:
    """The values of a topic's own settings, as far as they can be taken, and an error for each other one:
    UnknownSetting, InvalidValue or ConfigError. (No name is told what it is near to: there may be many.)
    """
    values: dict[str, Value] = {}
    problems: dict[str, ConfigError] = {}
    for name, text in overrides.items():
        setting = TOPIC_SETTINGS.get(name)
        if setting is None:
            problems[name] = UnknownSetting(name, f"no setting of topics is called {name}")
            continue
        try:
            values[name] = _value(setting, text)
        except ConfigError as problem:
            problems[name] = problem
    if contradiction := _contradiction(values):
        for name in values.keys() & set(LAGS):
            problems[name] = contradiction
            del values[name]
    return values, problems


def _value(setting: TopicSetting, text: str) -> Value:
    value = parse(setting.name, setting.type, text)
    check(setting.name, value, setting.valid)
    return value


LAGS: Final = ("min.compaction.lag.ms", "max.compaction.lag.ms")


def _contradiction(values: Mapping[str, Value]) -> ConfigError | None:
    least_ms, most_ms = (cast(int, values.get(name, TOPIC_SETTINGS[name].default)) for name in LAGS)
    if least_ms <= most_ms:
        return None
    return ConfigError(
        "min.compaction.lag.ms", f"min.compaction.lag.ms={least_ms} is more than max.compaction.lag.ms={most_ms}"
    )


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
