"""Files of a broker whose security is looked at."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from ottla.doctor import broker_file
from ottla.doctor.findings import Report
from tests.broker.authorization.ruled import PLAIN
from tests.peers.certificates import certified
from tests.support.tls import store

GOOD = "a password that nobody guesses"


class Machine:
    """A folder that every user of the machine can come to, with a broker's file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        own = certified("broker", hosts=["broker.example.org", "*.a.org", "::1"])
        self.keystore = store(folder / "broker.pem", own)
        self.keystore.chmod(0o600)

    def write(self, **others: object) -> Path:
        file = self.folder / "server.properties"
        given: dict[str, object] = {
            "listeners": "SASL_SSL://0.0.0.0:9092",
            "advertised.listeners": "SASL_SSL://broker.example.org:9092",
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas(alice=GOOD),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.keystore,
            **{name.replace("__", "."): value for name, value in others.items()},
        }
        file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        file.chmod(0o600)
        return file

    def look(self, now: datetime | None = None, **others: object) -> Report:
        file = self.write(**others)
        report = Report(str(file))
        broker_file.check(report, str(file), now)
        return report


def jaas(**passwords: str) -> str:
    users = " ".join(f'user_{user}="{password}"' for user, password in passwords.items())
    return f'{PLAIN} required username="admin" password="{GOOD}" {users};'


@contextmanager
def public_folder() -> Iterator[Machine]:
    """Folders of tests are for one user alone, and then it matters to nobody what mode a file has."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Machine(Path(folder))
