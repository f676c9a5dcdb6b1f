"""TLS on connections to ZooKeeper, by Kafka's settings `zookeeper.ssl.*`.

Keys and certificates are in files of PEM or PKCS12. They are read for each connection, so renewed files hold from the
next one on. `zookeeper.clientCnxnSocket` may only name the Java class that has TLS, which Kafka needs.
"""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Final

from ottla.client import tls
from ottla.client.errors import TlsFailed
from ottla.client.security import Security
from ottla.config import ConfigError

if TYPE_CHECKING:
    from ottla.config import BrokerConfig

_PREFIX: Final = "zookeeper.ssl."
_WITH_TLS: Final = "ClientCnxnSocketNetty"
_UNCHECKED: Final = ("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable")


class Encryption:
    """Puts TLS on connections."""

    def __init__(self, security: Security) -> None:
        self._security = security

    @property
    def shows_certificate(self) -> bool:
        """True if ZooKeeper is shown a certificate of ours."""
        return self._security.keystore_location is not None

    def __call__(self, connection: socket.socket, host: str, port: int) -> ssl.SSLSocket:
        try:
            return tls.encrypted_socket(connection, host, port, self._security)
        except TlsFailed as error:
            raise TlsFailed(_with_prefix(error)) from None


def of_settings(config: BrokerConfig) -> Encryption | None:
    """None: connections are plain text. Raises ConfigError."""
    if not config.get_bool("zookeeper.ssl.client.enable"):
        return None
    setting = "zookeeper.clientCnxnSocket"
    if (named := config.get_str(setting)) and not named.endswith(_WITH_TLS):
        raise ConfigError(setting, f"{setting}={named} has no TLS, and zookeeper.ssl.client.enable=true; remove it")
    for name in _UNCHECKED:
        if config.get_bool(name):
            raise ConfigError(name, f"{name}=true: Ottla does not ask whether certificates were revoked")
    setting = "zookeeper.ssl.endpoint.identification.algorithm"
    algorithm = (config.get_str(setting) or "").lower()
    if algorithm not in ("", "https"):
        raise ConfigError(setting, f"{setting}={algorithm}: it is https, or empty to accept a certificate for any host")
    security = Security(
        "SSL",
        truststore_location=config.get_str("zookeeper.ssl.truststore.location") or None,
        truststore_password=config.get_str("zookeeper.ssl.truststore.password") or None,
        keystore_location=config.get_str("zookeeper.ssl.keystore.location") or None,
        keystore_password=config.get_str("zookeeper.ssl.keystore.password") or None,
        key_password=config.get_str("zookeeper.ssl.keystore.password") or None,
        checks_name=bool(algorithm),
        tls_versions=_versions(config),
        cipher_suites=tuple(config.get_list("zookeeper.ssl.cipher.suites")),
    )
    try:
        tls.context(security)
    except ValueError as error:
        raise ConfigError(_PREFIX, f"connections to ZooKeeper: {_with_prefix(error)}") from None
    return Encryption(security)


def _with_prefix(error: Exception) -> str:
    """The text of an error of the client, whose settings have the same names without the prefix."""
    return str(error).replace("ssl.", _PREFIX)


def _versions(config: BrokerConfig) -> tuple[str, str]:
    setting = "zookeeper.ssl.enabled.protocols"
    names = config.get_list(setting) or [config.get_str("zookeeper.ssl.protocol") or "TLSv1.2"]
    for name in names:
        if name not in ("TLSv1.2", "TLSv1.3"):
            raise ConfigError(
                setting, f"{setting}, zookeeper.ssl.protocol: {name} is not possible, only TLSv1.2 and TLSv1.3 are"
            )
    return min(names), max(names)
