"""TLS on listeners, and on the connections to other brokers: the certificate, key and trusted certificates that Kafka's
settings name, as PEM.

The settings are those of Kafka: `ssl.NAME`, or `listener.name.LISTENER.ssl.NAME` for one listener alone. Keys and
certificates stand in a file (`keystore.location`, `truststore.location`) or in the settings themselves (KIP-651). Files
are PEM or PKCS12; of a trust store in PKCS12, every certificate is trusted. PKCS12, and keys that are encrypted, need
the package `cryptography`. A problem is said in one line, which names the setting, before the broker has opened
anything.
"""

from __future__ import annotations

import hashlib
import logging
import os
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from ottla._core import Tls, TlsClient
from ottla.broker import certificates, principals
from ottla.config import ConfigError

if TYPE_CHECKING:
    from ottla.client.stores import Pem
    from ottla.config import BrokerConfig, Endpoint

logger = logging.getLogger("ottla.broker")

#: Java opens either type as the other one, and so do its users.
_TYPES = ("PEM", "PKCS12", "JKS")
_CONVERT = "keytool -importkeystore -srckeystore {file} -destkeystore {file}.p12 -deststoretype PKCS12"
#: It decides whom to trust, and how.
_ENGINE = "ssl.engine.factory.class"
#: How PKCS12 begins.
_DER = b"\x30"
#: The settings that the parts of `ottla._core.Tls` and `TlsClient` come from, where it is not known better.
_PARTS = {"protocols": "ssl.enabled.protocols", "suites": "ssl.cipher.suites"}


class _Text(NamedTuple):
    """PEM, the setting that says it or names its file, and how messages call that place."""

    pem: Pem
    setting: str
    place: str


Stamp = tuple[int, ...] | None
"""By what a file is known to be another one, or to have another content; None: there is none."""


class Loaded(NamedTuple):
    """The state of a listener's settings and files. chain: its certificate in PEM, and those that signed it. place:
    where that is, for messages. digest: differs for everything that makes a difference to clients. files: the files
    that were read, as they were before.
    """

    tls: Tls
    chain: list[str]
    place: str
    digest: bytes
    files: dict[str, Stamp]


def check(config: BrokerConfig) -> None:
    """Raises ConfigError for the first listener whose settings cannot be served."""
    for endpoint in config.listeners:
        of_listener(config, endpoint)


def stamps(paths: Iterable[str]) -> dict[str, Stamp]:
    """The files as they are now."""
    return {path: _stamp(path) for path in paths}


def _stamp(path: str) -> Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def of_listener(config: BrokerConfig, endpoint: Endpoint) -> Loaded | None:
    """The certificate, key and rules of the listener's connections; None if they are plain. Raises ConfigError."""
    return read(config, endpoint)[0] if endpoint.protocol.endswith("SSL") else None


def read(config: BrokerConfig, endpoint: Endpoint) -> tuple[Loaded, Parts]:
    """The same of a listener with TLS, and the PEM that it is made of. Raises ConfigError."""
    own = _Settings(config, endpoint)
    files = stamps(own.paths())
    keys, chain = own.keystore()
    if own.text(_ENGINE) is not None:
        name = own.name(_ENGINE)
        raise own.wrong(name, f"{name}: Ottla runs no Java class that makes TLS engines; remove the setting")
    # As in Kafka 2.7: a client with SASL is asked for no certificate.
    asks = "none" if endpoint.protocol == "SASL_SSL" else own.text("ssl.client.auth") or "none"
    trusted = own.truststore() if asks != "none" else None
    if asks != "none" and trusted is None:
        name = own.name("ssl.truststore.location")
        raise own.wrong(
            name, f"{name} is not set, and {own.name('ssl.client.auth')}={asks}: no certificate could be accepted"
        )
    given: Parts = {
        "certificates": "".join(chain.pem.of("CERTIFICATE")),
        "key": "".join(keys.pem.of("PRIVATE KEY")),
        "trusted": "".join(trusted.pem.of("CERTIFICATE")) if trusted else "",
        "client_auth": asks,
        "protocols": config.get_list(own.name("ssl.enabled.protocols")),
        "suites": config.get_list(own.name("ssl.cipher.suites")),
    }
    try:
        made = Tls(**given)
    except ValueError as error:
        raise own.unusable(error, keys, chain, trusted) from None
    rules = principals.setting(endpoint.name, config)
    try:
        principals.rules(config.get_str(rules) or "")
    except ValueError as error:
        raise own.wrong(rules, f"{rules}: {error}") from None
    digest = hashlib.sha256(repr(given).encode()).digest()
    return Loaded(made, chain.pem.of("CERTIFICATE"), chain.place, digest, files), given


def to_others(config: BrokerConfig, endpoint: Endpoint) -> Encryption:
    """How this broker connects to the same listener, which has TLS, of others: they are shown the listener's own
    certificate. As in Kafka, that must be one that this broker would trust. It must be for the host that the broker
    advertises, too, which Kafka does not look at before it connects to itself. Raises ConfigError.
    """
    own = _Settings(config, endpoint)
    files = stamps(own.paths())
    keys, chain = own.keystore()
    trusted = own.truststore() or own.of_system()
    checked = own.name("ssl.endpoint.identification.algorithm")
    algorithm = config.get_str(checked) or ""
    if algorithm.lower() not in ("", "https"):
        raise own.wrong(checked, f"{checked}={algorithm}: it is https, or empty to accept a certificate for any host")
    own_chain = "".join(chain.pem.of("CERTIFICATE"))
    authorities = "".join(trusted.pem.of("CERTIFICATE"))
    key = "".join(keys.pem.of("PRIVATE KEY"))
    protocols = config.get_list(own.name("ssl.enabled.protocols"))
    suites = config.get_list(own.name("ssl.cipher.suites"))
    advertised = next((each for each in config.advertised_listeners if each.name == endpoint.name), endpoint)
    host = None if advertised.is_wildcard else advertised.host
    try:
        client = TlsClient(
            certificates=own_chain,
            key=key,
            trusted=authorities,
            checks_name=bool(algorithm) and host is not None,
            protocols=protocols,
            suites=suites,
        )
    except ValueError as error:
        raise own.unusable(error, keys, chain, trusted) from None
    listener = of_listener(config, endpoint)
    assert listener is not None, "a listener without TLS"
    try:
        client.check(listener.tls, host or "localhost")
    except ValueError as error:
        raise own.wrong(
            chain.setting,
            f"brokers connect to each other through this listener, and this one cannot connect to itself at "
            f"{host or 'any host'} ({error}): see {chain.place}, and {trusted.place}, which says whom brokers trust",
        ) from None
    versions = sorted(protocols)
    fields: _Fields = {
        "keystore_key": key,
        "keystore_certificate_chain": own_chain,
        "truststore_certificates": authorities,
        "checks_name": bool(algorithm),
        "tls_versions": (versions[0], versions[-1]),
        "cipher_suites": tuple(suites),
    }
    return Encryption(fields, files)


def warn_of_expiry(endpoint: Endpoint, loaded: Loaded) -> None:
    """Says in the log if a certificate of the listener is not valid now: clients will refuse it."""
    now = datetime.now(UTC)
    for text in loaded.chain:
        certificate = certificates.read(text)
        if certificate.end < now:
            words, when = "expired on", certificate.end
        elif certificate.begin > now:
            words, when = "is not valid before", certificate.begin
        else:
            continue
        logger.warning(
            "listener %s: %s: a certificate %s %s, clients will refuse it", endpoint, loaded.place, words, when
        )


class _Fields(TypedDict):
    """Those of `ottla.client.Security` that are of TLS."""

    keystore_key: str
    keystore_certificate_chain: str
    truststore_certificates: str
    checks_name: bool
    tls_versions: tuple[str, str]
    cipher_suites: tuple[str, ...]


class Encryption(NamedTuple):
    """TLS of connections to other brokers. files: those that were read, as they were before."""

    fields: _Fields
    files: dict[str, Stamp]


class Parts(TypedDict):
    """The arguments of `ottla._core.Tls`: PEM, the key among it."""

    certificates: str
    key: str
    trusted: str
    client_auth: str
    protocols: list[str]
    suites: list[str]


class _Store(NamedTuple):
    """The settings of a file with keys or certificates."""

    location: str
    type: str
    password: str


_KEYSTORE = _Store("ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.password")
_TRUSTSTORE = _Store("ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password")


class _Settings:
    """The ssl.* settings of one listener."""

    def __init__(self, config: BrokerConfig, endpoint: Endpoint) -> None:
        self._config = config
        self._endpoint = endpoint

    def name(self, setting: str) -> str:
        """The listener's own setting, or that of all listeners if it has none."""
        own = f"listener.name.{self._endpoint.name.lower()}.{setting}"
        return own if self._config.is_set(own) else setting

    def text(self, setting: str) -> str | None:
        return self._config.get_str(self.name(setting)) or None

    def wrong(self, setting: str, message: str) -> ConfigError:
        return ConfigError(setting, f"listener {self._endpoint}: {message}")

    def paths(self) -> list[str]:
        """The files that may be read."""
        return [path for store in (_KEYSTORE, _TRUSTSTORE) if (path := self.text(store.location))]

    def keystore(self) -> tuple[_Text, _Text]:
        """The key, and the certificates: both are in one file, or each is in a setting of its own."""
        key, chain = self.text("ssl.keystore.key"), self.text("ssl.keystore.certificate.chain")
        if key is None and chain is None:
            found = self._file(_KEYSTORE)
            if found is None:
                name = self.name("ssl.keystore.location")
                raise self.wrong(name, f"{name} is not set: a file with the key and its certificate is needed")
            if (self.text("ssl.keystore.type") or "").upper() != "PEM":
                self._check_password()
            return self._plain(found), found
        for setting, text in (("ssl.keystore.key", key), ("ssl.keystore.certificate.chain", chain)):
            if text is None:
                raise self.wrong(
                    self.name(setting),
                    f"{self.name(setting)} is not set; ssl.keystore.key and ssl.keystore.certificate.chain come "
                    "together",
                )
        keys = self._plain(self._own("ssl.keystore.key", key or ""))
        return keys, self._own("ssl.keystore.certificate.chain", chain or "")

    def truststore(self) -> _Text | None:
        """The certificates of the authorities that sign those of the other side, and of the other side itself. None:
        the settings name none.
        """
        if (text := self.text("ssl.truststore.certificates")) is not None:
            return self._own("ssl.truststore.certificates", text)
        return self._file(_TRUSTSTORE)

    def of_system(self) -> _Text:
        """The authorities that this machine trusts."""
        from ottla.client.stores import pem

        setting = self.name("ssl.truststore.location")
        path = ssl.get_default_verify_paths().cafile
        if path is None:
            raise self.wrong(
                setting,
                f"{setting} is not set, and this machine has no list of authorities: no broker could be trusted",
            )
        try:
            with open(path, encoding="latin-1") as file:
                return _Text(pem(file.read()), setting, f"{setting} is not set, and {path}")
        except OSError as error:
            raise self.wrong(setting, f"{setting} is not set, and {path} cannot be read: {error.strerror}") from None

    def unusable(self, error: ValueError, keys: _Text, chain: _Text, trusted: _Text | None) -> ConfigError:
        """The same error of `Tls` or `TlsClient`, by the place where the part that is wrong comes from."""
        part, how = error.args
        found = {"certificates": chain, "key": keys, "trusted": trusted}.get(part)
        if found is not None:
            what = {"key": "the key ", "certificates": "the certificate "}.get(part, "")
            return self.wrong(found.setting, f"{found.place}: {what}{how}")
        setting = self.name(_PARTS[part])
        return self.wrong(setting, f"{setting}: {how}")

    def _own(self, setting: str, text: str) -> _Text:
        from ottla.client.stores import pem

        name = self.name(setting)
        return _Text(pem(text), name, name)

    def _file(self, store: _Store) -> _Text | None:
        """A store's file. None: no file is named."""
        from ottla.client.stores import JKS, is_pem, pem, read_pkcs12

        setting, kind = self.name(store.location), self.name(store.type)
        path, type_ = self.text(store.location), (self.text(store.type) or "").upper()
        if path is None:
            return None
        if type_ not in _TYPES:
            raise self.wrong(kind, f"{kind}={type_}: Ottla reads stores of the types PEM and PKCS12")
        place = f"{setting}={path}"
        try:
            with open(path, "rb") as file:
                content = file.read()
        except OSError as error:
            raise self.wrong(setting, f"{place} cannot be read: {error.strerror}") from None
        if content.startswith(JKS):
            convert = _CONVERT.format(file=path)
            raise self.wrong(
                setting,
                f"{place} is a JKS store, which only Java reads; convert it ({convert}), name the new file in "
                f"{setting} and set {kind}=PKCS12",
            )
        if is_pem(content) if type_ != "PEM" else content.startswith(_DER):
            is_, other = ("PEM", "PEM") if type_ != "PEM" else ("no PEM", "PKCS12")
            raise self.wrong(kind, f"{place} is {is_}, and {kind} is {type_}; set {kind}={other}")
        if type_ == "PEM":
            return _Text(pem(content.decode("latin-1")), setting, place)
        password = self.name(store.password)
        try:
            return _Text(read_pkcs12(place, content, self.text(store.password), password), setting, place)
        except ValueError as error:
            raise self.wrong(password, str(error)) from None

    def _check_password(self) -> None:
        """In PKCS12, a key has no password but that of the file."""
        setting, password = self.name("ssl.key.password"), self.text("ssl.key.password")
        if password not in (None, self.text("ssl.keystore.password")):
            raise self.wrong(
                setting,
                f"{setting} is not {self.name('ssl.keystore.password')}: in a store of the type PKCS12 both are one; "
                "remove it",
            )

    def _plain(self, found: _Text) -> _Text:
        """The same with a key that is not encrypted: Kafka 2.7 takes no others in files."""
        from ottla.client.stores import pem

        keys = found.pem.of("PRIVATE KEY")
        if not any("ENCRYPTED" in key for key in keys):
            return found
        setting = self.name("ssl.key.password")
        if (password := self.text("ssl.key.password")) is None:
            raise self.wrong(setting, f"{found.place}: the key is encrypted, and {setting} is not set")
        try:
            from cryptography.hazmat.primitives import serialization
        except ImportError:
            raise self.wrong(
                setting,
                f"{found.place}: the key is encrypted, which needs the package cryptography: "
                "pip install 'ottla[security]'",
            ) from None
        try:
            key = serialization.load_pem_private_key(keys[0].encode(), password.encode())
        except (ValueError, TypeError):
            raise self.wrong(setting, f"{found.place}: the key cannot be opened with {setting}") from None
        text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return found._replace(pem=pem(text.decode()))
