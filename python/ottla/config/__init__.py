"""Every setting of Kafka 2.7 by its own name, with type, default, range and documentation; `server.properties`;
topics' settings.

`BrokerConfig.load(file, overrides)` is a broker's settings, `TopicConfig.from_broker(broker, overrides)` a topic's.
What DescribeConfigs answers is in `ottla.config.describe`, what AlterConfigs does to a set of settings in
`ottla.config.alter`.
"""

from ottla.config.broker import BrokerConfig, Source
from ottla.config.listeners import Endpoint, parse_address
from ottla.config.table import BROKER_SETTINGS, TOPIC_SETTINGS, Setting, TopicSetting
from ottla.config.topic import TopicConfig, check_topic
from ottla.config.values import ConfigError, InvalidValue, UnknownSetting, Value

__all__ = [
    "BROKER_SETTINGS",
    "TOPIC_SETTINGS",
    "BrokerConfig",
    "ConfigError",
    "Endpoint",
    "InvalidValue",
    "Setting",
    "Source",
    "TopicConfig",
    "TopicSetting",
    "UnknownSetting",
    "Value",
    "check_topic",
    "parse_address",
]
