"""Settings that ask for protection that Ottla does not have are refused, unless their owner says that they are to be
ignored.
"""

from pathlib import Path

import pytest

from ottla.config import BROKER_SETTINGS, BrokerConfig, ConfigError, InvalidValue, UnknownSetting
from ottla.config.dynamic import usable
from ottla.config.effective import EFFECTIVE
from ottla.config.security import IGNORED, REFUSED, inert_because
from ottla.config.table import SECTIONS

ASKING = {
    "alter.config.policy.class.name": "org.example.Policy",
    "authorizer.class.name": "org.example.Authorizer",
    "client.quota.callback.class": "org.example.Quotas",
    "create.topic.policy.class.name": "org.example.Policy",
    "delegation.token.master.key": "hunter2",
    "listener.name.inside.principal.builder.class": "org.example.Builder",
    "principal.builder.class": "org.example.Builder",
    "security.providers": "org.example.Provider",
}
HARMLESS = {
    "authorizer.class.name": "",
    "principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
}
INERT = {
    "connection.failed.authentication.delay.ms": "50",
    "connections.max.reauth.ms": "3600000",
    "listener.name.plaintext.scram-sha-512.connections.max.reauth.ms": "1",
    "listener.name.plaintext.ssl.client.auth": "required",
    "delegation.token.max.lifetime.ms": "1000",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": "x required;",
    "ssl.keystore.location": "/keys.jks",
    "listener.name.inside.ssl.truststore.location": "/trust.jks",
    "zookeeper.sasl.jaas.config": "hunter2",
    "zookeeper.set.acl": "true",
    "zookeeper.ssl.keystore.location": "/keys.jks",
}
ALONE = (
    "without effect, since the tree is a file in the data directory, which only the broker's own user may read: "
    "zookeeper.sasl.jaas.config, zookeeper.set.acl"
)


@pytest.mark.parametrize(("name", "value"), ASKING.items())
def test_what_asks_for_protection_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.load(None, {name: value})
    words = str(refused.value)
    assert refused.value.name == name
    assert f"{name}: " in words or f"{name}={value}: " in words
    assert "Ottla" in words
    assert f"remove the setting, or accept that in the broker's file with {IGNORED}=" in words
    assert "hunter2" not in words


@pytest.mark.parametrize(("name", "value"), ASKING.items())
def test_the_owner_may_accept_that_it_is_ignored(name: str, value: str) -> None:
    base = next(known for known in REFUSED if name.endswith(known))
    for accepted in {name, base}:
        (warning,) = BrokerConfig.load(None, {name: value, IGNORED: accepted}).warnings
        assert warning == f"{name} is ignored, as {IGNORED} says: {REFUSED[base]}"
    other = next(known for known in REFUSED if known != base)
    with pytest.raises(ConfigError, match=REFUSED[base]):
        BrokerConfig({name: value, IGNORED: other})


def test_only_what_is_refused_can_be_ignored() -> None:
    with pytest.raises(InvalidValue, match=r"security\.provider is not .* did you mean security\.providers\?"):
        BrokerConfig({IGNORED: "authorizer.class.name, security.provider"})
    with pytest.raises(InvalidValue, match=r"listeners is not a setting that Ottla refuses"):
        BrokerConfig({IGNORED: "listeners"})


@pytest.mark.parametrize(("name", "value"), HARMLESS.items())
def test_values_that_ask_for_nothing_are_taken(name: str, value: str) -> None:
    assert BrokerConfig.load(None, {name: value}).warnings == []


def test_what_has_no_effect_without_tls_or_sasl_is_a_warning_with_the_reason() -> None:
    assert sorted(BrokerConfig.load(None, INERT).warnings) == [
        "without effect, since no listener has SASL: connection.failed.authentication.delay.ms, "
        "connections.max.reauth.ms, listener.name.plaintext.plain.sasl.jaas.config, "
        "listener.name.plaintext.scram-sha-512.connections.max.reauth.ms, sasl.enabled.mechanisms",
        "without effect, since no listener has TLS: listener.name.inside.ssl.truststore.location, "
        "listener.name.plaintext.ssl.client.auth, ssl.keystore.location",
        "without effect, since the connection to ZooKeeper has no TLS: zookeeper.ssl.keystore.location",
        ALONE,
        "without effect, since there are no delegation tokens: delegation.token.max.lifetime.ms",
    ]


def test_names_that_the_table_does_not_have(tmp_path: Path) -> None:
    """An authorizer brings settings of its own, and later releases of Kafka call the master key another name."""
    file = tmp_path / "server.properties"
    file.write_text("super.users=User:admin\nallow.everyone.if.no.acl.found=false\n")
    (warning,) = BrokerConfig.load(file).warnings
    assert warning.startswith("without effect, since there is no authorizer, and everybody who is let in may do")
    assert warning.endswith("allow.everyone.if.no.acl.found, super.users")
    file.write_text("delegation.token.secret.key=hunter2\n")
    with pytest.raises(ConfigError, match=r"^delegation\.token\.secret\.key: Ottla has no delegation tokens"):
        BrokerConfig.load(file)
    # The same on the command line, where a name that nobody knows is an error.
    (warning,) = BrokerConfig.load(None, {"super.users": "User:admin"}).warnings
    assert warning.startswith("without effect, since there is no authorizer")
    with pytest.raises(ConfigError, match=r"^delegation\.token\.secret\.key: Ottla has no delegation tokens"):
        BrokerConfig.load(None, {"delegation.token.secret.key": "hunter2"})
    for name in ("super.user", "ssl.keystor.location"):
        with pytest.raises(UnknownSetting):
            BrokerConfig.load(None, {name: "x"})


def test_every_setting_of_security_has_a_verdict() -> None:
    """A new row of these sections must be refused, inert, or have an effect; nothing is dropped without a word."""
    sections = ("Who may do what", "TLS", "SASL", "Delegation tokens", "Passwords kept in dynamic settings")
    names = [setting.name for section in sections for setting in SECTIONS[section]]
    names += [name for name in BROKER_SETTINGS if name.startswith("zookeeper.ssl.")]
    names += [name for name in BROKER_SETTINGS if name.endswith((".class", ".class.name")) or "polic" in name]
    others = {"log.cleanup.policy"}
    for name in set(names) - others:
        verdicts = [name in REFUSED, inert_because(name) is not None, name in EFFECTIVE and name not in REFUSED]
        assert verdicts.count(True) == 1, (name, verdicts)


@pytest.mark.parametrize("prefix", ["", "listener.name.plaintext."])
def test_a_running_broker_is_not_given_them(prefix: str) -> None:
    name = "principal.builder.class"
    value = ASKING[name]
    with pytest.raises(ConfigError, match=name):
        BrokerConfig().require_dynamic({prefix + name: value}, for_one_broker=True)
    kept, (problem,) = usable({prefix + name: value, "message.max.bytes": "5"}, for_one_broker=True)
    assert kept == {"message.max.bytes": "5"}
    assert REFUSED[name] in str(problem)
    assert usable({prefix + name: value}, for_one_broker=True, ignored=[name]) == ({prefix + name: value}, [])


def test_with_tls_and_sasl_only_what_java_alone_has_is_a_warning() -> None:
    listeners = {"listeners": "SSL://:9093,SASL_PLAINTEXT://:9094", "inter.broker.listener.name": "SSL"}
    others = {"ssl.client.auth": "required", "ssl.provider": "SunJSSE", "sasl.kerberos.service.name": "kafka"}
    given = {**INERT, **others, **listeners, "sasl.login.refresh.window.factor": "0.5"}
    assert sorted(BrokerConfig.load(None, given).warnings) == [
        "without effect, since Ottla has no Kerberos: sasl.kerberos.service.name",
        "without effect, since a token is used for four fifths of its life, and then another one is taken: "
        "sasl.login.refresh.window.factor",
        "without effect, since only Java's own libraries look at it: ssl.provider",
        "without effect, since the connection to ZooKeeper has no TLS: zookeeper.ssl.keystore.location",
        ALONE,
        "without effect, since there are no delegation tokens: delegation.token.max.lifetime.ms",
    ]


@pytest.mark.parametrize(
    ("listener", "client_auth", "is_open"),
    [
        ("PLAINTEXT", "required", True),
        ("SSL", "none", True),
        ("SSL", "requested", True),
        ("SSL", "required", False),
        ("SASL_PLAINTEXT", "none", False),
        ("SASL_SSL", "none", False),
    ],
)
def test_a_listener_on_every_address_that_asks_who_comes_is_none(
    listener: str, client_auth: str, is_open: bool
) -> None:
    given = {
        "listeners": f"{listener}://:9093",
        "inter.broker.listener.name": listener,
        f"listener.name.{listener.lower()}.ssl.client.auth": client_auth,
    }
    warnings = BrokerConfig.load(None, given).warnings
    assert any("without authentication" in each for each in warnings) is is_open


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", ""])
def test_a_listener_on_every_address_is_a_warning(host: str) -> None:
    (warning,) = BrokerConfig.load(None, {"listeners": f"PLAINTEXT://{host}:9092"}).warnings
    assert warning.startswith(f"PLAINTEXT://{host}:9092 listens on every address of this machine")
    assert "everybody who can connect may read, write and delete everything" in warning
    assert BrokerConfig.load(None, {"listeners": "PLAINTEXT://localhost:9092"}).warnings == []


def test_a_file_for_kraft_mode_is_told_so(tmp_path: Path) -> None:
    """The file is the one that Kafka 4 ships as config/server.properties."""
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.bootstrap.servers=localhost:9093\n"
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
    )
    with pytest.raises(ConfigError, match=r"server\.properties sets process\.roles, so it is for KRaft mode; .*broker"):
        BrokerConfig.load(file)


@pytest.mark.parametrize("address", ["0.0.0.0:9404", "[::]:9404"])
def test_metrics_on_every_address_are_a_warning(address: str) -> None:
    (warning,) = BrokerConfig.load(None, {"metrics.listener": address}).warnings
    assert warning == f"metrics.listener={address} listens on every address of this machine, without a password"
    assert BrokerConfig.load(None, {"metrics.listener": ":9404"}).warnings == []
