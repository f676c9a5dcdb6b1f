"""The servers that other tests lean on start, answer, and end."""

import pytest

from tests.peers.apache import API_VERSIONS_V0, Apache
from tests.peers.processes import ask
from tests.peers.skips import module, require


@pytest.mark.java
@pytest.mark.zookeeper
def test_kafka_starts_and_stops(kafka: Apache, zookeeper: str) -> None:
    broker = kafka.broker("2.7.2", zookeeper=zookeeper)
    assert ask(broker.port, API_VERSIONS_V0)
    assert (broker.data / "meta.properties").exists()
    broker.stop()
    assert not ask(broker.port, API_VERSIONS_V0)


def test_a_skip_fails_where_its_kind_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_REQUIRE", "clients, java")
    with pytest.raises(pytest.fail.Exception, match="java is required here: no JVM"):
        require("java", "no JVM")
    with pytest.raises(pytest.skip.Exception, match="data: no data"):
        require("data", "no data")
    monkeypatch.setenv("OTTLA_REQUIRE", "jawa")
    with pytest.raises(pytest.UsageError, match="jawa"):
        require("java", "no JVM")


def test_an_absent_module_skips_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_REQUIRE", "spark")
    assert module("spark", "json").loads("1") == 1
    with pytest.raises(pytest.fail.Exception, match="spark is required here: no_such_module is not installed"):
        module("spark", "no_such_module")
    with pytest.raises(pytest.skip.Exception, match="arrow: no_such_module is not installed"):
        module("arrow", "no_such_module")
