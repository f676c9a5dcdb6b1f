"""Settings as DescribeConfigs answers them: value, where it comes from, and every other place that has one.

A setting's synonyms are all values of all its names that are set anywhere, the strongest first; the first is the one
in effect, and its source is the setting's (KIP-226). Secrets have no value in any of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.config.broker import BrokerConfig, Source
from ottla.config.names import base_setting
from ottla.config.table import BROKER_SETTINGS, DYNAMIC_SETTINGS, SYNONYMS, TOPIC_SETTINGS
from ottla.config.topic import TopicConfig
from ottla.config.values import Type, write


class Synonym(NamedTuple):
    """One value of one name in one place."""

    name: str
    value: str | None
    source: Source


class Described(NamedTuple):
    """One setting as DescribeConfigs v3 answers it.

    type is None if the name is no setting's, as the file may have had it.
    """

    name: str
    value: str | None
    source: Source
    synonyms: list[Synonym]
    type: Type | None
    documentation: str | None
    is_read_only: bool
    is_sensitive: bool


def describe_broker(broker: BrokerConfig, names: Iterable[str] | None = None) -> list[Described]:
    """All settings of this broker (`names`: these of them), with what was set without being one (values hidden)."""
    known = dict.fromkeys([*BROKER_SETTINGS, *broker.static, *broker.dynamic_default, *broker.dynamic_broker])
    return [_broker(broker, name) for name in known if names is None or name in names]


def describe_default_broker(broker: BrokerConfig, names: Iterable[str] | None = None) -> list[Described]:
    """The settings that all brokers of the cluster have been given while they run (the resource without a name)."""
    result = []
    for name in broker.dynamic_default:
        if names is None or name in names:
            entry = _broker(broker, name)
            synonyms = [synonym for synonym in entry.synonyms if synonym.source is Source.DYNAMIC_DEFAULT]
            value = None if entry.is_sensitive else broker.dynamic_default[name]
            source = synonyms[0].source if synonyms else Source.DEFAULT
            result.append(entry._replace(value=value, source=source, synonyms=synonyms))
    return result


def describe_topic(broker: BrokerConfig, topic: TopicConfig, names: Iterable[str] | None = None) -> list[Described]:
    """All settings of a topic (`names`: these of them). Stored names that no setting has are among them, with their
    values hidden as in Kafka, since a value may be a secret.
    """
    return [_topic(broker, topic, name) for name in (*TOPIC_SETTINGS, *topic.unknown) if names is None or name in names]


def _broker(broker: BrokerConfig, name: str) -> Described:
    from ottla.config.documentation import broker_documentation

    setting = base_setting(name)
    is_sensitive = setting is None or setting.is_sensitive
    synonyms = _synonyms(broker, name, is_sensitive)
    return Described(
        name=name,
        value=None if is_sensitive else broker.text(name),
        source=synonyms[0].source if synonyms else Source.DEFAULT,
        synonyms=synonyms,
        type=setting.type if setting else None,
        documentation=broker_documentation(setting.name) if setting else None,
        is_read_only=name not in DYNAMIC_SETTINGS,
        is_sensitive=is_sensitive,
    )


def _topic(broker: BrokerConfig, topic: TopicConfig, name: str) -> Described:
    from ottla.config.documentation import topic_documentation

    if name not in TOPIC_SETTINGS:
        return Described(name, None, Source.TOPIC, [Synonym(name, None, Source.TOPIC)], None, None, False, True)
    setting = TOPIC_SETTINGS[name]
    value = topic.text(name)
    synonyms = [] if setting.broker_name is None else _synonyms(broker, setting.broker_name, False)
    if name in topic.overrides:
        synonyms.insert(0, Synonym(name, value, Source.TOPIC))
    return Described(
        name=name,
        value=value,
        source=synonyms[0].source if synonyms else Source.DEFAULT,
        synonyms=synonyms,
        type=setting.type,
        documentation=topic_documentation(name),
        is_read_only=False,
        is_sensitive=False,
    )


def _synonyms(broker: BrokerConfig, name: str, is_sensitive: bool) -> list[Synonym]:
    """Every value that one of the setting's names has anywhere, the strongest first, beginning with the name asked
    for.
    """
    names = _names(name)
    result = [
        Synonym(synonym, None if is_sensitive else layer[synonym], source)
        for layer, source in (
            (broker.dynamic_broker, Source.DYNAMIC_BROKER),
            (broker.dynamic_default, Source.DYNAMIC_DEFAULT),
            (broker.static, Source.STATIC),
        )
        for synonym in names
        if synonym in layer
    ]
    for synonym in names:
        setting = BROKER_SETTINGS.get(synonym)
        default = None if setting is None else write(broker.default_of(synonym, setting.default))
        if default is not None:
            result.append(Synonym(synonym, None if is_sensitive else default, Source.DEFAULT))
    # Kafka forgets what stands before the name that was asked for, also where it is what is in effect: with nothing but
    # log.retention.minutes set, log.retention.ms has no synonyms and seems to be a default. Tools are used to it.
    first = next((index for index, synonym in enumerate(result) if synonym.name == name), len(result))
    return result[first:]


def _names(name: str) -> tuple[str, ...]:
    """The names of one setting, the one that wins first; a listener's own setting is followed by the general one."""
    if name in SYNONYMS:
        return SYNONYMS[name]
    setting = base_setting(name)
    return (name,) if setting is None or setting.name == name else (name, setting.name)
