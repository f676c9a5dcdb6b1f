"""The settings of an authorizer, and how addresses of clients are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.authorization.authorizer import CLASSES, standing
from ottla.broker.authorization.snapshot import Standing
from ottla.broker.hosts import host_of
from ottla.config import BrokerConfig, ConfigError
from tests.broker.authorization.ruled import AUTHORIZER
from tests.peers.ottla import Brokers


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_ACL", "1")


def of(**settings: str) -> Standing | None:
    return standing(BrokerConfig({name.replace("_", "."): value for name, value in settings.items()}))


@pytest.mark.usefixtures("served")
def test_the_settings() -> None:
    assert of() is None
    assert of(authorizer_class_name=" ") is None
    assert of(super_users="User:a") is None
    for name in CLASSES:
        assert of(authorizer_class_name=name) == Standing()
    found = of(
        authorizer_class_name=AUTHORIZER,
        super_users="User:a; User:CN=b, O=c:d ;Group:e;;",
        allow_everyone_if_no_acl_found="True",
    )
    assert found == Standing(frozenset({"User:a", "User:CN=b, O=c:d", "Group:e"}), allows_without_rules=True)


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"authorizer_class_name": "com.example.Mine"}, "com.example.Mine: Ottla runs no Java; possible are kafka.sec"),
        ({"super_users": "alice"}, "'alice' has no type: write User:alice"),
        ({"super_users": "User:a;;User:b"}, "'' has no type"),
        ({"allow_everyone_if_no_acl_found": "yes"}, "it may be true or false"),
        ({"authorizer_zookeeper_url": "localhost:2181"}, "access rules are kept in the broker's own tree"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        of(**{"authorizer_class_name": AUTHORIZER, **settings})


def test_a_file_that_has_them_is_not_warned_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of Kafka 2.7 has two of the names, which are the authorizer's own."""
    file = tmp_path / "server.properties"
    file.write_text("super.users=User:a\nallow.everyone.if.no.acl.found=true\nbroker.id=1\n")
    (warning,) = BrokerConfig.load(file).warnings
    assert warning.startswith("without effect, since there is no authorizer")
    monkeypatch.setenv("OTTLA_ACL", "1")
    assert BrokerConfig.load(file).warnings == []


def test_without_the_switch_it_is_refused() -> None:
    with pytest.raises(ConfigError, match="no authorizer"):
        of(authorizer_class_name=AUTHORIZER)


def test_a_broker_does_not_start_with_what_it_does_not_understand(brokers: Brokers) -> None:
    given = {"authorizer.class.name": "com.example.Mine"}
    broker = brokers(settings=given, environment={"OTTLA_ACL": "1"}, wait=False)
    assert broker.process.wait(60) != 0
    assert "com.example.Mine: Ottla runs no Java" in broker.output_tail()


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::00ff", "2001:db8:0:0:0:0:0:ff"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_addresses_as_java_writes_them(address: str, host: str) -> None:
    assert host_of(address) == host
