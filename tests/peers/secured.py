"""Apache Kafka with a listener for each way to be secured, and the settings with which a Java client would come in."""

from pathlib import Path

from ottla.client import BlockingConnection, Security
from ottla.errors import SaslAuthenticationFailed
from tests.peers.apache import Apache, Kafka
from tests.peers.certificates import certified
from tests.peers.ports import CONTROLLER, free_port

USER = "alice"
# What quoting, encoding and normalizing would each make something else of.
PASSWORD = 'it\'s "½ = 1,2";'
STORE_PASSWORD = "store secret"
SESSION_MS = 10_000
LISTENERS = {
    "mutual": "SSL",  # a client needs a certificate
    "renamed": "SSL",  # the broker's certificate is for another host
    "sasl": "SASL_PLAINTEXT",
    "both": "SASL_SSL",
    "short": "SASL_PLAINTEXT",  # sessions last SESSION_MS
}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_LOGIN = "org.apache.kafka.common.security"


def jaas(mechanism: str, password: str = PASSWORD) -> str:
    """A client's sasl.jaas.config."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return f'{_LOGIN}.{module} required username={USER} password="{_quoted(password)}";'


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


class Secured:
    """One broker. `settings` are those of a client, by the names of Kafka's Java client."""

    def __init__(self, apache: Apache, version: str, folder: Path, *, zookeeper: str | None = None) -> None:
        self.folder = folder
        self.authority = certified("authority")
        self.client = certified("client", self.authority)
        self.certified = certified("broker", self.authority, ["127.0.0.1", "localhost"])
        self.trusted = folder / "trusted.pem"
        self.trusted.write_text(self.authority.certificate_pem)
        port = free_port()
        self.ports = {name: free_port() for name in LISTENERS}
        self.broker: Kafka = apache.broker(
            version, zookeeper=zookeeper, port=port, settings=self._settings(port, zookeeper is None)
        )
        self.plaintext = f"127.0.0.1:{port}"
        self._make_user()

    def bootstrap(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def settings(self, listener: str, mechanism: str = "SCRAM-SHA-256", password: str = PASSWORD) -> dict[str, str]:
        """The settings that a client needs to come in at this listener."""
        protocol = LISTENERS[listener]
        found = {"security.protocol": protocol}
        if protocol.endswith("SSL"):
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.trusted)}
        if protocol.startswith("SASL"):
            found |= {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas(mechanism, password)}
        if listener == "mutual":
            store = self.client.pkcs12(self.folder / "client.p12", STORE_PASSWORD)
            found |= {"ssl.keystore.location": str(store), "ssl.keystore.password": STORE_PASSWORD}
        return found

    def _settings(self, port: int, kraft: bool) -> dict[str, object]:
        here = self.certified.pkcs12(self.folder / "broker.p12", STORE_PASSWORD)
        elsewhere = certified("other", self.authority, ["broker.example"]).pkcs12(
            self.folder / "other.p12", STORE_PASSWORD
        )
        listeners = [f"PLAINTEXT://127.0.0.1:{port}"]
        listeners += [f"{name.upper()}://127.0.0.1:{number}" for name, number in self.ports.items()]
        protocols = ["PLAINTEXT:PLAINTEXT", *(f"{name.upper()}:{protocol}" for name, protocol in LISTENERS.items())]
        if kraft:
            listeners.append(f"CONTROLLER://127.0.0.1:{port + CONTROLLER}")
            protocols.append("CONTROLLER:PLAINTEXT")
        found: dict[str, object] = {
            "listeners": ",".join(listeners),
            "listener.security.protocol.map": ",".join(protocols),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": here,
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.key.password": STORE_PASSWORD,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.trusted,
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.renamed.ssl.keystore.location": elsewhere,
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.short.connections.max.reauth.ms": SESSION_MS,
            "listener.name.short.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        }
        known = f'user_{USER}="{_quoted(PASSWORD)}"'
        for name, protocol in LISTENERS.items():
            for mechanism in MECHANISMS if protocol.startswith("SASL") else ():
                module = (
                    f"plain.PlainLoginModule required {known}"
                    if mechanism == "PLAIN"
                    else ("scram.ScramLoginModule required")
                )
                key = f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config"
                # A file of properties takes backslashes for itself and is Latin-1.
                found[key] = f"{_LOGIN}.{module};".replace("\\", "\\\\").replace("½", "\\u00bd")
        return found

    def _make_user(self) -> None:
        """For SCRAM: users of PLAIN stand in the settings."""
        from confluent_kafka.admin import (
            AdminClient,
            ScramCredentialInfo,
            ScramMechanism,
            UserScramCredentialUpsertion,
        )

        admin = AdminClient({"bootstrap.servers": self.plaintext})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            user = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            admin.alter_user_scram_credentials([user])[USER].result()
        self.broker.wait_until(self._knows_user, 60)

    def _knows_user(self) -> bool:
        """It hears of the user a moment after he is stored."""
        for mechanism in MECHANISMS[1:]:
            security = Security.of(self.settings("sasl", mechanism))
            try:
                BlockingConnection.connect("127.0.0.1", self.ports["sasl"], security=security).close()
            except SaslAuthenticationFailed:
                return False
        return True
