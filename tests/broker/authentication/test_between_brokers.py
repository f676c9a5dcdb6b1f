"""Brokers that let each other in by SASL: alone, three of them, and beside Apache Kafka's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from ottla.broker.authentication.between import check
from ottla.client import Cluster, Security
from ottla.client.tokens import HANDLER, URL
from ottla.config import BrokerConfig, ConfigError
from ottla.errors import SaslAuthenticationFailed
from tests.broker.authentication.conftest import PLAIN
from tests.broker.authentication.use import (
    SESSION_MS,
    VALUES,
    brokers_known,
    create,
    read,
    sasl,
    sasl_client,
    state,
    write,
)
from tests.peers.apache import Apache, tool
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.support.authorization_server import LOGIN, SECRET, Authorization
from tests.support.waiting import eventually

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
def test_a_broker_lets_itself_in(brokers: Brokers, mechanism: str) -> None:
    port = free_port()
    broker = brokers(port=port, settings=sasl(port, mechanism))
    given = sasl_client(port, mechanism)
    write(given, "alone")
    assert read(given, "alone", len(VALUES), in_group=True) == VALUES
    assert "after the end of the session" not in broker.log.read_text()


@pytest.mark.java
@pytest.mark.zookeeper
def test_three_brokers(brokers: Brokers, zookeeper: str) -> None:
    """Followers come in anew before their sessions end, and another leads when a broker dies."""
    ports = {number: free_port() for number in (1, 2, 3)}
    every: dict[int, Broker] = {}
    for number, port in ports.items():
        given = sasl(port, min_insync_replicas=2)
        every[number] = brokers(broker_id=number, port=port, zookeeper=zookeeper, settings=given)
    given = sasl_client(ports[1])
    given["bootstrap.servers"] = ",".join(f"127.0.0.1:{port}" for port in ports.values())
    create(given, "three", 3)
    began = time.monotonic()
    written = 0
    while time.monotonic() - began < 3 * SESSION_MS / 1000 or not written:
        write(given, "three")
        written += 1
    eventually("all are in sync", lambda: state(given, "three")[1] == {1, 2, 3})
    leader, _ = state(given, "three")
    for broker in every.values():
        said = broker.log.read_text()
        assert "after the end of the session" not in said
        assert "did not say in time" not in said
    every.pop(leader).kill()
    eventually("another leads", lambda: state(given, "three")[0] in every)
    write(given, "three")
    assert read(given, "three", (written + 1) * len(VALUES)) == (written + 1) * VALUES
    for broker in every.values():
        broker.stop()


@pytest.fixture
def authorization() -> Iterator[Authorization]:
    server = Authorization("admin")
    server.thread.start()
    yield server
    server.close()


@pytest.mark.java
@pytest.mark.zookeeper
def test_two_brokers_with_tokens_of_a_server(brokers: Brokers, zookeeper: str, authorization: Authorization) -> None:
    """Sessions end with their tokens, and brokers come in with new ones before. A server that is away while a broker
    starts holds it up, and no longer.
    """
    authorization.lasts_s = 4.0
    said = authorization.settings()
    ports = free_port(), free_port()
    every = []
    for number, port in enumerate(ports, 1):
        given = sasl(port, "OAUTHBEARER")
        given |= {
            "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": said["sasl.jaas.config"],
            "listener.name.sasl_plaintext.oauthbearer.sasl.login.callback.handler.class": said[HANDLER],
            URL: said[URL],
        }
        authorization.answers += [(503, b"not yet")] * 3
        every.append(brokers(broker_id=number, port=port, zookeeper=zookeeper, settings=given))
    given = sasl_client(ports[0], "OAUTHBEARER")
    create(given, "two", 2)
    written = 0
    asked = len(authorization.asked)
    while len(authorization.asked) < asked + 4:
        write(given, "two")
        written += 1
    eventually("both are in sync", lambda: state(given, "two")[1] == {1, 2})
    assert read(given, "two", written * len(VALUES)) == written * VALUES
    for broker in every:
        text = broker.log.read_text()
        assert "after the end of the session" not in text
        assert SECRET not in text


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ({"sasl.oauthbearer.token.endpoint.url": "file:///no/such/token"}, "/no/such/token cannot be read"),
        ({"sasl.oauthbearer.token.endpoint.url": "ftp://h/token"}, "it begins with https://, http:// or file://"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://h/token"}, "has no clientId, nor is"),
        ({"JAAS": f"{LOGIN} required;"}, "sasl.oauthbearer.token.endpoint.url is missing"),
        ({"JAAS": f'{LOGIN} required unsecuredLoginStringClaim_sub="";'}, "has no unsecuredLoginStringClaim_sub"),
        (
            {"sasl.oauthbearer.token.endpoint.url": "https://h/token",
             "JAAS": f'{LOGIN} required clientId="a" clientSecret="b" ssl.truststore.type="JCEKS";'},
            "ssl.truststore.type is 'JCEKS'",
        ),
        (
            {"listener.name.sasl_plaintext.oauthbearer.sasl.login.callback.handler.class": "com.example.Tokens"},
            "Ottla runs no Java class",
        ),
    ],
)  # fmt: skip
def test_tokens_between_brokers_that_cannot_be_had(others: dict[str, str], reason: str) -> None:
    own = "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config"
    given = sasl(1, "OAUTHBEARER") | {own if name == "JAAS" else name: value for name, value in others.items()}
    with pytest.raises(ConfigError) as refused:
        check(BrokerConfig({name: str(value) for name, value in given.items()}))
    assert reason in str(refused.value)


@pytest.mark.java
@pytest.mark.zookeeper
def test_a_broker_with_another_password_is_not_let_in(brokers: Brokers, zookeeper: str) -> None:
    first, second = free_port(), free_port()
    given = sasl(first)
    one = brokers(broker_id=1, port=first, zookeeper=zookeeper, settings=given)
    wrong = sasl(second)
    name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    wrong[name] = f'{PLAIN} required username="admin" password="other" user_admin="other";'
    two = brokers(broker_id=2, port=second, zookeeper=zookeeper, settings=wrong, wait=False)
    eventually(
        "the first says why",
        lambda: "authentication by PLAIN failed: wrong password of 'admin'" in two.log.read_text(),
        facts=lambda: (one.log.read_text(), two.log.read_text()),
    )
    two.kill()


@pytest.mark.java
@pytest.mark.zookeeper
@pytest.mark.judge
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_beside_apache_kafka(tmp_path: Path, mechanism: str) -> None:
    """Each leads and follows, and each is the controller."""
    (tmp_path / "ottla").mkdir()
    with Apache(tmp_path / "kafka") as apache, Brokers(tmp_path / "ottla") as brokers:
        zookeeper = apache.zookeeper()
        if mechanism.startswith("SCRAM"):
            change = f"{mechanism}=[iterations=4096,password=between]"
            names = ("--entity-type", "users", "--entity-name", "admin")
            tool("2.7.2", "configs", "--zookeeper", zookeeper, "--alter", "--add-config", change, *names)
        ports = free_port(), free_port()
        theirs = sasl(ports[0], mechanism)
        apache.broker("2.7.2", zookeeper=zookeeper, port=ports[0], broker_id=1, settings=theirs, wait=False)
        own = sasl(ports[1], mechanism)
        ours = brokers(broker_id=2, port=ports[1], zookeeper=zookeeper, settings=own)
        given = sasl_client(ports[1], mechanism)
        eventually("both are there", lambda: brokers_known(given) == {1, 2})
        for topic in ("first", "second"):
            # The replicas of the second begin with another broker, as a rule.
            create(given, topic, 2)
            write(given, topic)
            eventually("both are in sync", lambda: state(given, topic)[1] == {1, 2})  # noqa: B023
        ours.stop()
        their = sasl_client(ports[0], mechanism)
        eventually("Kafka's leads", lambda: {state(their, topic)[0] for topic in ("first", "second")} == {1})
        for topic in ("first", "second"):
            write(their, topic)
        again = brokers(data=ours.data, broker_id=2, port=ports[1], zookeeper=zookeeper, settings=own)
        for topic in ("first", "second"):
            eventually("both are in sync", lambda: state(their, topic)[1] == {1, 2})  # noqa: B023
            assert read(given, topic, 2 * len(VALUES)) == 2 * VALUES
        assert "after the end of the session" not in again.log.read_text()


def test_a_client_with_a_wrong_password_is_told(brokers: Brokers) -> None:
    port = free_port()
    brokers(port=port, settings=sasl(port))

    async def ask() -> None:
        login = f'{PLAIN} required username="alice" password="wrong";'
        java = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
        async with Cluster(f"127.0.0.1:{port}", security=Security.of(java)) as cluster:
            await cluster.refresh()

    with pytest.raises(SaslAuthenticationFailed, match="Invalid username or password"):
        trio.run(ask)
