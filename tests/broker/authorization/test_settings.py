"""The settings of an authorizer, and how addresses of clients are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.authorization.authorizer import standing
from ottla.broker.authorization.snapshot import Standing
from ottla.broker.hosts import host_of
from ottla.config import BrokerConfig, ConfigError
from ottla.config.security import AUTHORIZERS, IGNORED
from tests.broker.authorization.ruled import AUTHORIZER
from tests.peers.ottla import Brokers


def of(**settings: str) -> Standing | None:
    return standing(BrokerConfig({name.replace("_", "."): value for name, value in settings.items()}))


def test_the_settings() -> None:
    assert of() is None
    assert of(authorizer_class_name=" ") is None
    assert of(super_users="User:a") is None
    for name in AUTHORIZERS:
        assert of(authorizer_class_name=name) == Standing()
    found = of(
        authorizer_class_name=AUTHORIZER,
        super_users="User:a; User:CN=b, O=c:d ;Group:e;;",
        allow_everyone_if_no_acl_found="True",
    )
    assert found == Standing(frozenset({"User:a", "User:CN=b, O=c:d", "Group:e"}), allows_without_rules=True)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"authorizer_class_name": "com.example.Mine"}, "com.example.Mine: Ottla runs no Java class that decides"),
        ({"super_users": "alice"}, "'alice' has no type: write User:alice"),
        ({"super_users": "User:a;;User:b"}, "'' has no type"),
        ({"allow_everyone_if_no_acl_found": "yes"}, "it may be true or false"),
        ({"authorizer_zookeeper_url": "localhost:2181"}, "access rules are kept in the broker's own tree"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        of(**{"authorizer_class_name": AUTHORIZER, **settings})


def test_a_file_that_has_them_is_not_warned_of(tmp_path: Path) -> None:
    """No setting of Kafka 2.7 has two of the names, which are the authorizer's own."""
    file = tmp_path / "server.properties"
    file.write_text("super.users=User:a\nallow.everyone.if.no.acl.found=true\nbroker.id=1\n")
    (warning,) = BrokerConfig.load(file).warnings
    assert warning.startswith("without effect, since there is no authorizer")
    file.write_text(f"{file.read_text()}authorizer.class.name={AUTHORIZER}\n")
    assert BrokerConfig.load(file).warnings == []


def test_a_class_of_others_may_be_ignored() -> None:
    given = {"authorizer.class.name": "com.example.Mine", IGNORED: "authorizer.class.name"}
    assert standing(BrokerConfig(given)) is None
    # That says nothing of an authorizer that there is.
    assert standing(BrokerConfig({**given, "authorizer.class.name": AUTHORIZER})) == Standing()


def test_who_comes_without_a_name_is_anonymous() -> None:
    given = {"listeners": "PLAINTEXT://:9092", "authorizer.class.name": AUTHORIZER}
    (warning,) = BrokerConfig.load(None, given).warnings
    assert "everybody who can connect may do what rules allow User:ANONYMOUS" in warning


def test_a_broker_does_not_start_with_what_it_does_not_understand(brokers: Brokers) -> None:
    given = {"authorizer.class.name": "com.example.Mine"}
    broker = brokers(settings=given, wait=False)
    assert broker.process.wait(60) != 0
    assert "com.example.Mine: Ottla runs no Java class" in broker.output_tail()


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
