"""`ottla serve --dev-security`: a broker with TLS, a user and an authorizer, in one command.

Beside the data directory D there is a folder D-security with an authority, the broker's certificate, a password, and
what clients need. It is made at the first start, and used again. It is for trying: the key of the authority lies beside
what it has signed, and every client is the administrator.
"""

from __future__ import annotations

import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

USER: Final = "admin"
MECHANISM: Final = "SCRAM-SHA-512"
MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
#: For Java's clients and Ottla's commands, and for librdkafka.
JAVA_FILE: Final = "client.properties"
RDKAFKA_FILE: Final = "librdkafka.conf"


class DevSecurity:
    """The files beside the data directory of a broker with these settings, which are without security.

    Raises click.UsageError for settings that it cannot add to.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._data_dir = config.data_directories[0]
        directory = Path(self._data_dir).absolute()
        self.folder: Final = directory.with_name(f"{directory.name}-security")
        if config.zookeeper:
            raise click.UsageError("--dev-security is for a broker without ZooKeeper; zookeeper.connect is set")
        self._listener = config.listeners[0]
        if self._listener.is_wildcard:
            raise click.UsageError(
                "--dev-security: the certificate is made for one host, and the broker is to listen on every address; "
                "name one with --listen HOST:PORT"
            )
        if len(config.listeners) > 1 or self._listener.protocol != "PLAINTEXT":
            raise click.UsageError("--dev-security makes the one listener; leave `listeners` out, or use --listen")
        if _has_lost_its_tree(directory):
            raise click.UsageError(
                f"--dev-security: {directory} has folders of topics and no tree; start a broker on it without "
                "--dev-security first, or name another directory with --data-dir"
            )
        for name in self._settings(""):
            if name != "listeners" and config.is_set(name):
                raise click.UsageError(f"--dev-security sets {name} itself; leave one of both out")

    def prepare(self) -> dict[str, str]:
        """Makes what is missing, puts the user into the tree of the data directory, and returns the broker's settings.

        Raises click.ClickException, OSError.
        """
        from ottla.cli._stored_users import write_user
        from ottla.extras import extra
        from ottla.replication.data_directory import make_private

        try:
            with extra("security"):
                from ottla.cli import _dev_certificates as certificates
        except ModuleNotFoundError as error:
            raise click.ClickException(f"cannot start the broker: --dev-security: {error}") from error
        make_private(self.folder)
        try:
            certificates.make(self.folder, _hosts(self._listener.host))
        except ValueError as error:
            raise click.ClickException(f"cannot start the broker: --dev-security: {self.folder}: {error}") from None
        file = self.folder / "admin.password"
        if not file.exists():
            certificates.write_private(file, f"{secrets.token_urlsafe(24)}\n".encode())
        write_user("cannot start the broker", self._data_dir, None, USER, self._password, (MECHANISM,), 4096)
        return self._settings(self._login())

    def tell(self, address: str) -> None:
        """Writes the files of clients for a broker at HOST:PORT, and says where they are."""
        from ottla.cli._dev_certificates import write_private

        authority = self.folder / "authority.pem"
        java = {
            "bootstrap.servers": address,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": self._login(),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority),
        }
        rdkafka = {
            "bootstrap.servers": address,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": USER,
            "sasl.password": self._password,
            "ssl.ca.location": str(authority),
        }
        for name, settings in ((JAVA_FILE, java), (RDKAFKA_FILE, rdkafka)):
            text = "".join(f"{each}={value}\n" for each, value in settings.items())
            write_private(self.folder / name, text.encode())
        click.echo(
            f"clients of this broker need {self.folder / JAVA_FILE} (Kafka's tools, ottla --command-config) or "
            f"{self.folder / RDKAFKA_FILE} (librdkafka): both have the administrator's password",
            err=True,
        )

    @property
    def _password(self) -> str:
        return (self.folder / "admin.password").read_text().strip()

    def _login(self) -> str:
        return f'{MODULE} required username="{USER}" password="{self._password}";'

    def _settings(self, login: str) -> dict[str, str]:
        from ottla.config.security import AUTHORIZERS

        return {
            "listeners": str(self._listener._replace(name="SASL_SSL", protocol="SASL_SSL")),
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": login,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.folder / "broker.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / "authority.pem"),
            "authorizer.class.name": AUTHORIZERS[0],
            "super.users": f"User:{USER}",
        }


def _has_lost_its_tree(directory: Path) -> bool:
    from ottla.coordination.embedded import TREE_FILE

    is_there = directory.is_dir() and not (directory / TREE_FILE).exists()
    return is_there and any(each.is_dir() for each in directory.iterdir())


def _hosts(host: str) -> set[str]:
    """The names and addresses by which clients may reach the broker."""
    found = {"localhost", "127.0.0.1", "::1", host}
    name = socket.gethostname()
    # Longer names have no place in a certificate, and others are no names.
    if name.isascii() and 0 < len(name) < 64:
        found.add(name)
    return found
