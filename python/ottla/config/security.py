"""Settings that protect a broker of Kafka's and that Ottla cannot obey: which are refused, and which are inert.

A setting is refused if it asks for protection that Ottla does not have. Serving without the protection would look
like serving with it. A setting is inert if nothing acts on it, in Kafka neither: a key store without a listener that
uses it; or if it tunes Java's own libraries, or what Ottla has not. Inert settings are named in a warning.

`security.settings.ignored` names refused settings whose absence the owner of the broker accepts.
"""

from __future__ import annotations

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
    "authorizer.class.name": (
        "Ottla runs no Java class that decides who may do what, it only has kafka.security.authorizer.AclAuthorizer, "
        "so everybody who is let in may do everything"
    ),
    "client.quota.callback.class": (
        "Ottla runs no Java class that decides quotas, so only the quotas that Ottla itself knows hold"
    ),
    "create.topic.policy.class.name": "Ottla runs no Java policy for new topics, so every valid topic is created",
    "delegation.token.master.key": (
        "Ottla has no delegation tokens yet, so clients connect without a token or any other proof of who they are"
    ),
    "delegation.token.secret.key": (
        "Ottla has no delegation tokens yet, so clients connect without a token or any other proof of who they are"
    ),
    "principal.builder.class": "Ottla runs no Java principal builder, so clients are named as Kafka's own names them",
    "security.providers": "Ottla does not use Java's security providers, so its own cryptography is used instead",
}
"""What is missing where a setting asks for protection, and what follows. delegation.token.secret.key is what Kafka 2.8
and later call the master key.
"""

AUTHORIZERS: Final = ("kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer")
"""The values of authorizer.class.name that Ottla knows: Kafka's own, the second by its older name."""

HARMLESS: Final[dict[str, tuple[str, ...]]] = {
    "authorizer.class.name": AUTHORIZERS,
    "principal.builder.class": ("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",),
}
"""Values that ask for nothing that Ottla does not have, beside false and an empty text."""

_WITHOUT_TLS: Final = "no listener has TLS"
_WITHOUT_SASL: Final = "no listener has SASL"
_ZOOKEEPER_WITHOUT_TLS: Final = "the connection to ZooKeeper has no TLS"
_WITHOUT_ZOOKEEPER: Final = "the tree is a file in the data directory, which only the broker's own user may read"
_WITHOUT_AUTHORIZER: Final = "there is no authorizer, and everybody who is let in may do everything"
_CONDITIONS: Final = (
    _WITHOUT_TLS,
    _WITHOUT_SASL,
    _WITHOUT_ZOOKEEPER,
    _ZOOKEEPER_WITHOUT_TLS,
    _WITHOUT_AUTHORIZER,
)

OF_AUTHORIZER: Final[dict[str, str]] = {
    "super.users": (
        "Who may do everything, whatever the rules say: principals with their types, with semicolons between them, "
        "such as User:admin;User:CN=broker."
    ),
    "allow.everyone.if.no.acl.found": (
        "Whether everybody may do everything with a resource that no rule is about. false lets nobody but super users."
    ),
}
"""The settings that an authorizer brings: neither is in Kafka's table. With their meaning."""

INERT: Final = (
    (("ssl.*",), _WITHOUT_TLS),
    (("sasl.*", "connection.failed.authentication.delay.ms", "connections.max.reauth.ms"), _WITHOUT_SASL),
    (("sasl.kerberos.*",), "Ottla has no Kerberos"),
    (("sasl.login.refresh.*",), "a token is used for four fifths of its life, and then another one is taken"),
    (
        (
            "sasl.client.callback.handler.class",
            "ssl.keymanager.algorithm",
            "ssl.protocol",
            "ssl.provider",
            "ssl.secure.random.implementation",
            "ssl.trustmanager.algorithm",
        ),
        "only Java's own libraries look at it",
    ),
    (("delegation.token.*",), "there are no delegation tokens"),
    (("zookeeper.sasl.jaas.config", "zookeeper.set.acl"), _WITHOUT_ZOOKEEPER),
    (("zookeeper.ssl.*", "zookeeper.clientCnxnSocket"), _ZOOKEEPER_WITHOUT_TLS),
    (("zookeeper.ssl.keystore.type", "zookeeper.ssl.truststore.type"), "the files themselves say what they are"),
    (tuple(OF_AUTHORIZER), _WITHOUT_AUTHORIZER),
)
"""Settings that are not refused and have no effect, and why; `*` is any rest of a name. The first reason that there is
holds.
"""


def base_name(name: str) -> str:
    """The name of the setting that `name` stands for, also behind `listener.name.LISTENER.`.

    Names that no setting of Kafka 2.7 has keep what stands behind the prefix.
    """
    if setting := base_setting(name):
        return setting.name
    return re.sub(r"^listener\.name\.[^.]+\.", "", name)


def absent(config: Layers) -> set[str]:
    """The reasons for which settings have no effect that would have one with other settings."""
    protocols = {endpoint.protocol for endpoint in config.listeners}
    protocols_with_tls = {*protocols, config.get_str("metrics.security.protocol") or ""}
    is_so = {
        _WITHOUT_TLS: not any(each.endswith("SSL") for each in protocols_with_tls),
        _WITHOUT_SASL: not any(each.startswith("SASL") for each in protocols),
        _WITHOUT_ZOOKEEPER: config.zookeeper is None,
        _ZOOKEEPER_WITHOUT_TLS: config.zookeeper is None or not config.get_bool("zookeeper.ssl.client.enable"),
        _WITHOUT_AUTHORIZER: not has_authorizer(config),
    }
    return {reason for reason, holds in is_so.items() if holds}


def has_authorizer(config: Layers) -> bool:
    """True if access rules say who may do what."""
    return (config.get_str("authorizer.class.name") or "").strip() in AUTHORIZERS


def inert_because(name: str, without: Collection[str] = ()) -> str | None:
    """Why a setting of security has no effect; None for a setting that is refused, has an effect, or is of other
    concern. `without`: what `absent` says of the other settings.
    """
    base = base_name(name)
    if base in REFUSED:
        return None
    for names, reason in INERT:
        if (reason not in _CONDITIONS or reason in without) and any(_is_one_of(base, name) for name in names):
            return reason
    return None


def _is_one_of(base: str, name: str) -> bool:
    """True if a row's name stands for this setting, too."""
    return base.startswith(name[:-1]) if name.endswith("*") else base == name


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
    if base not in REFUSED or name in ignored or base in ignored or not _asks(name, base, text):
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
    if text in ("", *HARMLESS.get(base, ())):
        return False
    value = parse(name, setting.type, text) if (setting := base_setting(name)) else text
    return bool(value)
