"""TLS on listeners: the certificate, key and trusted certificates that Kafka's settings name, as PEM.

The settings are those of Kafka: `ssl.NAME`, or `listener.name.LISTENER.ssl.NAME` for one listener alone. Keys and
certificates stand in a file (`keystore.location`, `truststore.location`) or in the settings themselves (KIP-651). A key
that is encrypted needs the package `cryptography`. What is wrong is said in one line, which names the setting, before
the broker has opened anything.

Listeners with TLS are served only where `OTTLA_TLS=1` is set (`ottla.config.security.serves_tls`), and none of these
settings is among the effective ones (`ottla.config.effective`) before that is gone.
"""

from __future__ import annotations

import base64
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from ottla._core import Tls
from ottla.config import ConfigError

if TYPE_CHECKING:
    from ottla.client.stores import Pem
    from ottla.config import BrokerConfig, Endpoint

logger = logging.getLogger("ottla.broker")

#: Commands that convert a key store and a trust store to PEM. Java's tool has no export of keys but to PKCS12.
_KEYS = (
    "keytool -importkeystore -srckeystore {file} -destkeystore keystore.p12 -deststoretype PKCS12; "
    "openssl pkcs12 -in keystore.p12 -nodes -out keystore.pem"
)
_KEYS_OF_PKCS12 = "openssl pkcs12 -in {file} -nodes -out keystore.pem"
_TRUSTED = "keytool -list -rfc -keystore {file} > truststore.pem"
#: The settings that the parts of `ottla._core.Tls` come from, where it is not known better.
_PARTS = {"protocols": "enabled.protocols", "suites": "cipher.suites"}


class _Text(NamedTuple):
    """PEM, the setting that says it or names its file, and how messages call that place."""

    pem: Pem
    setting: str
    place: str


def check(config: BrokerConfig) -> None:
    """Raises ConfigError for the first listener whose settings cannot be served."""
    for endpoint in config.listeners:
        of_listener(config, endpoint)


def of_listener(config: BrokerConfig, endpoint: Endpoint) -> Tls | None:
    """The certificate, key and rules of the listener's connections; None if they are plain. Raises ConfigError."""
    if not endpoint.protocol.endswith("SSL"):
        return None
    own = _Settings(config, endpoint)
    keys, chain = own.keystore()
    # As in Kafka 2.7: a client with SASL is asked for no certificate.
    asks = "none" if endpoint.protocol == "SASL_SSL" else own.text("client.auth") or "none"
    trusted = own.truststore() if asks != "none" else None
    places = {"certificates": chain, "key": keys} | ({"trusted": trusted} if trusted else {})
    try:
        return Tls(
            certificates="".join(chain.pem.of("CERTIFICATE")),
            key="".join(keys.pem.of("PRIVATE KEY")),
            trusted="".join(trusted.pem.of("CERTIFICATE")) if trusted else "",
            client_auth=asks,
            protocols=config.get_list(own.name("enabled.protocols")),
            suites=config.get_list(own.name("cipher.suites")),
        )
    except ValueError as error:
        part, how = error.args
        if (found := places.get(part)) is not None:
            what = {"key": "the key ", "certificates": "the certificate "}.get(part, "")
            raise own.wrong(found.setting, f"{found.place}: {what}{how}") from None
        setting = own.name(_PARTS[part])
        raise own.wrong(setting, f"{setting}: {how}") from None


def warn_of_expiry(config: BrokerConfig, endpoint: Endpoint) -> None:
    """Says in the log if a certificate of the listener is not valid now: clients will refuse it."""
    if not endpoint.protocol.endswith("SSL"):
        return
    _, chain = _Settings(config, endpoint).keystore()
    now = datetime.now(UTC)
    for certificate in chain.pem.of("CERTIFICATE"):
        begin, end = validity(certificate)
        if end < now:
            logger.warning(
                "listener %s: %s: a certificate expired on %s, clients will refuse it", endpoint, chain.place, end
            )
        elif begin > now:
            logger.warning(
                "listener %s: %s: a certificate is not valid before %s, clients will refuse it",
                endpoint,
                chain.place,
                begin,
            )


class _Settings:
    """The ssl.* settings of one listener."""

    def __init__(self, config: BrokerConfig, endpoint: Endpoint) -> None:
        self._config = config
        self._endpoint = endpoint

    def name(self, rest: str) -> str:
        """The listener's own setting, or that of all listeners if it has none."""
        own = f"listener.name.{self._endpoint.name.lower()}.ssl.{rest}"
        return own if self._config.is_set(own) else f"ssl.{rest}"

    def text(self, rest: str) -> str | None:
        return self._config.get_str(self.name(rest)) or None

    def wrong(self, setting: str, message: str) -> ConfigError:
        return ConfigError(setting, f"listener {self._endpoint}: {message}")

    def keystore(self) -> tuple[_Text, _Text]:
        """The key, and the certificates: both are in one file, or each is in a setting of its own."""
        key, chain = self.text("keystore.key"), self.text("keystore.certificate.chain")
        if key is None and chain is None:
            found = self._file("keystore", (_KEYS, _KEYS_OF_PKCS12))
            if found is None:
                name = self.name("keystore.location")
                raise self.wrong(name, f"{name} is not set: a file of PEM with the key and its certificate is needed")
            return self._plain(found), found
        for rest, text in (("keystore.key", key), ("keystore.certificate.chain", chain)):
            if text is None:
                raise self.wrong(
                    self.name(rest),
                    f"{self.name(rest)} is not set; ssl.keystore.key and ssl.keystore.certificate.chain come together",
                )
        return self._plain(self._own("keystore.key", key or "")), self._own("keystore.certificate.chain", chain or "")

    def truststore(self) -> _Text:
        """The certificates of the authorities that sign the certificates of clients."""
        text = self.text("truststore.certificates")
        found = self._file("truststore", (_TRUSTED, _TRUSTED)) if text is None else None
        if text is not None:
            found = self._own("truststore.certificates", text)
        if found is None:
            asked = self.name("client.auth")
            name = self.name("truststore.location")
            raise self.wrong(
                name, f"{name} is not set, and {asked}={self.text('client.auth')}: no certificate could be accepted"
            )
        return found

    def _own(self, rest: str, text: str) -> _Text:
        from ottla.client.stores import pem

        setting = self.name(rest)
        return _Text(pem(text), setting, setting)

    def _file(self, store: str, how: tuple[str, str]) -> _Text | None:
        """A store's file. `how` converts one of Java's own format and one of PKCS12. None: no file is named."""
        from ottla.client.stores import pem

        setting, kind = self.name(f"{store}.location"), self.name(f"{store}.type")
        path, type_ = self.text(f"{store}.location"), (self.text(f"{store}.type") or "").upper()
        if path is None:
            return None
        if type_ != "PEM":
            convert = how[type_ == "PKCS12"].format(file=path)
            raise self.wrong(
                kind,
                f"{kind}={type_}: Ottla reads PEM only; convert the store ({convert}), name the new file in {setting} "
                f"and set {kind}=PEM",
            )
        place = f"{setting}={path}"
        try:
            with open(path, "rb") as file:
                content = file.read()
        except OSError as error:
            raise self.wrong(setting, f"{place} cannot be read: {error.strerror}") from None
        return _Text(pem(content.decode("latin-1")), setting, place)

    def _plain(self, found: _Text) -> _Text:
        """The same with a key that is not encrypted: Kafka 2.7 takes no others in files."""
        from ottla.client.stores import pem

        keys = found.pem.of("PRIVATE KEY")
        if not any("ENCRYPTED" in key for key in keys):
            return found
        setting = self.name("key.password")
        if (password := self.text("key.password")) is None:
            raise self.wrong(setting, f"{found.place}: the key is encrypted, and {setting} is not set")
        try:
            from cryptography.hazmat.primitives import serialization
        except ImportError:
            raise self.wrong(
                setting,
                f"{found.place}: the key is encrypted, which needs the package cryptography: pip install cryptography",
            ) from None
        try:
            key = serialization.load_pem_private_key(keys[0].encode(), password.encode())
        except (ValueError, TypeError):
            raise self.wrong(setting, f"{found.place}: the key cannot be opened with {setting}") from None
        text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return found._replace(pem=pem(text.decode()))


def validity(certificate: str) -> tuple[datetime, datetime]:
    """The first and the last moment at which a certificate in PEM is valid (RFC 5280, 4.1)."""
    body = "".join(certificate.split("-----")[2].split())
    tbs = _first(_first(base64.b64decode(body))[1])[1]
    # version (optional, tag 0xA0), serialNumber, signature, issuer, validity
    skipped = 4 if tbs[0] == 0xA0 else 3
    for _ in range(skipped):
        tbs = _first(tbs)[2]
    _, times, _ = _first(tbs)
    kind, begin, rest = _first(times)
    second, end, _ = _first(rest)
    return _time(kind, begin), _time(second, end)


def _first(der: bytes) -> tuple[int, bytes, bytes]:
    """The first element in DER: its tag, its content, and what follows it."""
    length, start = der[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(der[2:start])
    return der[0], der[start : start + length], der[start + length :]


def _time(kind: int, text: bytes) -> datetime:
    """UTCTime (tag 23), whose years are 1950 to 2049, or GeneralizedTime."""
    digits = text.decode()
    if kind == 23:
        digits = ("19" if digits >= "50" else "20") + digits
    return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
