"""A broker's settings: files, layers, what must hold between several."""

from pathlib import Path

import pytest

from ottla.config import BROKER_SETTINGS, BrokerConfig, ConfigError, InvalidValue, UnknownSetting


def test_without_settings_everything_has_its_default() -> None:
    config = BrokerConfig.load()
    for name, setting in BROKER_SETTINGS.items():
        if name not in ("offsets.topic.replication.factor",) and not name.startswith("transaction.state"):
            assert config.get(name) == setting.default
            assert not config.is_set(name)
    assert config.broker_id == -1
    assert config.zookeeper is None
    assert config.data_directories == ["./data"]
    assert config.warnings == []


def test_a_file_and_overrides(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=3\nlog.dirs=/a, /b ,\nnum.partitions = 4 \nlog.cleanup.policy=compact,delete\n")
    config = BrokerConfig.load(file, {"num.partitions": "8"})
    assert config.broker_id == 3
    assert config.data_directories == ["/a", "/b"]
    assert config.get_int("num.partitions") == 8
    assert config.get_list("log.cleanup.policy") == ["compact", "delete"]
    assert config.get_float("log.cleaner.min.cleanable.ratio") == 0.5
    assert config.get_bool("auto.create.topics.enable") is True
    assert config.get_str("broker.rack") is None
    assert config.text("log.cleanup.policy") == "compact,delete"


def test_an_unknown_name_in_a_file_is_a_warning_with_the_nearest_name(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.retention.hour=3\nconfluent.metrics.topic=x\n")
    first, second = BrokerConfig.load(file).warnings
    assert "no setting is called log.retention.hour, it has no effect; did you mean log.retention.hours?" in first
    assert "confluent.metrics.topic" in second


def test_an_unknown_name_among_overrides_is_an_error() -> None:
    with pytest.raises(UnknownSetting, match=r"called num\.partition; did you mean num\.partitions\?"):
        BrokerConfig.load(None, {"num.partition": "3"})
    with pytest.raises(UnknownSetting, match=r"called zzz$"):
        BrokerConfig.load(None, {"zzz": "3"})


def test_an_invalid_value_names_the_range(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.segment.bytes=13\n")
    with pytest.raises(InvalidValue, match=r"log\.segment\.bytes=13: it must be at least 14"):
        BrokerConfig.load(file)


@pytest.mark.parametrize(
    ("settings", "retention_ms"),
    [
        ({}, 168 * 3600_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-1"}, -1),
    ],
)
def test_the_finer_unit_of_retention_wins(settings: dict[str, str], retention_ms: int) -> None:
    assert BrokerConfig(settings).log_retention_ms == retention_ms


def test_the_finer_unit_of_rolling_wins() -> None:
    config = BrokerConfig({"log.roll.hours": "1", "log.roll.jitter.hours": "2", "log.roll.jitter.ms": "5"})
    assert (config.log_roll_ms, config.log_roll_jitter_ms) == (3600_000, 5)


def test_flushing_is_as_frequent_as_the_flusher_unless_it_is_said() -> None:
    assert BrokerConfig({"log.flush.scheduler.interval.ms": "9"}).log_flush_interval_ms == 9
    assert (
        BrokerConfig({"log.flush.scheduler.interval.ms": "9", "log.flush.interval.ms": "3"}).log_flush_interval_ms == 3
    )


def test_a_broker_without_zookeeper_needs_no_other_replicas() -> None:
    names = ("offsets.topic.replication.factor", "transaction.state.log.min.isr")
    assert [BrokerConfig().get_int(name) for name in names] == [1, 1]
    assert [BrokerConfig({"zookeeper.connect": "a:1"}).get_int(name) for name in names] == [3, 2]
    assert BrokerConfig({names[0]: "2"}).get_int(names[0]) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"broker.id": "1001"}, "reserved.broker.max.id=1000"),
        ({"broker.id": "-2"}, "not between -1"),
        ({"broker.id.generation.enable": "false"}, "at least 0 is needed"),
        ({"log.dirs": " , "}, "at least one directory"),
        ({"log.dirs": ""}, "at least one directory"),
        ({"log.retention.ms": "0"}, "at least 1, or -1"),
        ({"log.roll.ms": "0"}, "at least 1"),
        ({"compression.type": "brotli"}, "one of uncompressed, zstd"),
        ({"log.cleaner.threads": "200"}, "more than 1048576 bytes"),
        ({"replica.fetch.wait.max.ms": "40000"}, "at least replica.fetch.wait.max.ms=40000"),
        ({"offsets.commit.required.acks": "2"}, "offsets.topic.replication.factor=1"),
        ({"queued.max.request.bytes": "1000"}, "at least socket.request.max.bytes=104857600"),
        ({"connections.max.idle.ms": "50"}, "less than connections.max.idle.ms=50"),
        ({"max.connections.per.ip": "0"}, "nobody gets in"),
        ({"max.connections.per.ip.overrides": "10.0.0.1"}, "'10.0.0.1' is not ADDRESS:COUNT"),
    ],
)
def test_contradictions_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BrokerConfig(settings)


def test_what_is_set_while_it_runs_wins() -> None:
    start = BrokerConfig({"message.max.bytes": "1", "num.io.threads": "2"})
    config = start.with_dynamic({"message.max.bytes": "3"}, {"message.max.bytes": "2", "num.io.threads": "5"})
    assert (config.get_int("message.max.bytes"), config.get_int("num.io.threads")) == (3, 5)
    assert start.get_int("message.max.bytes") == 1
    with pytest.raises(InvalidValue, match="at least 1"):
        start.with_dynamic({"num.io.threads": "0"}, {})


def test_what_hubs_are_told() -> None:
    config = BrokerConfig({"max.connections.per.ip.overrides": "10.0.0.1:5, ::1:7", "queued.max.request.bytes": "-1"})
    assert config.connections_per_ip_overrides == {"10.0.0.1": 5, "::1": 7}
    assert config.queued_bytes_max == 2**63 - 1
    assert BrokerConfig().queued_bytes_max == 256 << 20


def test_more_settings_of_the_start() -> None:
    assert BrokerConfig({"num.partitions": "3"}).with_static({"broker.id": "7"}).broker_id == 7


def test_a_listeners_own_setting() -> None:
    config = BrokerConfig({"listener.name.inside.max.connections": "5", "listener.name.a.plain.sasl.jaas.config": "x"})
    assert config.get("listener.name.inside.max.connections") == 5
    with pytest.raises(InvalidValue, match="at least 0"):
        BrokerConfig({"listener.name.inside.max.connections": "-1"})
    with pytest.raises(UnknownSetting):
        config.get("listener.name.inside.nothing")


@pytest.mark.parametrize(
    ("name", "value", "for_one_broker", "message"),
    [
        ("log.retention.hours", "1", True, "cannot be changed while a broker runs"),
        ("listeners", "PLAINTEXT://:1", False, "only be set for one broker"),
        ("ssl.keystore.password", "x", True, r"listener\.name\.LISTENER\.ssl\.keystore\.password"),
        ("listener.name.a.ssl.keystore.password", "x", False, "only be set for one broker"),
        ("num.io.threads", "0", True, "at least 1"),
        ("listener.name.a.my.own", "x", False, "only be set for one broker"),
    ],
)
def test_what_running_brokers_cannot_be_given(name: str, value: str, for_one_broker: bool, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BrokerConfig().require_dynamic({name: value}, for_one_broker=for_one_broker)


@pytest.mark.parametrize(
    ("name", "for_one_broker"),
    [
        ("log.retention.ms", False),
        ("num.io.threads", True),
        ("listener.name.a.ssl.keystore.password", True),
        ("listener.name.a.max.connections", False),
        ("leader.replication.throttled.rate", True),
        ("leader.replication.throttled.rate", False),
    ],
)
def test_what_running_brokers_can_be_given(name: str, for_one_broker: bool) -> None:
    BrokerConfig().require_dynamic({name: "1000"}, for_one_broker=for_one_broker)


def test_what_a_broker_that_is_alone_cannot_fulfil_is_a_warning() -> None:
    settings = {"min.insync.replicas": "2", "default.replication.factor": "3", "offsets.topic.replication.factor": "1"}
    first, second = BrokerConfig.load(None, settings).warnings
    assert first.startswith("default.replication.factor=3, and this broker is alone")
    assert second.startswith("min.insync.replicas=2, and this broker is alone")
    assert second.endswith("a Produce with acks=all is refused (NOT_ENOUGH_REPLICAS)")
    assert BrokerConfig.load(None, {**settings, "zookeeper.connect": "a:1"}).warnings == []
