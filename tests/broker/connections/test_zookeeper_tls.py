"""Connections to ZooKeeper by TLS, with certificates on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from ottla.broker.zookeeper_tls import of_settings
from ottla.config import BrokerConfig, ConfigError
from ottla.coordination.kazoo_handler import Handler
from tests.peers.apache import Apache
from tests.peers.certificates import Certified, certified
from tests.peers.ottla import Brokers
from tests.peers.ports import free_port
from tests.support.node_rules import rules
from tests.support.tls import store
from tests.support.waiting import PATIENCE_S, eventually

HOSTS = ("127.0.0.1", "localhost")


class Secured(NamedTuple):
    """A ZooKeeper that wants certificates at `place`, and none at `plain`. folder: of what is its client's."""

    place: str
    plain: str
    folder: Path
    authority: Certified

    def settings(self, **others: object) -> dict[str, object]:
        own = certified("broker", self.authority).pkcs12(self.folder / "own.p12", "store secret")
        return {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.keystore.location": own,
            "zookeeper.ssl.keystore.password": "store secret",
            "zookeeper.ssl.truststore.location": self.folder / "trusted.pem",
            "zookeeper.ssl.truststore.type": "PEM",
            **{f"zookeeper.ssl.{name.replace('_', '.')}": value for name, value in others.items()},
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("zookeeper-tls")
    authority = certified("authority")
    (folder / "trusted.pem").write_text(authority.certificate_pem)
    own = store(folder / "server.pem", certified("zookeeper", authority, HOSTS))
    port = free_port()
    settings = {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "secureClientPort": port,
        "ssl.keyStore.location": own,
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": folder / "trusted.pem",
        "ssl.trustStore.type": "PEM",
        # A client's certificate names no host.
        "ssl.hostnameVerification": "false",
    }
    with Apache(folder) as apache:
        _, plain = apache.zookeeper_server(settings=settings)
        yield Secured(f"127.0.0.1:{port}", f"127.0.0.1:{plain}", folder, authority)


@pytest.mark.java
@pytest.mark.zookeeper
def test_a_broker_joins(secured: Secured, brokers: Brokers) -> None:
    place = f"{secured.place}/chroot"
    given = secured.settings()
    broker = brokers(zookeeper=place, settings=given)
    assert f"ZooKeeper at {place}" in broker.log.read_text()
    assert broker.stop() == 0
    brokers(zookeeper=place, data=broker.data, port=broker.port, settings=given)


@pytest.mark.java
@pytest.mark.zookeeper
def test_a_tree_is_kept_for_a_certificate(secured: Secured, brokers: Brokers, kafka: Apache) -> None:
    """`zookeeper.set.acl=true`, as Kafka keeps it."""
    settings = {**secured.settings(), "zookeeper.set.acl": "true"}
    brokers(zookeeper=f"{secured.place}/ours", broker_id=1, settings=settings)
    kafka.broker("2.7.2", zookeeper=f"{secured.place}/theirs", settings=settings)
    encrypt = of_settings(BrokerConfig({name: str(value) for name, value in settings.items()}))
    found = []
    for name in "ours", "theirs":
        owner = KazooClient(f"{secured.place}/{name}", handler=Handler(encrypt))
        owner.start(PATIENCE_S)
        found.append(rules(owner, "CN=broker"))
        owner.stop()
        owner.close()
    ours, theirs = found
    assert ours.pop("/config/ips") == theirs["/config/topics"]
    assert ours == theirs
    assert ours["/config/users"] == {("x509", 31)}
    nobody = KazooClient(f"{secured.plain}/ours")
    nobody.start(PATIENCE_S)
    assert nobody.get_children("/brokers/topics") == []
    with pytest.raises(NoAuthError):
        nobody.get_children("/config/users")
    nobody.stop()
    nobody.close()


@pytest.mark.java
@pytest.mark.zookeeper
def test_what_is_not_trusted(secured: Secured, brokers: Brokers, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger.pem"
    stranger.write_text(certified("stranger").certificate_pem)
    for given, said in (
        (secured.settings(truststore_location=stranger), "its certificate is not trusted"),
        (secured.settings(keystore_location="", keystore_password=""), "no ZooKeeper server at"),
        (secured.settings(protocol="TLSv1.3"), "ALERT_PROTOCOL_VERSION): see zookeeper.ssl.enabled.protocols"),
    ):
        settings = {**given, "zookeeper.connection.timeout.ms": 1500}
        broker = brokers(zookeeper=secured.place, settings=settings, wait=False)
        assert broker.process.wait(PATIENCE_S) == 1
        eventually("it is said", lambda: said in broker.log.read_text(), facts=broker.log.read_text)  # noqa: B023
        assert "Traceback" not in broker.log.read_text()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ocsp.enable": "true"}, "zookeeper.ssl.ocsp.enable=true: Ottla does not ask whether"),
        ({"endpoint.identification.algorithm": "ldaps"}, "it is https, or empty"),
        ({"protocol": "TLSv1.1"}, "TLSv1.1 is not possible, only TLSv1.2 and TLSv1.3 are"),
        ({"truststore.location": "/no/such"}, "zookeeper.ssl.truststore.location: /no/such cannot be read"),
    ],
)
def test_settings_that_cannot_be_had(given: dict[str, str], said: str) -> None:
    names = {f"zookeeper.ssl.{name}": value for name, value in given.items()}
    config = BrokerConfig({"zookeeper.connect": "127.0.0.1:1", "zookeeper.ssl.client.enable": "true", **names})
    with pytest.raises(ConfigError, match=said):
        of_settings(config)


def test_a_class_without_tls() -> None:
    setting, named = "zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNIO"
    given = {"zookeeper.connect": "127.0.0.1:1", "zookeeper.ssl.client.enable": "true", setting: named}
    with pytest.raises(ConfigError, match="has no TLS") as refused:
        of_settings(BrokerConfig(given))
    assert refused.value.name == setting


def test_plain_text_is_the_default() -> None:
    assert of_settings(BrokerConfig({"zookeeper.connect": "127.0.0.1:1"})) is None
