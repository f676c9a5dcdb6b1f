"""Brokers that talk to each other by TLS, with certificates on both sides, alone and under SASL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.broker.authentication.between import Access
from ottla.config import BrokerConfig
from ottla.peers import Dialer
from tests.broker.authentication.use import USERS, VALUES, brokers_known, create, read, state, write
from tests.peers.apache import Apache
from tests.peers.certificates import Certified, certified
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.support.tls import refused, store
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.clients

HOSTS = ("127.0.0.1", "localhost")
PROTOCOLS = ("SSL", "SASL_SSL")


class Certificates:
    """An authority, and the files of those who have certificates of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = certified("authority")
        self.trusted = folder / "trusted.pem"
        self.trusted.write_text(self.authority.certificate_pem)

    def own(self, name: str, hosts: Sequence[str] = HOSTS, signer: Certified | None = None) -> Path:
        """A file with a key and its certificate."""
        return store(self.folder / f"{name}.pem", certified(name, signer or self.authority, hosts))

    def pkcs12(self, name: str) -> dict[str, object]:
        """The settings of a store in PKCS12 that is made for this."""
        path = certified(name, self.authority, HOSTS).pkcs12(self.folder / f"{name}.p12", "store secret")
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": path,
            "ssl.keystore.password": "store secret",
            "ssl.key.password": "store secret",
        }

    def settings(self, name: str, port: int, protocol: str = "SSL", **others: object) -> dict[str, object]:
        """Of a broker whose one listener has TLS, and asks for certificates or passwords."""
        with_sasl: dict[str, object] = {
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": USERS,
        }
        return {
            "listeners": f"{protocol}://127.0.0.1:{port}",
            "security.inter.broker.protocol": protocol,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.own(name),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.trusted,
            "ssl.client.auth": "required",
            "offsets.topic.replication.factor": 1,
            **(with_sasl if protocol == "SASL_SSL" else {}),
            **{name.replace("__", "-").replace("_", "."): value for name, value in others.items()},
        }

    def client(self, *ports: int, protocol: str = "SSL") -> dict[str, Any]:
        """The settings of librdkafka."""
        own = self.folder / "client.pem"
        if not own.exists():
            self.own("client")
        login = {"sasl.mechanism": "PLAIN", "sasl.username": "admin", "sasl.password": "between"}
        return {
            "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in ports),
            "security.protocol": protocol,
            "ssl.ca.location": str(self.trusted),
            "ssl.certificate.location": str(own),
            "ssl.key.location": str(own),
            **(login if protocol == "SASL_SSL" else {}),
        }


@pytest.fixture
def files(tmp_path: Path) -> Certificates:
    folder = tmp_path / "certificates"
    folder.mkdir()
    return Certificates(folder)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_broker_lets_itself_in(brokers: Brokers, files: Certificates, protocol: str) -> None:
    port = free_port()
    brokers(port=port, settings=files.settings("one", port, protocol))
    given = files.client(port, protocol=protocol)
    write(given, "alone")
    assert read(given, "alone", len(VALUES), in_group=True) == VALUES


@pytest.mark.java
@pytest.mark.zookeeper
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_three_brokers(brokers: Brokers, files: Certificates, zookeeper: str, protocol: str) -> None:
    """Another leads when a broker dies; and one that comes back is connected to by its new certificate."""
    ports = {number: free_port() for number in (1, 2, 3)}
    every: dict[int, Broker] = {}
    for number, port in ports.items():
        given = files.settings(f"broker-{number}", port, protocol, min_insync_replicas=2)
        every[number] = brokers(broker_id=number, port=port, zookeeper=zookeeper, settings=given)
    given = files.client(*ports.values(), protocol=protocol)
    create(given, "three", 3)
    write(given, "three")
    eventually("all are in sync", lambda: state(given, "three")[1] == {1, 2, 3})
    leader, _ = state(given, "three")
    dead = every.pop(leader)
    dead.kill()
    eventually("another leads", lambda: state(given, "three")[0] in every)
    write(given, "three")
    again = files.settings(f"broker-{leader}", ports[leader], protocol, min_insync_replicas=2)
    every[leader] = brokers(data=dead.data, broker_id=leader, port=ports[leader], zookeeper=zookeeper, settings=again)
    eventually("all are in sync", lambda: state(given, "three")[1] == {1, 2, 3})
    assert read(given, "three", 2 * len(VALUES)) == 2 * VALUES
    for broker in every.values():
        assert broker.stop() == 0
        assert "did not say in time" not in broker.log.read_text()


@pytest.mark.trio
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_connection_of_a_watcher_has_tls_too(files: Certificates, protocol: str) -> None:
    """Nothing else is said on it; in the clear it would end with the time that a handshake has."""
    given = files.settings("one", 1, protocol)
    access = Access(BrokerConfig({name: str(value) for name, value in given.items()}))
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    began = b""

    async def neighbour() -> None:
        nonlocal began
        async with await listener.accept() as stream:
            began = await stream.receive_some(1)

    async with listener, trio.open_nursery() as nursery:
        nursery.start_soon(neighbour)
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            with pytest.raises(OSError, match="closed the connection instead of beginning TLS"):
                await Dialer("watcher", 1000 * int(PATIENCE_S), access).greet(stream, "127.0.0.1", port)
    assert began == b"\x16", "a handshake of TLS"


@pytest.mark.java
@pytest.mark.zookeeper
def test_an_authority_is_replaced_while_brokers_run(brokers: Brokers, files: Certificates, zookeeper: str) -> None:
    """First all trust both, then each shows a certificate of the new one; no broker is started anew for it."""
    ports = free_port(), free_port()
    settings = [files.settings(f"b{number}", port) for number, port in enumerate(ports)]
    one, two = (
        brokers(broker_id=number, port=ports[number], zookeeper=zookeeper, settings=settings[number])
        for number in (0, 1)
    )
    given = files.client(*ports)
    create(given, "renewed", 2)
    write(given, "renewed")
    new = certified("new authority")
    with files.trusted.open("a") as file:
        file.write(new.certificate_pem)
    files.own("client", signer=new)
    for number, broker in enumerate((one, two)):
        files.own(f"b{number}", signer=new)
        for text in ("new connections get what", "new connections to other brokers are secured as"):
            eventually("it has them", lambda: text in broker.log.read_text(), facts=broker.log.read_text)  # noqa: B023
    files.trusted.write_text(new.certificate_pem)
    eventually(
        "the old one is trusted no more",
        lambda: one.log.read_text().count("new connections to other brokers are secured as") >= 2,
        facts=one.log.read_text,
    )
    # Connections of a broker that has just begun, and those to it, are all new ones.
    assert two.stop() == 0
    brokers.restart(two, broker_id=1, zookeeper=zookeeper, settings=settings[1])
    write(given, "renewed")
    eventually("both are in sync", lambda: state(given, "renewed")[1] == {0, 1})
    assert read(given, "renewed", 2 * len(VALUES)) == 2 * VALUES


@pytest.mark.java
@pytest.mark.zookeeper
def test_a_broker_of_a_stranger_is_told_nothing(brokers: Brokers, files: Certificates, zookeeper: str) -> None:
    """The certificates of the second are good among its own kind alone."""
    ports = free_port(), free_port()
    given = files.client(ports[0])
    one = brokers(broker_id=1, port=ports[0], zookeeper=zookeeper, settings=files.settings("one", ports[0]))
    create(given, "apart", 1)
    (files.folder / "strange").mkdir()
    own = Certificates(files.folder / "strange").settings("two", ports[1])
    two = brokers(broker_id=2, port=ports[1], zookeeper=zookeeper, settings=own, wait=False)
    eventually(
        "the controller says why",
        lambda: "UpdateMetadata to broker 2 failed" in one.log.read_text(),
        facts=lambda: (one.log.read_text(), two.log.read_text()),
    )
    assert f"127.0.0.1:{ports[1]}: its certificate is not trusted" in one.log.read_text()
    write(given, "apart")
    # It was never told of the cluster, and is stopped all the same.
    assert two.stop() == 0


SELF = "brokers connect to each other through this listener, and this one cannot connect to itself at 127.0.0.1"


def test_settings_with_which_a_broker_would_not_find_itself(brokers: Brokers, files: Certificates) -> None:
    port = free_port()
    files.trusted.write_text(certified("stranger").certificate_pem)
    said = refused(brokers, **files.settings("one", port))
    assert f"listener SSL://127.0.0.1:{port}: {SELF} (the TLS handshake failed: invalid peer certificate:" in said
    assert f"ssl.truststore.location={files.trusted}, which says whom brokers trust" in said
    files.trusted.write_text(files.authority.certificate_pem)
    elsewhere = files.settings("one", port)
    files.own("one", ["elsewhere.example"])
    said = refused(brokers, **elsewhere)
    assert f"{SELF} (the TLS handshake failed: invalid peer certificate: certificate not valid for name" in said
    setting = "ssl.endpoint.identification.algorithm"
    said = refused(brokers, **elsewhere, **{setting: "ldaps"})
    assert f"{setting}=ldaps: it is https, or empty to accept a certificate for any host" in said
    brokers(port=port, settings={**elsewhere, setting: ""}).stop()


@pytest.mark.java
@pytest.mark.zookeeper
@pytest.mark.judge
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_beside_apache_kafka(tmp_path: Path, files: Certificates, protocol: str) -> None:
    """Each leads and follows, and each is the controller."""
    (tmp_path / "ottla").mkdir()
    with Apache(tmp_path / "kafka") as apache, Brokers(tmp_path / "ottla") as brokers:
        zookeeper = apache.zookeeper()
        ports = free_port(), free_port()
        # Kafka 2.7 takes no key in PEM without a password.
        theirs = files.settings("theirs", ports[0], protocol) | files.pkcs12("theirs")
        apache.broker("2.7.2", zookeeper=zookeeper, port=ports[0], broker_id=1, settings=theirs, wait=False)
        own = files.settings("ours", ports[1], protocol)
        ours = brokers(broker_id=2, port=ports[1], zookeeper=zookeeper, settings=own)
        given, their = (files.client(port, protocol=protocol) for port in reversed(ports))
        eventually("both are there", lambda: brokers_known(given) == {1, 2})
        for topic in ("first", "second"):
            # The replicas of the second begin with another broker, as a rule.
            create(given, topic, 2)
            write(given, topic)
            eventually("both are in sync", lambda: state(given, topic)[1] == {1, 2})  # noqa: B023
        ours.stop()
        eventually("Kafka's leads", lambda: {state(their, topic)[0] for topic in ("first", "second")} == {1})
        for topic in ("first", "second"):
            write(their, topic)
        brokers(data=ours.data, broker_id=2, port=ports[1], zookeeper=zookeeper, settings=own)
        for topic in ("first", "second"):
            eventually("both are in sync", lambda: state(their, topic)[1] == {1, 2})  # noqa: B023
            assert read(given, topic, 2 * len(VALUES)) == 2 * VALUES
