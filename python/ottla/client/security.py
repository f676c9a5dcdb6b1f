"""How a client proves who it is and whom it trusts: Kafka's settings for TLS and SASL, by the names of its Java client.

Only what is asked for is here; `tls` and `sasl` do it, and are imported when a connection needs them. Files are read
when a connection is made, on the machine that makes it, and again when they have changed.

What can only be done in Java (classes that are loaded, Kerberos, JKS files) is refused by name. Settings that tune
Java's own libraries are accepted and have no effect, and so is everything but security.protocol where that says
PLAINTEXT, as in Java's client. Misspelled names are refused in any case: without its protocol a connection is plain
text.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from ottla.client.jaas import MODULES, SETTING, credentials, parse
from ottla.client.tokens import HANDLER, TokenSource
from ottla.client.tokens import NAMES as OF_TOKENS
from ottla.client.tokens import source as token_source
from ottla.kafka import PROTOCOLS

PLAINTEXT = "PLAINTEXT"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""Those with a user and a password."""
OAUTHBEARER = "OAUTHBEARER"
STORE_TYPES = ("JKS", "PKCS12", "PEM")
TLS_VERSIONS = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")

NAMES = (
    "security.protocol",
    "ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password", "ssl.truststore.certificates",
    "ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.password", "ssl.keystore.key",
    "ssl.keystore.certificate.chain", "ssl.key.password",
    "ssl.endpoint.identification.algorithm", "ssl.enabled.protocols", "ssl.protocol", "ssl.cipher.suites",
    "sasl.mechanism", "sasl.jaas.config", *OF_TOKENS,
)  # fmt: skip
"""Those that have an effect."""

REFUSED = {
    "ssl.engine.factory.class": "it names a Java class; give certificates with ssl.truststore.* and ssl.keystore.*",
    "sasl.client.callback.handler.class": "it names a Java class; give user and password in sasl.jaas.config",
    HANDLER: "it names a Java class; give user and password in sasl.jaas.config",
    "sasl.login.class": "it names a Java class; give user and password in sasl.jaas.config",
}

OTHER_NAMES = frozenset({"zookeeper.ssl.endpoint.identification.algorithm"})
"""Settings of brokers that are nearly one of these."""

NEAR = 0.88
"""How alike a name must be to count as misspelled; all others may be settings of brokers, or of later releases."""


@dataclass(frozen=True, slots=True)
class Security:
    """What a connection that is not plain text needs. May be pickled; has passwords in it, which it does not print."""

    protocol: str
    truststore_location: str | None = None
    truststore_password: str | None = field(default=None, repr=False)
    truststore_certificates: str | None = None
    """In PEM. Without trust store and certificates those of the system are trusted."""
    keystore_location: str | None = None
    keystore_password: str | None = field(default=None, repr=False)
    keystore_key: str | None = field(default=None, repr=False)
    keystore_certificate_chain: str | None = None
    key_password: str | None = field(default=None, repr=False)
    checks_name: bool = True
    """Whether the certificate must be for the host that was asked for."""
    tls_versions: tuple[str, str] = ("TLSv1.2", "TLSv1.3")
    """Lowest and highest."""
    cipher_suites: tuple[str, ...] = ()
    """By Java's (IANA's) names; empty: those that the library thinks safe."""
    mechanism: str | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    tokens: TokenSource | None = None
    """Of OAUTHBEARER, which has them in place of user and password."""

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def sasl(self) -> bool:
        """Whether connections begin with user and password."""
        return self.mechanism is not None

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self | None:
        """From a Java client's settings. None: plain text. A name that is nearly one of these (`security.protcol`) is
        an error, since it would leave a connection without what was asked for; any other is not looked at.

        Raises:
            ValueError: it names the setting that is wrong or that cannot be had here.
        """
        given = {name: value.strip() for name, value in settings.items() if name.startswith(("ssl.", "sasl."))}
        _check_names(settings)
        protocol = settings.get("security.protocol", PLAINTEXT).strip().upper()
        if protocol not in PROTOCOLS:
            raise ValueError(
                f"security.protocol is '{settings['security.protocol']}'; it is one of {', '.join(PROTOCOLS)}"
            )
        if protocol == PLAINTEXT:
            return None
        has_tokens = protocol.startswith("SASL_") and given.get("sasl.mechanism") == OAUTHBEARER
        for name, value in given.items():
            if value and name in REFUSED and not (has_tokens and name == HANDLER):
                raise ValueError(f"{name} is not supported: {REFUSED[name]}")
        fields: dict[str, Any] = {}
        if protocol.endswith("SSL"):
            fields |= _tls(given)
        if protocol.startswith("SASL_"):
            fields |= _sasl(given)
        return cls(protocol, **fields)


def _check_names(settings: Mapping[str, str]) -> None:
    for name in settings:
        near = difflib.get_close_matches(name.strip().lower(), NAMES, 1, NEAR)
        if near and near[0] != name and name not in OTHER_NAMES:
            raise ValueError(f"unknown setting '{name}'; did you mean '{near[0]}'?")
        if name.startswith("security.") and name not in ("security.protocol", "security.providers"):
            raise ValueError(
                f"unknown setting '{name}'; connections are secured by security.protocol, ssl.* and sasl.*"
            )


def _tls(given: Mapping[str, str]) -> dict[str, Any]:
    """The fields that concern TLS."""
    for store in ("truststore", "keystore"):
        kind = given.get(f"ssl.{store}.type", "")
        if kind and kind.upper() not in STORE_TYPES:
            raise ValueError(f"ssl.{store}.type is '{kind}'; here it is one of {', '.join(STORE_TYPES)}")
    found = {
        "truststore_location": given.get("ssl.truststore.location") or None,
        "truststore_password": given.get("ssl.truststore.password") or None,
        "truststore_certificates": given.get("ssl.truststore.certificates") or None,
        "keystore_location": given.get("ssl.keystore.location") or None,
        "keystore_password": given.get("ssl.keystore.password") or None,
        "keystore_key": given.get("ssl.keystore.key") or None,
        "keystore_certificate_chain": given.get("ssl.keystore.certificate.chain") or None,
        "key_password": given.get("ssl.key.password") or None,
    }
    for one, other in (
        ("truststore_location", "truststore_certificates"),
        ("keystore_location", "keystore_key"),
        ("keystore_location", "keystore_certificate_chain"),
    ):
        if found[one] and found[other]:
            raise ValueError(f"{_setting(one)} and {_setting(other)} are two answers to one question: leave one out")
    for one, other in (
        ("keystore_key", "keystore_certificate_chain"),
        ("keystore_certificate_chain", "keystore_key"),
        ("truststore_password", "truststore_location"),
        ("keystore_password", "keystore_location"),
    ):
        if found[one] and not found[other]:
            raise ValueError(f"{_setting(one)} needs {_setting(other)}, which is missing")
    identification = given.get("ssl.endpoint.identification.algorithm", "https")
    if identification.lower() not in ("https", ""):
        raise ValueError(
            f"ssl.endpoint.identification.algorithm is '{identification}'; it is https, or empty to accept a "
            "certificate for any host"
        )
    suites = tuple(_list(given.get("ssl.cipher.suites", "")))
    return {
        **found,
        "checks_name": bool(identification),
        "tls_versions": _versions(given),
        "cipher_suites": suites,
    }


def _setting(name: str) -> str:
    """The setting's name of a field: `ssl.truststore.location` of `truststore_location`."""
    return "ssl." + name.replace("_", ".")


def _list(value: str) -> list[str]:
    return [each.strip() for each in value.split(",") if each.strip()]


def _versions(given: Mapping[str, str]) -> tuple[str, str]:
    """The lowest and the highest of ssl.enabled.protocols; ssl.protocol is the most that is used."""
    enabled = _list(given.get("ssl.enabled.protocols", "")) or ["TLSv1.2", "TLSv1.3"]
    most = given.get("ssl.protocol", "") or "TLS"
    for name, values in (("ssl.enabled.protocols", enabled), ("ssl.protocol", [most])):
        for value in values:
            if value not in TLS_VERSIONS and (name, value) != ("ssl.protocol", "TLS"):
                raise ValueError(f"{name} has '{value}'; here there are {', '.join(TLS_VERSIONS)}")
    highest = TLS_VERSIONS[-1] if most == "TLS" else most
    numbers = sorted({TLS_VERSIONS.index(each) for each in enabled} & set(range(TLS_VERSIONS.index(highest) + 1)))
    if not numbers:
        raise ValueError(f"ssl.protocol={most} is lower than all of ssl.enabled.protocols={','.join(enabled)}")
    if numbers[-1] - numbers[0] >= len(numbers):
        raise ValueError(f"ssl.enabled.protocols={','.join(enabled)} leaves out a version in between")
    return TLS_VERSIONS[numbers[0]], TLS_VERSIONS[numbers[-1]]


def _sasl(given: Mapping[str, str]) -> dict[str, Any]:
    """The fields that concern SASL."""
    mechanism = given.get("sasl.mechanism", "")
    if mechanism == OAUTHBEARER:
        found = token_source(given, _options(given), SETTING)
        check_tokens(found)
        return {"mechanism": mechanism, "tokens": found}
    if mechanism not in MECHANISMS:
        stated = f"is '{mechanism}'" if mechanism else "is missing, which means GSSAPI (Kerberos)"
        raise ValueError(f"sasl.mechanism {stated}; here it is one of {', '.join((*MECHANISMS, OAUTHBEARER))}")
    username, password = credentials(given.get("sasl.jaas.config", ""), mechanism)
    return {"mechanism": mechanism, "username": username, "password": password}


def _options(given: Mapping[str, str]) -> dict[str, str]:
    """Those of the login module of OAUTHBEARER. Kafka 4.1 needs none where settings have all."""
    text = given.get(SETTING, "")
    if not text:
        return {}
    module, options = parse(text, f'{MODULES[OAUTHBEARER]} required clientId="..." clientSecret="...";')
    if module != MODULES[OAUTHBEARER]:
        raise ValueError(
            f"{SETTING} has the login module {module}; sasl.mechanism={OAUTHBEARER} needs {MODULES[OAUTHBEARER]}"
        )
    return options


def check_tokens(source: TokenSource) -> None:
    """Raises ValueError if the authorization server is to be trusted in a way that there is not."""
    try:
        Security.of({"security.protocol": "SSL", **dict(source.tls)})
    except ValueError as error:
        raise ValueError(f"{SETTING}: {error}") from None
