"""The security of a broker's settings, as its file has them: certificates, listeners, passwords, files, rules.

Nothing is asked of the broker, which need not run. The doctor has to run on its machine, and be allowed to read what
the broker reads.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ottla.broker import tls, zookeeper_access
from ottla.broker.authentication import listeners as sasl
from ottla.broker.authentication.logins import login
from ottla.broker.authorization.authorizer import ALLOW_EVERYONE
from ottla.config import BrokerConfig, ConfigError, Endpoint, parse_address
from ottla.config.security import has_authorizer
from ottla.doctor import certificates
from ottla.doctor.findings import Report, some

CHECK: Final = "broker's file"
CERTIFICATES: Final = "certificates"
LISTENERS: Final = "listeners"
PASSWORDS: Final = "passwords"
FILES: Final = "files of secrets"
RULES: Final = "access rules"
ZOOKEEPER: Final = "ZooKeeper"
#: Characters of a password that is not soon guessed.
PASSWORD_MIN: Final = 8
#: Of documentation, of examples, and of every list that strangers try first.
KNOWN: Final = frozenset(
    (
        *("admin", "admin-secret", "alice-secret", "broker", "broker-secret", "changeit", "changeme", "client"),
        *("confluent", "kafka", "kafka-secret", "kafkapassword", "password", "secret", "test", "test1234"),
        *("admin123", "password1", "12345678", "123456789", "test-secret", "client-secret"),
    )
)
_LOCAL: Final = ("127.", "localhost", "::1")
_EXAMPLE: Final = 'MODULE required username="..." password="...";'


def check(report: Report, file: str, now: datetime | None = None) -> None:
    """Looks at the settings in a `server.properties` file, and at the files that they name. Raises nothing."""
    try:
        config = BrokerConfig.load(file)
    except ConfigError as error:
        report.problem(CHECK, str(error), "a broker does not start with this file: change what it says")
        return
    report.ok(CHECK, f"{file} can be read")
    _check_certificates(report, config, now or datetime.now(UTC))
    _check_listeners(report, config)
    _check_passwords(report, config)
    _check_files(report, config, file)
    _check_rules(report, config)
    _check_zookeeper(report, config)


def _check_certificates(report: Report, config: BrokerConfig, now: datetime) -> None:
    is_fine = True
    secured = [*_with_tls(config)]
    for endpoint in secured:
        try:
            loaded = tls.of_listener(config, endpoint)
        except ConfigError as error:
            is_fine = False
            report.problem(CERTIFICATES, str(error), "the broker does not start so: change the setting, or the file")
            continue
        assert loaded is not None, "a listener with TLS"
        if found := certificates.expiry(loaded.chain, now):
            is_fine = False
            say = report.problem if found.is_over else report.warning
            say(CERTIFICATES, f"listener {endpoint}: {loaded.place}: {found.text}", certificates.RENEW)
        advertised = next((each for each in config.advertised_listeners if each.name == endpoint.name), endpoint)
        names = certificates.names(loaded.chain[0])
        if not advertised.is_wildcard and not names.cover(advertised.host):
            is_fine = False
            report.problem(
                CERTIFICATES,
                f"listener {endpoint}: clients are told to connect to {advertised.host}, and {loaded.place} is for "
                f"{some(names.shown) or 'no host'}",
                "clients refuse it: advertise a name that the certificate has (`advertised.listeners`), or have one "
                f"made with {advertised.host} among its alternative names",
            )
    if secured and is_fine:
        report.ok(CERTIFICATES, f"those of {some([each.name for each in secured])} are valid, and have the right names")


def _with_tls(config: BrokerConfig) -> Iterator[Endpoint]:
    """The listeners with TLS, that of the metrics included."""
    for endpoint in config.listeners:
        if endpoint.protocol.endswith("SSL"):
            yield endpoint
    text = config.get_str("metrics.listener") or ""
    if config.get_str("metrics.security.protocol") == "SSL" and text:
        with suppress(ValueError):
            yield Endpoint("METRICS", *parse_address(text), "SSL")


def _check_listeners(report: Report, config: BrokerConfig) -> None:
    exposed = [each for each in config.listeners if not _is_local(each)]
    open_ = [each for each in exposed if not _knows_clients(config, each)]
    is_secured = any(_knows_clients(config, each) or each.protocol != "PLAINTEXT" for each in config.listeners)
    if open_ and is_secured:
        report.problem(
            LISTENERS,
            f"{some([str(each) for each in open_])} lets in everybody who can connect, beside listeners that are "
            "secured",
            "take it out of `listeners`, let it listen on 127.0.0.1, or give it a protocol with SASL, or SSL with "
            "ssl.client.auth=required",
        )
    elif open_:
        report.warning(
            LISTENERS,
            f"{some([str(each) for each in open_])} lets in everybody who can connect",
            "let a firewall decide who that is, or see docs/security.md for TLS and SASL",
        )
    plain = [each for each in exposed if each.protocol == "SASL_PLAINTEXT" and "PLAIN" in _mechanisms(config, each)]
    if plain:
        report.warning(
            LISTENERS,
            f"{some([str(each) for each in plain])} takes passwords by PLAIN without TLS: whoever sees the network "
            "reads them",
            "give it the protocol SASL_SSL",
        )
    if not open_ and not plain:
        report.ok(LISTENERS, "nobody comes in from another machine without saying who it is")
    metrics = config.get_str("metrics.listener") or ""
    host = metrics.rpartition(":")[0].strip("[]")
    if host and not host.startswith((*_LOCAL, "unix")) and not config.get_str("metrics.user"):
        report.warning(
            LISTENERS,
            f"metrics.listener={metrics} tells everybody who can connect the names of topics and groups",
            "let it listen on 127.0.0.1 or at unix:PATH, or set metrics.user and metrics.password.file",
        )


def _is_local(endpoint: Endpoint) -> bool:
    return not endpoint.is_wildcard and endpoint.host.startswith(_LOCAL)


def _knows_clients(config: BrokerConfig, endpoint: Endpoint) -> bool:
    if endpoint.protocol != "SSL":
        return endpoint.protocol.startswith("SASL")
    own = f"listener.name.{endpoint.name.lower()}.ssl.client.auth"
    return config.get_str(own if config.is_set(own) else "ssl.client.auth") == "required"


def _mechanisms(config: BrokerConfig, endpoint: Endpoint) -> list[str]:
    own = f"listener.name.{endpoint.name.lower()}.sasl.enabled.mechanisms"
    return config.get_list(own if config.is_set(own) else "sasl.enabled.mechanisms")


def _check_passwords(report: Report, config: BrokerConfig) -> None:
    weak: list[str] = []
    seen = False
    for endpoint in config.listeners:
        for mechanism in _mechanisms(config, endpoint) if endpoint.protocol.startswith("SASL") else ():
            if mechanism not in sasl.SERVED:
                continue
            try:
                found = login(config, endpoint, mechanism, _EXAMPLE)
            except ConfigError as error:
                report.problem(PASSWORDS, str(error), "the broker does not start so: change the setting")
                continue
            for user, password in _passwords(found.options if found is not None else {}):
                seen = True
                if why := _weakness(user, password):
                    weak.append(f"{user} on {endpoint.name} ({why})")
    if weak:
        report.problem(
            PASSWORDS,
            f"passwords that are soon guessed: {some(weak)}",
            "give each a random one, such as that of `openssl rand -base64 24`",
        )
    elif seen:
        report.ok(PASSWORDS, "none in the settings is empty, short or well known")


def _passwords(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The users of a login, with their passwords: those who may come in, and the broker itself."""
    for name, value in options.items():
        if name.startswith("user_") and name != "user_":
            yield name.removeprefix("user_"), value
        elif name == "password":
            yield options.get("username", ""), value


def _weakness(user: str, password: str) -> str:
    """Why a password is soon guessed; empty if it is not. The reason does not tell the password."""
    if not password:
        return "empty"
    if password.lower() in KNOWN:
        return "well known"
    if password == user:
        return "the name of the user"
    return f"less than {PASSWORD_MIN} characters" if len(password) < PASSWORD_MIN else ""


def _check_files(report: Report, config: BrokerConfig, file: str) -> None:
    named = {value for name, value in config.static.items() if name.endswith(_SECRET_FILES) and value}
    if config.secrets:
        named.add(file)
    readable = sorted(path for path in named if _is_for_all(path))
    if readable:
        report.problem(
            FILES,
            f"every user of this machine can read {some(readable)}",
            f"chmod o-rwx {' '.join(readable[:5])}",
        )
    elif named:
        report.ok(FILES, "keys and passwords are not for every user of this machine")


_SECRET_FILES: Final = ("ssl.keystore.location", "metrics.password.file")


def _is_for_all(path: str) -> bool:
    """True if others may read the file, and come to it. One that is not there has a finding of its own."""
    try:
        if not os.stat(path).st_mode & stat.S_IROTH:
            return False
        return all(each.stat().st_mode & stat.S_IXOTH for each in Path(path).resolve().parents)
    except OSError:
        return False


def _check_rules(report: Report, config: BrokerConfig) -> None:
    if not has_authorizer(config):
        if any(_knows_clients(config, each) for each in config.listeners):
            report.warning(
                RULES,
                "clients say who they are, and everybody who is let in may do everything: there is no authorizer",
                "set authorizer.class.name and super.users where not all users are to have all rights",
            )
    elif config.static.get(ALLOW_EVERYONE, "").strip().lower() == "true":
        report.warning(
            RULES,
            f"{ALLOW_EVERYONE}=true: everybody may do everything with what no rule is about, so with all of it as long "
            "as there are no rules",
            f"make the rules that are needed, and take {ALLOW_EVERYONE} away",
        )
    else:
        report.ok(RULES, "nobody but super users may do what no rule allows")


def _check_zookeeper(report: Report, config: BrokerConfig) -> None:
    """Says for whom the tree is kept. The JAAS file is that of the doctor's own KAFKA_OPTS."""
    if config.zookeeper is None:
        return
    try:
        access = zookeeper_access.of_settings(config)
    except ConfigError as error:
        report.problem(
            ZOOKEEPER, str(error), "the broker does not start so; the doctor needs the KAFKA_OPTS that the broker has"
        )
        return
    if access.secures:
        report.ok(ZOOKEEPER, f"the broker keeps what it makes there as {access.who}")
    elif access.is_somebody:
        report.warning(
            ZOOKEEPER,
            f"the broker is {access.who} there, and everybody who reaches ZooKeeper may change what it makes",
            "set zookeeper.set.acl=true as soon as all brokers are that",
        )
    elif has_authorizer(config) or any(_knows_clients(config, each) for each in config.listeners):
        report.warning(
            ZOOKEEPER,
            "everybody who reaches ZooKeeper may change users and rules: the broker is nobody there",
            "keep ZooKeeper where only brokers reach it, or set zookeeper.set.acl=true (docs/zookeeper.md)",
        )
