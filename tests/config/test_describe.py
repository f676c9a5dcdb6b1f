"""DescribeConfigs, compared entry by entry with Apache Kafka 2.7.2 under the same settings."""

import pytest

from ottla.config import BrokerConfig, Source, TopicConfig
from ottla.config.describe import Described, Synonym, describe_broker, describe_default_broker, describe_topic
from ottla.config.table import ALONE_DEFAULTS, OUR_DEFAULTS, OURS
from tests.peers.apache import Apache

from .oracle import run_java

STATIC = {"log.retention.minutes": "100", "log.cleaner.io.max.bytes.per.second": "12345678.5", "num.partitions": "3"}
SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": Source.TOPIC,
    "DYNAMIC_BROKER_CONFIG": Source.DYNAMIC_BROKER,
    "DYNAMIC_DEFAULT_BROKER_CONFIG": Source.DYNAMIC_DEFAULT,
    "STATIC_BROKER_CONFIG": Source.STATIC,
    "DEFAULT_CONFIG": Source.DEFAULT,
}


def without_words(entry: Described) -> list[object]:
    type_name = entry.type.name if entry.type else "UNKNOWN"
    return [entry.name, entry.value, entry.source, type_name, entry.is_read_only, entry.is_sensitive, entry.synonyms]


def read(line: str) -> list[object]:
    _, name, value, source, type_name, read_only, sensitive, synonyms = line.split("\t")

    def text(value: str) -> str | None:
        return None if value == "\\N" else value

    def synonym(item: str) -> Synonym:
        name, _, rest = item.partition("=")
        value, _, source = rest.rpartition("@")
        return Synonym(name, text(value), SOURCES[source])

    return [
        name,
        text(value),
        SOURCES[source],
        type_name,
        read_only == "true",
        sensitive == "true",
        [synonym(item) for item in synonyms.split(" ") if item],
    ]


@pytest.mark.java
def test_kafka_describes_the_same(kafka: Apache) -> None:
    zookeeper = kafka.zookeeper()
    broker = kafka.broker("2.7.2", zookeeper=f"{zookeeper}/describe", settings=STATIC)
    lines = run_java("DescribeConfigs.java", broker.bootstrap, str(broker.id)).splitlines()
    theirs = {
        kind: {entry[0]: entry for entry in map(read, lines_of)}
        for kind in ("broker", "brokers", "topic")
        if (lines_of := [line for line in lines if line.startswith(kind + "\t")])
    }
    # What the kit set besides: taken over from the answer itself, except the secrets and what has our own default.
    static = {
        str(name): synonym.value
        for name, entry in theirs["broker"].items()
        for synonym in entry[-1]  # type: ignore[attr-defined]
        if synonym.source is Source.STATIC and synonym.name == name and synonym.value is not None
    }
    assert static.items() >= STATIC.items()
    ours = BrokerConfig(static).with_dynamic(
        {"message.max.bytes": "2222222"}, {"message.max.bytes": "1111111", "log.roll.ms": "7200000"}
    )
    topic = TopicConfig.from_broker(
        ours, {"segment.bytes": "2000", "cleanup.policy": "compact,delete", "retention.ms": "1234"}
    )
    own = {*OUR_DEFAULTS, *ALONE_DEFAULTS, *(setting.name for setting in OURS)}
    for kind, described in (
        ("broker", describe_broker(ours)),
        ("brokers", describe_default_broker(ours)),
        ("topic", describe_topic(ours, topic)),
    ):
        expected = {name: entry for name, entry in theirs[kind].items() if name not in own}
        assert {entry.name: without_words(entry) for entry in described if entry.name not in own} == expected


def test_a_topics_setting_names_every_place_that_has_a_value() -> None:
    broker = BrokerConfig({"message.max.bytes": "3"}).with_dynamic(
        {"message.max.bytes": "2"}, {"message.max.bytes": "4"}
    )
    (entry,) = describe_topic(
        broker, TopicConfig.from_broker(broker, {"max.message.bytes": "1"}), ["max.message.bytes"]
    )
    assert (entry.value, entry.source) == ("1", Source.TOPIC)
    assert entry.synonyms == [
        Synonym("max.message.bytes", "1", Source.TOPIC),
        Synonym("message.max.bytes", "2", Source.DYNAMIC_BROKER),
        Synonym("message.max.bytes", "4", Source.DYNAMIC_DEFAULT),
        Synonym("message.max.bytes", "3", Source.STATIC),
        Synonym("message.max.bytes", "1048588", Source.DEFAULT),
    ]


def test_secrets_are_never_shown() -> None:
    broker = BrokerConfig({"password.encoder.secret": "hidden", "their.own.setting": "hidden"})
    assert "hidden" not in repr([entry for entry in describe_broker(broker) if entry.is_sensitive])
    assert {entry.name for entry in describe_broker(broker) if entry.is_sensitive} >= {
        "password.encoder.secret",
        "their.own.setting",
    }


def test_only_the_names_that_are_asked_for() -> None:
    assert [entry.name for entry in describe_broker(BrokerConfig(), ["num.partitions", "nothing"])] == [
        "num.partitions"
    ]
