"""The table, compared with the definitions inside Apache Kafka 2.7.2's own jar."""

from typing import Any

import pytest

from ottla.config.documentation import broker_documentation, topic_documentation
from ottla.config.table import (
    BROKER_SETTINGS,
    DYNAMIC_ONLY,
    OUR_DEFAULTS,
    OURS,
    SECTIONS,
    SYNONYMS,
    TOPIC,
    TOPIC_SETTINGS,
    Setting,
    TopicSetting,
)
from ottla.config.values import OneOf, Range, Throttled, Valid, Version, write

from .oracle import run_java

KAFKA = [setting for settings in SECTIONS.values() for setting in settings]


@pytest.fixture(scope="module")
def kafka() -> dict[str, dict[str, list[str]]]:
    """Kafka's definitions: kind -> name -> the other columns (see KafkaDefinitions.java)."""
    result: dict[str, dict[str, list[str]]] = {"broker": {}, "dynamic": {}, "topic": {}, "synonyms": {}}
    for line in run_java("KafkaDefinitions.java").splitlines():
        kind, name, *columns = line.split("\t")
        result[kind][name] = columns
    assert len(result["broker"]) > 200
    return result


def in_kafkas_words(valid: Valid) -> str:
    """A range as Kafka's validators write themselves."""
    match valid:
        case None:
            return ""
        case Range(least, None):
            return f"[{least},...]"
        case Range(least, most):
            return f"[{least},...,{most}]"
        case OneOf(words):
            return f"[{', '.join(words)}]"
        case Version(names):
            return f"[{', '.join(names)}]"
        case Throttled():
            return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    raise AssertionError(valid)


def as_kafka_prints(setting: Setting | TopicSetting, last: str) -> list[str]:
    default = write(setting.default)
    return [
        setting.type.label,
        "\\N" if default is None else default,
        in_kafkas_words(setting.valid),
        setting.importance.value,
        last,
    ]


@pytest.mark.java
def test_broker_settings_are_kafkas(kafka: dict[str, Any]) -> None:
    ours = {setting.name: as_kafka_prints(setting, setting.update.value) for setting in KAFKA}
    theirs = {name: ["\\N" if column == "\\R" else column for column in row] for name, row in kafka["broker"].items()}
    assert ours == theirs


@pytest.mark.java
def test_dynamic_settings_are_kafkas(kafka: dict[str, Any]) -> None:
    assert {setting.name: as_kafka_prints(setting, "") for setting in DYNAMIC_ONLY} == kafka["dynamic"]


@pytest.mark.java
def test_topic_settings_are_kafkas(kafka: dict[str, Any]) -> None:
    assert {setting.name: as_kafka_prints(setting, setting.broker_name or "") for setting in TOPIC} == kafka["topic"]


@pytest.mark.java
def test_synonyms_are_kafkas(kafka: dict[str, Any]) -> None:
    ours = {
        name: [",".join(SYNONYMS.get(name, (name,)))] for name in BROKER_SETTINGS if not BROKER_SETTINGS[name].is_ours
    }
    assert ours == kafka["synonyms"]


def test_no_name_occurs_twice() -> None:
    rows = [*KAFKA, *OURS, *DYNAMIC_ONLY]
    assert len({setting.name for setting in rows}) == len(rows)
    assert len(TOPIC_SETTINGS) == len(TOPIC)


def test_each_default_lies_in_its_range() -> None:
    for setting in [*BROKER_SETTINGS.values(), *TOPIC]:
        assert setting.valid is None or setting.default is None or setting.valid.admits(setting.default), setting.name


def test_our_own_defaults_keep_kafkas_beside_them() -> None:
    for name, (default, reason) in OUR_DEFAULTS.items():
        setting = BROKER_SETTINGS[name]
        assert setting.default == default
        assert setting.kafka_default != default or name == "zookeeper.connect"
        assert reason in broker_documentation(name)


@pytest.mark.parametrize("name", [*BROKER_SETTINGS, *(setting.name for setting in DYNAMIC_ONLY)])
def test_each_broker_setting_is_documented(name: str) -> None:
    assert broker_documentation(name).endswith(".")


@pytest.mark.parametrize("name", TOPIC_SETTINGS)
def test_each_topic_setting_is_documented(name: str) -> None:
    assert topic_documentation(name).endswith(".")
