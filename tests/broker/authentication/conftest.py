"""A broker that wants to know who its clients are, on listeners for each way to say it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from ottla.client import BlockingConnection, Security
from ottla.errors import SaslAuthenticationFailed
from tests.peers.certificates import Certified, certified
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.peers.secured import MECHANISMS, PASSWORD, USER, jaas
from tests.support.waiting import eventually

#: Of the listener SHORT.
SESSION_MS = 1_500
#: So long a client waits that is refused.
DELAY_MS = 300
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
PROTOCOLS = {"sasl": "SASL_PLAINTEXT", "both": "SASL_SSL", "short": "SASL_PLAINTEXT"}


def users(**passwords: str) -> str:
    """The sasl.jaas.config of a listener's PLAIN."""
    quoted = {user: text.replace("\\", "\\\\").replace('"', '\\"') for user, text in passwords.items()}
    options = [f'user_{user}="{text}"' for user, text in quoted.items()]
    return f"{PLAIN} required {' '.join(options)};"


@dataclass(frozen=True)
class Guarded:
    """A broker with the listeners PLAINTEXT, for brokers, SASL, BOTH (with TLS) and SHORT (whose sessions end)."""

    broker: Broker
    ports: dict[str, int]
    trusted: Path

    def java(self, listener: str, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
        """The settings of a Java client."""
        found = {"security.protocol": PROTOCOLS[listener], "sasl.mechanism": mechanism}
        if listener == "both":
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.trusted)}
        return found | {"sasl.jaas.config": jaas(mechanism, password)}

    def rdkafka(self, listener: str, mechanism: str, password: str = PASSWORD) -> dict[str, object]:
        """Those of librdkafka."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self.ports[listener]}",
            "security.protocol": PROTOCOLS[listener],
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": password,
            **({"ssl.ca.location": str(self.trusted)} if listener == "both" else {}),
        }

    def connect(self, listener: str, mechanism: str, password: str = PASSWORD) -> BlockingConnection:
        security = Security.of(self.java(listener, mechanism, password))
        return BlockingConnection.connect("127.0.0.1", self.ports[listener], security=security)

    def lets_in(self, listener: str, mechanism: str, password: str = PASSWORD) -> bool:
        try:
            self.connect(listener, mechanism, password).close()
        except SaslAuthenticationFailed:
            return False
        return True


def settings(ports: dict[str, int], folder: Path, own: Certified) -> dict[str, object]:
    store = folder / "broker.pem"
    store.write_text(own.key_pem() + own.certificate_pem)
    names = {"plaintext": "PLAINTEXT", **PROTOCOLS}
    found: dict[str, object] = {
        "listeners": ",".join(f"{name.upper()}://127.0.0.1:{ports[name]}" for name in names),
        "listener.security.protocol.map": ",".join(f"{name.upper()}:{value}" for name, value in names.items()),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "connection.failed.authentication.delay.ms": DELAY_MS,
        "metrics.listener": f"127.0.0.1:{ports['metrics']}",
        "listener.name.short.connections.max.reauth.ms": SESSION_MS,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store,
    }
    for name in PROTOCOLS:
        found[f"listener.name.{name}.plain.sasl.jaas.config"] = users(**{USER: PASSWORD, "bob": "b"})
    return found


def make_user(bootstrap: str, password: str = PASSWORD, user: str = USER) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        change = UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password.encode())
        admin.alter_user_scram_credentials([change])[user].result()


@pytest.fixture(scope="package")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    authority = certified("authority", hosts=[])
    trusted = folder / "trusted.pem"
    trusted.write_text(authority.certificate_pem)
    ports = {name: free_port() for name in ("plaintext", "metrics", *PROTOCOLS)}
    own = certified("broker", authority, ["127.0.0.1", "localhost"])
    with Brokers(folder) as brokers:
        broker = brokers(port=ports["plaintext"], settings=settings(ports, folder, own))
        found = Guarded(broker, ports, trusted)
        make_user(f"127.0.0.1:{ports['plaintext']}")
        eventually("its users are known", lambda: all(found.lets_in("sasl", each) for each in MECHANISMS))
        yield found
