"""The settings of listeners with SASL: what is read of them, and what is said of those that cannot be served."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.authentication.between import Access
from ottla.broker.authentication.listeners import check, of_listener
from ottla.client import Security
from ottla.config import BrokerConfig, ConfigError
from tests.broker.authentication.conftest import PLAIN, users
from tests.peers.ottla import Brokers
from tests.peers.ports import free_port
from tests.support.waiting import PATIENCE_S

LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:1,SASL://127.0.0.1:2,OTHER://127.0.0.1:3",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,OTHER:SASL_PLAINTEXT",
    "listener.name.other.sasl.enabled.mechanisms": "SCRAM-SHA-512",
}
OF_PLAIN = "listener.name.sasl.plain.sasl.jaas.config"


def config(**settings: str) -> BrokerConfig:
    given = {name.replace("__", "-").replace("_", "."): text for name, text in settings.items()}
    return BrokerConfig({**LISTENERS, **given})


def test_listeners_have_their_own() -> None:
    given = {
        "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256,PLAIN",
        OF_PLAIN: users(alice='a "quoted" one', bob="b"),
        "listener_name_sasl_plain_connections_max_reauth_ms": "1000",
        "connections_max_reauth_ms": "5000",
        "connection_failed_authentication_delay_ms": "7",
    }
    found = config(**given)
    plaintext, sasl, other = found.listeners
    assert of_listener(found, plaintext) is None
    first = of_listener(found, sasl)
    assert first is not None
    assert first.mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert first.passwords == {"alice": 'a "quoted" one', "bob": "b"}
    assert first.session_ms == {"PLAIN": 1000, "SCRAM-SHA-256": 5000}
    assert first.failure_delay_ms == 7
    second = of_listener(found, other)
    assert second is not None
    assert (second.mechanisms, second.passwords) == (("SCRAM-SHA-512",), {})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "sasl.enabled.mechanisms names GSSAPI, which Ottla does not serve: Ottla has no Kerberos; possible are "),
        ({"sasl_enabled_mechanisms": "DIGEST-MD5"}, "names DIGEST-MD5, which Ottla does not serve: possible are "),
        ({"sasl_enabled_mechanisms": ""}, "sasl.enabled.mechanisms names no mechanism: nobody could come in"),
        ({"sasl_enabled_mechanisms": "PLAIN"}, f"{OF_PLAIN} is missing, which has the users of PLAIN: {PLAIN} req"),
        ({"sasl_enabled_mechanisms": "PLAIN", OF_PLAIN: f"{PLAIN} required;"}, f"{OF_PLAIN} names no user"),
        ({"sasl_enabled_mechanisms": "PLAIN", OF_PLAIN: "x required a=b;"}, f"{OF_PLAIN} has the login module x"),
        ({"sasl_enabled_mechanisms": "PLAIN", OF_PLAIN: "nonsense"}, f"{OF_PLAIN} does not begin with a login module"),
        (
            {
                "sasl_enabled_mechanisms": "SCRAM-SHA-256",
                "listener_name_sasl_scram__sha__256_sasl_server_callback_handler_class": "my.Handler",
            },
            "listener.name.sasl.scram-sha-256.sasl.server.callback.handler.class: Ottla runs no Java class that",
        ),
    ],
)
def test_what_cannot_be_served(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as problem:
        check(config(**settings))
    assert said in str(problem.value)
    assert "SASL://127.0.0.1:2" in str(problem.value)


def between(**settings: str) -> BrokerConfig:
    """Brokers talk to each other through the listener SASL."""
    given = {"inter_broker_listener_name": "SASL", "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256"}
    return config(**{**given, OF_PLAIN: users(alice="a"), **settings})


def test_who_a_broker_is_to_others() -> None:
    login = f'{PLAIN} required username="admin" password="p" user_admin="p";'
    found = Access(between(sasl_mechanism_inter_broker_protocol="PLAIN", **{OF_PLAIN: login}))
    assert found.security == Security("SASL_PLAINTEXT", mechanism="PLAIN", username="admin", password="p")
    assert Access(config(sasl_enabled_mechanisms="SCRAM-SHA-256")).security is None, (
        "they talk through another listener"
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "sasl.mechanism.inter.broker.protocol=GSSAPI: brokers talk to each other through the listener SASL://"),
        (
            {"sasl_mechanism_inter_broker_protocol": "SCRAM-SHA-512"},
            "whose mechanisms are PLAIN, SCRAM-SHA-256; it must",
        ),
        ({"sasl_mechanism_inter_broker_protocol": "PLAIN"}, f"{OF_PLAIN} has no username"),
        (
            {
                "sasl_mechanism_inter_broker_protocol": "PLAIN",
                OF_PLAIN: f'{PLAIN} required username="admin" password="p" user_admin="q";',
            },
            "could not connect to itself: its username is 'admin', and user_admin is another password",
        ),
        (
            {
                "sasl_mechanism_inter_broker_protocol": "PLAIN",
                OF_PLAIN: f'{PLAIN} required username="admin" password="p" user_bob="p";',
            },
            "could not connect to itself: its username is 'admin', and user_admin is missing",
        ),
        (
            {"sasl_mechanism_inter_broker_protocol": "SCRAM-SHA-256"},
            "listener.name.sasl.scram-sha-256.sasl.jaas.config is missing, which says who this broker is",
        ),
    ],
)
def test_a_broker_that_others_would_not_let_in(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as problem:
        Access(between(**settings))
    assert said in str(problem.value)


FILE = f"""
/* Of a broker of Kafka's. */
KafkaServer {{
    {PLAIN} required username="admin" password="p" user_admin="p" user_carol="it's"; // two users
    org.apache.kafka.common.security.scram.ScramLoginModule required
        username="scram"
        password="q";
}};
other.KafkaServer {{
    {PLAIN} required user_dave="d";
}};
Client {{ org.apache.zookeeper.server.auth.DigestLoginModule required username="z" password="z"; }};
"""


def test_a_jaas_file_says_what_settings_do_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "kafka server jaas.conf"
    path.write_text(FILE)
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1g '-Djava.security.auth.login.config={path}' -Dother=1")
    given = {"sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256", "listener_name_other_sasl_enabled_mechanisms": "PLAIN"}
    found = config(inter_broker_listener_name="SASL", sasl_mechanism_inter_broker_protocol="SCRAM-SHA-256", **given)
    _, sasl, other = (of_listener(found, endpoint) for endpoint in found.listeners)
    assert sasl is not None
    assert sasl.passwords == {"admin": "p", "carol": "it's"}
    assert other is not None
    assert other.passwords == {"dave": "d"}
    assert Access(found).security == Security(
        "SASL_PLAINTEXT", mechanism="SCRAM-SHA-256", username="scram", password="q"
    )
    own = config(**given, **{OF_PLAIN: users(erin="e")})
    first = of_listener(own, own.listeners[1])
    assert first is not None
    assert first.passwords == {"erin": "e"}, "the setting is stronger"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        ("KafkaServer", "an entry does not begin with its name and '{'"),
        ("KafkaServer { x required a=b;", "the entry KafkaServer does not end"),
        ("KafkaServer { x required a=b; }", "the entry KafkaServer does not end with '};'"),
        ("KafkaServer { x a=secret; };", "the entry KafkaServer does not begin with a login module"),
        ("Client { x required a=b; };", "sasl.jaas.config is missing, which has the users of PLAIN"),
        (f"KafkaServer {{ {PLAIN} required username=secret; }};", "entry KafkaServer names no user"),
    ],
)
def test_jaas_files_that_do_not_help(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None, said: str
) -> None:
    path = tmp_path / "jaas.conf"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={path}")
    with pytest.raises(ConfigError) as problem:
        check(config(sasl_enabled_mechanisms="PLAIN"))
    assert said in str(problem.value)
    assert "secret" not in str(problem.value)


def test_no_password_is_in_a_message() -> None:
    own, other = users(alice="secret"), users(bob="secret")
    for text in (own[:-1], own + other, f"{PLAIN} required user_a=-secret;"):
        with pytest.raises(ConfigError) as problem:
            check(config(sasl_enabled_mechanisms="PLAIN", **{OF_PLAIN: text}))
        assert "secret" not in str(problem.value)


def test_a_broker_says_it_in_one_line(brokers: Brokers) -> None:
    ports = free_port(), free_port()
    given = {
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]},SASL_PLAINTEXT://127.0.0.1:{ports[1]}",
        "sasl.enabled.mechanisms": "PLAIN",
    }
    broker = brokers(settings=given, wait=False)
    assert broker.process.wait(PATIENCE_S) == 1
    said = broker.log.read_text()
    assert "cannot start the broker: listener SASL_PLAINTEXT://" in said
    assert "Traceback" not in said
    assert not broker.data.exists()
