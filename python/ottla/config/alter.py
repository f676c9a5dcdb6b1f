"""What AlterConfigs and IncrementalAlterConfigs (KIP-339) do to the settings of a topic or broker: text in, text out,
no I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.config.names import base_setting, require_known, topic_setting
from ottla.config.values import ConfigError, Type, write
from ottla.kafka import ConfigOperation


class Alteration(NamedTuple):
    """One setting and what to do with it; value is None for DELETE."""

    name: str
    operation: ConfigOperation
    value: str | None


def altered(current: Mapping[str, str], alterations: Iterable[Alteration], *, of_topic: bool) -> dict[str, str]:
    """The settings after the alterations, applied in order. They are not checked: `check_topic` or `require_dynamic`
    is next.

    Lists begin with the setting's default if it has no value yet, as in Kafka. Raises ConfigError for APPEND and
    SUBTRACT of what is no list, for SET without a value, and UnknownSetting.
    """
    result = dict(current)
    for name, operation, value in alterations:
        if operation is ConfigOperation.DELETE:
            result.pop(name, None)
            continue
        if value is None:
            raise ConfigError(name, f"{name} needs a value for {operation.name}")
        if operation is ConfigOperation.SET:
            result[name] = value
        else:
            items = _items(name, result.get(name), of_topic=of_topic, operation=operation)
            changed = value.split(",")
            if operation is ConfigOperation.APPEND:
                items += changed
            else:
                items = _without(items, Counter(changed))
            result[name] = ",".join(items)
    return result


def _without(items: Iterable[str], subtracted: Counter[str]) -> list[str]:
    """Each goes as often as it is named, as in Kafka: a list may have an item twice."""
    left = []
    for item in items:
        if subtracted[item]:
            subtracted[item] -= 1
        else:
            left.append(item)
    return left


def _items(name: str, text: str | None, *, of_topic: bool, operation: ConfigOperation) -> list[str]:
    """The elements of a list's text, or of its default."""
    if of_topic:
        type, default = topic_setting(name).type, topic_setting(name).default
    else:
        require_known(name)
        setting = base_setting(name)
        assert setting is not None
        type, default = setting.type, setting.default
    if type is not Type.LIST:
        raise ConfigError(name, f"{name} is of type {type.label}; {operation.name} is for lists")
    return [item for item in (text if text is not None else write(default) or "").split(",") if item]
