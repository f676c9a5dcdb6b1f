"""Settings that protect a broker of Kafka's and that Ottla cannot obey: which are refused, and which are inert.

A setting is refused if it asks for protection that Ottla does not have. Serving without the protection would look
like serving with it. A setting is inert if Kafka would not act on it either, given listeners without TLS and SASL: a
key store without a listener that uses it. Inert settings are named in a warning.

`security.settings.ignored` names refused settings whose absence the owner of the broker accepts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from typing import Final

from ottla.config.layers import Layers
from ottla.config.names import base_setting
from ottla.config.values import ConfigError, InvalidValue, parse

IGNORED: Final = "security.settings.ignored"

REFUSED: Final[dict[str, str]] = {
    "alter.config.policy.class.name": (
        "Ottla runs no Java policy for changes of settings, so every valid change is made"
    ),
    "authorizer.class.name": "Ottla has no authorizer yet, so everybody who can connect may do everything",
    "client.quota.callback.class": (
        "Ottla runs no Java class that decides quotas, so only the quotas that Ottla itself knows hold"
    ),
    "connections.max.reauth.ms": (
        "Ottla has no authentication yet, so a connection stays open without proving again who it belongs to"
    ),
    "create.topic.policy.class.name": "Ottla runs no Java policy for new topics, so every valid topic is created",
    "delegation.token.master.key": (
        "Ottla has no delegation tokens yet, so clients connect without a token or any other proof of who they are"
    ),
    "delegation.token.secret.key": (
        "Ottla has no delegation tokens yet, so clients connect without a token or any other proof of who they are"
    ),
    "principal.builder.class": "Ottla runs no Java principal builder, so every client is User:ANONYMOUS",
    "security.providers": "Ottla does not use Java's security providers, so its own cryptography is used instead",
    "ssl.client.auth": "Ottla has no listeners with TLS yet, so no client is asked for a certificate",
    "zookeeper.set.acl": (
        "Ottla sets no access rules in ZooKeeper yet, so everybody who reaches ZooKeeper may read and change what "
        "Ottla writes there, users' stored credentials included"
    ),
    "zookeeper.ssl.client.enable": "Ottla has no TLS to ZooKeeper yet, so the connection would be plain text",
}
"""What is missing where a setting asks for protection, and what follows. delegation.token.secret.key is what Kafka 2.8
and later call the master key.
"""

_HARMLESS: Final = {
    "principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    "ssl.client.auth": "none",
}
"""Values that ask for nothing, beside false, an empty text and numbers up to 0."""

_DELAY: Final = "connection.failed.authentication.delay.ms"
_OF_SASL: Final = (_DELAY, "connections.max.reauth.ms")
INERT: Final = (
    (("ssl.*",), "no listener has TLS"),
    (("sasl.*", _DELAY), "no listener has SASL"),
    (("delegation.token.*",), "there are no delegation tokens"),
    (("zookeeper.ssl.*",), "the connection to ZooKeeper has no TLS"),
    (
        ("super.users", "allow.everyone.if.no.acl.found"),
        "there is no authorizer, and everybody who can connect may do everything",
    ),
)
"""Settings that are not refused and have no effect, and why; `*` is any rest of a name."""


def serves_tls() -> bool:
    """True if listeners with TLS are served: only for tests, where a variable says so, as long as parts are missing."""
    return os.environ.get("OTTLA_TLS") == "1"


IDLE_IF_SERVED: Final = frozenset(
    {
        "sasl.client.callback.handler.class",  # of brokers as clients of each other
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "ssl.endpoint.identification.algorithm",  # of brokers as clients of each other
        "ssl.keymanager.algorithm",
        "ssl.protocol",  # ssl.enabled.protocols says all
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)
"""Settings that have no effect where listeners have TLS and SASL either: most of them are of Java, or of Kerberos."""


def serves_sasl() -> bool:
    """True if listeners with SASL are served: only for tests, as those with TLS."""
    return os.environ.get("OTTLA_SASL") == "1"


def serves(protocol: str) -> bool:
    """True if listeners for clients may have this protocol."""
    has_tls, has_sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
    return (not has_tls or serves_tls()) and (not has_sasl or serves_sasl())


def serves_between_brokers(protocol: str) -> bool:
    """True if brokers may talk to each other by this protocol. They do not speak TLS yet."""
    return serves(protocol) and not protocol.endswith("SSL")


def is_served(name: str) -> bool:
    """True if a setting is of listeners with TLS or with SASL, and these are served."""
    return (serves_tls() and base_name(name).startswith("ssl.")) or (serves_sasl() and is_of_sasl(name))


def is_of_sasl(name: str) -> bool:
    """True if a setting is of listeners with SASL."""
    base = base_name(name)
    return base.startswith("sasl.") or base in _OF_SASL


def base_name(name: str) -> str:
    """The name of the setting that `name` stands for, also behind `listener.name.LISTENER.`.

    Names that no setting of Kafka 2.7 has keep what stands behind the prefix.
    """
    if setting := base_setting(name):
        return setting.name
    return re.sub(r"^listener\.name\.[^.]+\.", "", name)


def inert_because(name: str) -> str | None:
    """Why a setting of security has no effect; None for a setting that is refused, has an effect, or is of other
    concern.
    """
    base = base_name(name)
    if base in REFUSED or is_served(name):
        return None
    for names, reason in INERT:
        if any(base.startswith(name[:-1]) if name.endswith("*") else base == name for name in names):
            return reason
    return None


def is_understood(name: str) -> bool:
    """Whether a name that no setting of Kafka 2.7 has means something all the same: an authorizer brings settings of
    its own, and later releases call the master key another name.
    """
    base = base_name(name)
    return base in REFUSED or any(base in names for names, _ in INERT)


def refusal(name: str, text: str, ignored: Collection[str]) -> ConfigError | None:
    """Why a broker does not take this setting, if it asks for protection that Ottla does not have.

    `ignored` is the value of `security.settings.ignored`.
    """
    base = base_name(name)
    if base not in REFUSED or name in ignored or base in ignored or is_served(name) or not _asks(name, base, text):
        return None
    setting = base_setting(name)
    shown = name if setting is None or setting.is_sensitive else f"{name}={text.strip()}"
    return ConfigError(
        name,
        f"{shown}: {REFUSED[base]}; remove the setting, or accept that in the broker's file with {IGNORED}={base}",
    )


def check_security(config: Layers) -> None:
    """Raises ConfigError for the first setting that asks for protection which Ottla does not have."""
    ignored = config.get_list(IGNORED)
    for name in ignored:
        if base_name(name) not in REFUSED:
            from ottla.config.nearest import hint

            raise InvalidValue(
                IGNORED,
                f"{IGNORED}: {name} is not a setting that Ottla refuses{hint(name, REFUSED)}; possible are "
                f"{', '.join(REFUSED)}",
            )
    for layer in (config.static, config.dynamic_default, config.dynamic_broker):
        for name, text in layer.items():
            if error := refusal(name, text, ignored):
                raise error


def _asks(name: str, base: str, text: str) -> bool:
    """Whether this value asks for protection."""
    text = text.strip()
    if text in ("", _HARMLESS.get(base)):
        return False
    value = parse(name, setting.type, text) if (setting := base_setting(name)) else text
    return value > 0 if isinstance(value, int) else bool(value)
