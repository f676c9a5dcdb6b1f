"""Who a broker is to ZooKeeper: by its settings, by the files of Kafka's brokers, and what it says if it is nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.zookeeper_access import SETTING, of_command, of_settings
from ottla.config import BrokerConfig, ConfigError
from ottla.coordination.digest_md5 import User
from tests.peers.apache import Apache
from tests.peers.ottla import Brokers
from tests.peers.secured_zookeeper import MODULE, PASSWORD, USER, SecuredZooKeeper, jaas
from tests.support.waiting import PATIENCE_S

KRB5 = "com.sun.security.auth.module.Krb5LoginModule"


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig({"zookeeper.connect": "127.0.0.1:1", **{k.replace("_", "."): v for k, v in settings.items()}})


def options(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str, others: str = "", form: str = "") -> str:
    """The variable of Kafka's scripts, with a JAAS file of this text."""
    file = folder / "jaas.conf"
    file.write_text(text)
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1g -Djava.security.auth.login.config={form}{file} {others}")
    return f"the JAAS file {file} (KAFKA_OPTS), entry "


def test_nobody_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    access = of_settings(config())
    assert (access.user, access.encrypt, access.secures, access.is_somebody) == (None, None, False, False)
    assert of_command(config()).secures is False


def test_a_line_of_the_settings() -> None:
    given = {SETTING: jaas("it's", 'a "b" \\c')}
    access = of_settings(config(**given))
    assert access.user == User("it's", 'a "b" \\c', SETTING)
    assert access.secures is False, "a login alone closes nothing: a cluster begins so"
    assert of_settings(config(**given, zookeeper_set_acl="true")).secures is True
    assert of_command(config(**given)).secures is True, "as with Kafka's tools"


@pytest.mark.parametrize(
    ("others", "entry", "form"),
    [
        ("", "Client", ""),
        ("-Dzookeeper.sasl.client=true", "Client", "="),
        ("-Dzookeeper.sasl.clientconfig=Zoo", "Zoo", "file:"),
    ],
)
def test_a_jaas_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, others: str, entry: str, form: str) -> None:
    text = f"KafkaServer {{ x required a=b; }}; Client {{ {jaas('c')} }}; Zoo {{ {jaas('z')} }};"
    place = options(monkeypatch, tmp_path, text, others, form)
    assert of_settings(config()).user == User(entry[0].lower(), PASSWORD, place + entry)
    own = of_settings(config(**{SETTING: jaas("own")}))
    assert own.user == User("own", PASSWORD, SETTING), "the setting is stronger"


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("KafkaServer { x required a=b; };", ""),
        (f"Client {{ {jaas()} }};", "-Dzookeeper.sasl.clientconfig=Other"),
        ("KafkaServer { x required a=b; };", "-Dzookeeper.sasl.client=false"),
    ],
)
def test_a_jaas_file_without_the_entry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, others: str) -> None:
    options(monkeypatch, tmp_path, text, others)
    assert of_settings(config()).user is None
    with pytest.raises(ConfigError, match="this broker is nobody to ZooKeeper"):
        of_settings(config(zookeeper_set_acl="true"))


@pytest.mark.parametrize(
    ("text", "others", "said"),
    [
        (f"Client {{ {KRB5} required useKeyTab=true; }};", "", f"Client: Ottla has no Kerberos ({KRB5}); use {MODULE}"),
        ("Client { org.example.Login required; };", "", "Ottla has no login module org.example.Login for ZooKeeper"),
        (f"Client {{ {MODULE} required username=secret; }};", "", "entry Client has no password: "),
        (f'Client {{ {MODULE} required username="" password=secret; }};', "", "entry Client has no username: "),
        (f"Client {{ {jaas()} {jaas()} }};", "", "entry Client has 2 login modules"),
        ("Client { };", "", "entry Client has 0 login modules"),
        (f"Client {{ {jaas()} }};", "-Dzookeeper.sasl.client=false", "forbids to say it"),
        ("Client {", "", "the entry Client does not end"),
    ],
)
def test_jaas_files_that_cannot_be_followed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, others: str, said: str
) -> None:
    options(monkeypatch, tmp_path, text, others)
    for settings in {}, {"zookeeper_set_acl": "true"}:
        with pytest.raises(ConfigError) as refused:
            of_settings(config(**settings))
        assert said in str(refused.value)
        assert "secret" not in str(refused.value)


def test_a_jaas_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_OPTS", "-Djava.security.auth.login.config=/no/such")
    with pytest.raises(ConfigError, match=r"the JAAS file /no/such \(KAFKA_OPTS\) cannot be read: No such file"):
        of_settings(config())


@pytest.mark.parametrize(
    ("text", "said"), [("secret", "does not begin with a login module"), (jaas()[:-1], "semicolon")]
)
def test_a_line_that_is_none(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        of_settings(config(**{SETTING: text}))
    assert "secret" not in str(refused.value)


def test_rules_of_nobody_are_refused_with_both_ways_to_be_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    encrypted = {"zookeeper.ssl.client.enable": "true"}
    for settings in {}, encrypted:
        with pytest.raises(ConfigError) as refused:
            of_settings(config(zookeeper_set_acl="true", **settings))
        assert refused.value.name == "zookeeper.set.acl"
        for way in SETTING, "entry Client of the JAAS file that KAFKA_OPTS", "zookeeper.ssl.keystore.location":
            assert way in str(refused.value)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredZooKeeper]:
    folder = tmp_path_factory.mktemp("zookeeper-access")
    with Apache(folder) as apache:
        yield SecuredZooKeeper(apache, folder)


@pytest.mark.java
@pytest.mark.zookeeper
def test_a_broker_that_is_not_let_in_says_why(secured: SecuredZooKeeper, brokers: Brokers) -> None:
    wrong = {SETTING: jaas(password="wrong-secret")}
    rules = {"zookeeper.set.acl": "true"}
    kerberos = secured.options(f"Client {{ {KRB5} required; }};")
    for settings, java, said in (
        ({**rules, **wrong}, "", f"ZooKeeper does not know the user {USER} with this password ({SETTING})"),
        (wrong, "", "the login at ZooKeeper, "),
        (rules, "", "this broker is nobody to ZooKeeper"),
        (rules, kerberos, "Ottla has no Kerberos"),
        ({}, kerberos, "Ottla has no Kerberos"),
    ):
        broker = brokers(
            zookeeper=f"{secured.place}/no", settings=settings, environment={"KAFKA_OPTS": java}, wait=False
        )
        assert broker.process.wait(PATIENCE_S) == 1
        log = broker.log.read_text()
        assert "cannot start the broker: " in log
        assert said in log
        assert "wrong-secret" not in log
        assert "Traceback" not in log


@pytest.mark.java
@pytest.mark.zookeeper
def test_a_closed_tree_is_for_its_own_user(secured: SecuredZooKeeper, brokers: Brokers) -> None:
    place = f"{secured.place}/closed"
    first = brokers(zookeeper=place, settings={SETTING: jaas(), "zookeeper.set.acl": "true"})
    assert PASSWORD not in first.log.read_text()
    assert first.stop() == 0
    # The login alone is enough to go on, and nobody is not.
    brokers(zookeeper=place, settings={SETTING: jaas()}, data=first.data, port=first.port).stop()
    nobody = brokers(zookeeper=place, data=first.data, port=first.port, wait=False)
    assert nobody.process.wait(PATIENCE_S) == 1
    assert f"only sasl:{USER} may change it), and this broker is nobody there" in nobody.log.read_text()


@pytest.mark.java
@pytest.mark.zookeeper
def test_what_was_made_before_is_named(secured: SecuredZooKeeper, brokers: Brokers) -> None:
    place = f"{secured.place}/before"
    first = brokers(zookeeper=place, settings={SETTING: jaas()})
    assert first.stop() == 0
    second = brokers(
        zookeeper=place, settings={SETTING: jaas(), "zookeeper.set.acl": "true"}, data=first.data, port=first.port
    )
    log = second.log.read_text()
    assert "everybody who reaches ZooKeeper may still change what was made before (" in log
    assert "/config/users" in log
    assert "/consumers" not in log
    assert second.stop() == 0


@pytest.mark.java
@pytest.mark.zookeeper
def test_a_zookeeper_that_keeps_nothing(kafka: Apache, brokers: Brokers, tmp_path: Path) -> None:
    place = SecuredZooKeeper(kafka, tmp_path, keeps=False).place
    for chroot in "", "/chroot":
        settings = {SETTING: jaas(), "zookeeper.set.acl": "true"}
        broker = brokers(zookeeper=place + chroot, settings=settings, wait=False)
        assert broker.process.wait(PATIENCE_S) == 1
        log = broker.log.read_text()
        assert "ZooKeeper lets us in, and keeps no node for us: its servers need authProvider.1=" in log
        assert "Traceback" not in log
