"""TLS and SASL against Apache Kafka 2.7.2, which has a listener for each way."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from ottla import _core
from ottla.cli.main import ottla
from ottla.client import (
    EARLIEST,
    Admin,
    BlockingConnection,
    Cluster,
    Connection,
    ConnectionLost,
    Consumer,
    Producer,
    Security,
    TlsFailed,
    TopicPartition,
    TransactionalProducer,
)
from ottla.client.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from ottla.errors import IllegalSaslState, KafkaError, SaslAuthenticationFailed, UnsupportedSaslMechanism
from ottla.kafka import CONSUMER
from ottla.wire.k03_metadata import METADATA, MetadataRequest
from tests.peers.apache import Apache
from tests.peers.certificates import certified
from tests.peers.secured import LISTENERS, MECHANISMS, PASSWORD, SESSION_MS, USER, Secured
from tests.peers.skips import require

try:
    import confluent_kafka  # noqa: F401
except ImportError:
    require("clients", "confluent-kafka is not installed (the extra `test`)")

pytestmark = [pytest.mark.java, pytest.mark.clients]

LARGE = b"x" * 300_000
WAYS = [("mutual", ""), *(("sasl", each) for each in MECHANISMS), ("both", "PLAIN"), ("both", "SCRAM-SHA-512")]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with Apache(tmp_path_factory.mktemp("secured")) as apache:
        yield Secured(apache, "2.7.2", tmp_path_factory.mktemp("stores"), zookeeper=apache.zookeeper())


def connect_blocking(secured: Secured, listener: str, settings: dict[str, str]) -> BlockingConnection:
    security = Security.of(settings)
    port = int(secured.plaintext.rpartition(":")[2]) if listener == "plaintext" else secured.ports[listener]
    return BlockingConnection.connect("127.0.0.1", port, security=security)


def connect_async(secured: Secured, listener: str, settings: dict[str, str]) -> None:
    port = int(secured.plaintext.rpartition(":")[2]) if listener == "plaintext" else secured.ports[listener]

    async def run() -> None:
        async with await Connection.connect("127.0.0.1", port, security=Security.of(settings)) as connection:
            await connection.call(METADATA, MetadataRequest(topics=[]))

    trio.run(run)


def connect(secured: Secured, listener: str, settings: dict[str, str]) -> None:
    with connect_blocking(secured, listener, settings) as connection:
        connection.call(METADATA, MetadataRequest(topics=[]))


Connects = Callable[[Secured, str, dict[str, str]], None]


@pytest.fixture(params=[connect_async, connect], ids=["trio", "blocking"])
def connects(request: pytest.FixtureRequest) -> Connects:
    found: Connects = request.param
    return found


def fetch(topic: str, wait_ms: int = 500) -> FetchRequest:
    return FetchRequest(
        replica_id=CONSUMER,
        max_wait_ms=wait_ms,
        min_bytes=1,
        topics=[FetchTopic(topic=topic, partitions=[FetchPartition(partition_max_bytes=1 << 20)])],
    )


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_everything_a_client_does(secured: Secured, listener: str, mechanism: str) -> None:
    settings, topic = secured.settings(listener, mechanism), f"{listener}-{mechanism}"

    async def run() -> list[bytes | None]:
        async with Cluster(secured.bootstrap(listener), security=Security.of(settings)) as cluster:
            await Admin(cluster).create_topic(topic, 1, 1)
            async with Producer(cluster) as producer:
                for value in (b"first", LARGE):
                    await producer.send(topic, value)
            async with TransactionalProducer(cluster, topic) as transactional, transactional.transaction():
                await transactional.send(topic, b"committed")
            consumer = Consumer(cluster, read_committed=True)
            await consumer.assign({TopicPartition(topic, 0): EARLIEST})
            values: list[bytes | None] = []
            while len(values) < 3:
                values += [record.value for record in await consumer.poll()]
            return values

    assert trio.run(run) == [b"first", LARGE, b"committed"]
    with connect_blocking(secured, listener, settings) as connection:
        answer = connection.call(FETCH, fetch(topic))
        records = [
            record
            for batch in _core.read_batches(answer.partitions[0].records)
            if not batch.is_control
            for record in _core.RecordReader(
                answer.partitions[0].records[batch.position : batch.position + batch.size_bytes]
            )
        ]
    assert [len(record.value) for record in records] == [5, len(LARGE), 9]


def without(settings: dict[str, str], prefix: str) -> dict[str, str]:
    return {name: value for name, value in settings.items() if not name.startswith(prefix)}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_password(secured: Secured, connects: Connects, mechanism: str) -> None:
    with pytest.raises(SaslAuthenticationFailed) as caught:
        connects(secured, "both", secured.settings("both", mechanism, "not " + PASSWORD))
    assert not caught.value.retriable
    message = str(caught.value)
    assert secured.bootstrap("both") in message
    assert f"{mechanism} as '{USER}'" in message
    assert PASSWORD not in message


def test_wrong_password_in_a_cluster(secured: Secured) -> None:
    security = Security.of(secured.settings("sasl", "PLAIN", "wrong"))

    async def run() -> None:
        async with Cluster(secured.bootstrap("sasl"), security=security, timeout_ms=600_000) as cluster:
            await cluster.topic("t")

    with pytest.raises(SaslAuthenticationFailed):
        trio.run(run)


def test_mechanism_that_the_broker_has_not(secured: Secured, connects: Connects) -> None:
    with pytest.raises(UnsupportedSaslMechanism, match=r"'alice'.*\(sasl\.mechanism\): SCRAM-SHA-512"):
        connects(secured, "short", secured.settings("short", "PLAIN"))


def test_user_where_nobody_asks(secured: Secured, connects: Connects) -> None:
    with pytest.raises(IllegalSaslState, match=r"no authentication; does security\.protocol fit"):
        connects(secured, "plaintext", secured.settings("sasl"))


def test_certificate_of_a_stranger(secured: Secured, connects: Connects, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_text(certified("another authority").certificate_pem)
    for settings in ({}, {"ssl.truststore.location": str(other)}):
        with pytest.raises(TlsFailed, match=r"not trusted \(.*\); ssl\.truststore\.location") as caught:
            connects(secured, "renamed", {"security.protocol": "SSL", **settings})
        assert not caught.value.retriable


def test_certificate_for_another_host(secured: Secured, connects: Connects) -> None:
    settings = secured.settings("renamed")
    with pytest.raises(TlsFailed, match=r"mismatch.*127\.0\.0\.1.*ssl\.endpoint\.identification\.algorithm"):
        connects(secured, "renamed", settings)
    connects(secured, "renamed", {**settings, "ssl.endpoint.identification.algorithm": ""})


def test_no_certificate_where_one_is_wanted(secured: Secured, connects: Connects) -> None:
    # The broker's alert may be lost in the end of the connection.
    with pytest.raises((TlsFailed, ConnectionLost), match=r"ssl\.keystore\.location"):
        connects(secured, "mutual", without(secured.settings("mutual"), "ssl.keystore"))


def test_whatever_is_in_a_trust_store_is_trusted(secured: Secured, connects: Connects) -> None:
    """The broker's own certificate, without who signed it: as in Java."""
    settings = without(secured.settings("both"), "ssl.")
    connects(secured, "both", {**settings, "ssl.truststore.certificates": secured.certified.certificate_pem})


@pytest.mark.parametrize("password", [None, "of the key"])
def test_key_in_pem(secured: Secured, connects: Connects, tmp_path: Path, password: str | None) -> None:
    settings = without(secured.settings("mutual"), "ssl.keystore")
    if password is not None:
        settings["ssl.key.password"] = password
    key, certificate = secured.client.key_pem(password), secured.client.certificate_pem
    store = tmp_path / "client.pem"
    store.write_text(certificate + key)
    connects(secured, "mutual", {**settings, "ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)})
    # As it stands in a file of properties: in one line.
    inline = {"ssl.keystore.key": key.replace("\n", " "), "ssl.keystore.certificate.chain": certificate}
    connects(secured, "mutual", {**settings, "ssl.keystore.type": "PEM", **inline})


@pytest.mark.parametrize(
    ("suite", "version"),
    [("TLS_AES_128_GCM_SHA256", "TLSv1.3"), ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLSv1.2")],
)
def test_one_suite(secured: Secured, suite: str, version: str) -> None:
    settings = {**secured.settings("both"), "ssl.cipher.suites": suite}
    if version == "TLSv1.3":
        # The library offers its own choice of these, and the broker takes the best.
        with pytest.raises(TlsFailed, match=r"the broker chose TLS_AES_256_GCM_SHA384, which ssl\.cipher\.suites"):
            connect(secured, "both", settings)
        settings["ssl.cipher.suites"] += ",TLS_AES_256_GCM_SHA384"
    with connect_blocking(secured, "both", settings) as connection:
        assert connection._socket.version() == version  # type: ignore[attr-defined]


def test_tls_where_there_is_none(secured: Secured, connects: Connects) -> None:
    with pytest.raises((TlsFailed, ConnectionLost), match=r"security\.protocol") as caught:
        connects(secured, "plaintext", secured.settings("renamed"))
    assert "certificate" not in str(caught.value)


def test_plain_text_where_there_is_tls(secured: Secured, connects: Connects) -> None:
    with pytest.raises(ConnectionLost, match=r"TLS or SASL \(security\.protocol\)|speaks TLS: set security\.protocol"):
        connects(secured, "mutual", {})


def test_nobody_where_a_user_is_wanted(secured: Secured, connects: Connects) -> None:
    with pytest.raises(ConnectionLost, match=r"want a user \(security\.protocol, SASL\)"):
        connects(secured, "sasl", {})


def test_sessions_that_end_are_renewed(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker closes a connection whose session is over when it hears of it. They are renewed early here, so that
    a machine that stands still for seconds is not too late, but not within the second that Kafka wants in between.
    """
    monkeypatch.setattr("ottla.client.sasl.RENEWAL", (0.2, 0.2))
    settings, topic = secured.settings("short", "SCRAM-SHA-512"), "renewed"
    security = Security.of(settings)
    port = secured.ports["short"]
    end_s = time.monotonic() + 1.3 * SESSION_MS / 1000

    async def fetches(connection: Connection) -> None:
        while time.monotonic() < end_s:
            assert not (await connection.call(FETCH, fetch(topic, 50))).error_code

    def pairs_of_fetches() -> int:
        """One is always under way."""
        with BlockingConnection.connect("127.0.0.1", port, security=security) as connection:
            connection.send(FETCH, fetch(topic, 50))
            count = 0
            while not count or time.monotonic() < end_s:
                connection.send(FETCH, fetch(topic, 50))
                assert connection.receive().partitions[0].error_code == 0
                count += 1
            return count

    async def run() -> None:
        async with Cluster(secured.bootstrap("short"), security=security) as cluster:
            await Admin(cluster).create_topic(topic, 1, 1)
            await cluster.leader(TopicPartition(topic, 0))
            connection = await Connection.connect("127.0.0.1", port, security=security)
            async with connection, trio.open_nursery() as nursery:
                nursery.start_soon(fetches, connection)
                nursery.start_soon(fetches, connection)
                assert await trio.to_thread.run_sync(pairs_of_fetches)

    trio.run(run)


def test_command_line(secured: Secured, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    settings = secured.settings("both", "PLAIN")
    lines = [f"{name}={value}".replace("\\", "\\\\") for name, value in settings.items()]
    config.write_text("\n".join(lines), encoding="utf-8")
    run = partial(CliRunner().invoke, ottla)
    where = ["-b", secured.bootstrap("both"), "--command-config", str(config)]
    assert run(["topic", "create", "by-command", *where]).exit_code == 0
    listed = run(["topic", "list", *where])
    assert "by-command" in listed.output
    config.write_text(config.read_text().replace("½", "1/2"))
    refused = run(["topic", "list", *where])
    assert refused.exit_code == 1
    assert "SASL_AUTHENTICATION_FAILED" in refused.output


def test_listeners_are_all_tried() -> None:
    tried = {listener for listener, _ in WAYS} | {"renamed", "short"}
    assert tried == set(LISTENERS)
    assert issubclass(TlsFailed, KafkaError)
