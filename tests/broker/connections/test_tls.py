"""Listeners with TLS: who comes in, who does not, and what a broker says of settings that it cannot serve."""

import datetime
import shutil
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from ottla.broker import certificates
from ottla.client import Security
from ottla.client.errors import TlsFailed
from tests.metrics.scraped import is_there, scrape
from tests.peers.apache import tool
from tests.peers.certificates import Certified, certified
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.support.client import Client, batch
from tests.support.tls import API_VERSIONS, is_served, listeners, refused, shown, store
from tests.support.waiting import PATIENCE_S, eventually


@dataclass(frozen=True)
class Secured:
    """A broker with three listeners: plain, TLS that asks for no certificate, and TLS that requires one."""

    broker: Broker
    folder: Path
    authority: Certified
    open_port: int
    mutual_port: int

    @property
    def trusted(self) -> Path:
        return self.folder / "trusted.pem"

    def context(self, own: Certified | None = None) -> ssl.SSLContext:
        made = ssl.create_default_context(cafile=self.trusted)
        if own is not None:
            made.load_cert_chain(store(self.folder / "own.pem", own))
        return made

    def rdkafka(self, port: int, **settings: object) -> dict[str, object]:
        return {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.trusted),
            **{name.replace("_", "."): value for name, value in settings.items()},
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("tls")
    authority = certified("authority", hosts=[])
    trusted = folder / "trusted.pem"
    trusted.write_text(authority.certificate_pem)
    own = certified("broker", authority, ["127.0.0.1", "localhost"])
    plain, open_port, mutual_port = free_port(), free_port(), free_port()
    settings = {
        "listeners": listeners(plaintext=plain, ssl=open_port, mutual=mutual_port),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,MUTUAL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store(folder / "broker.pem", own, "key secret"),
        "ssl.key.password": "key secret",
        # The other listener has its key in settings, in one line each as files of properties have them.
        "listener.name.mutual.ssl.keystore.key": own.key_pem().replace("\n", " "),
        "listener.name.mutual.ssl.keystore.certificate.chain": own.certificate_pem.replace("\n", " "),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": trusted,
    }
    with Brokers(folder) as brokers:
        broker = brokers(port=plain, settings=settings)
        yield Secured(broker, folder, authority, open_port, mutual_port)


def test_python_comes_in_and_may_write_ahead(secured: Secured) -> None:
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = secured.context()
        context.minimum_version = context.maximum_version = version
        with (
            socket.create_connection(("127.0.0.1", secured.open_port), PATIENCE_S) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            assert connection.version() == version.name.replace("_", ".")
            connection.sendall(100 * API_VERSIONS)
            for _ in range(100):
                (length,) = struct.unpack(">i", _exactly(connection, 4))
                assert _exactly(connection, length)[:6] == struct.pack(">ih", 7, 0)
            # Both sides say good-bye.
            connection.unwrap()


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = connection.recv(count - len(found))
        assert part
        found += part
    return found


def test_large_records_go_both_ways(secured: Secured) -> None:
    settings = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(secured.trusted)}
    security = Security.of({"security.protocol": "SSL", **settings})
    values = [bytes([number]) * 900_000 for number in range(5)]
    with Client.connect("127.0.0.1", secured.open_port, security=security) as client:
        client.create("large")
        for value in values:
            assert client.produce("large", batch(value)).responses[0].partitions[0].error_code == 0
    consumed = _consume(secured.rdkafka(secured.open_port), "large", len(values))
    assert consumed == values


def _consume(settings: dict[str, object], topic: str, count: int) -> list[bytes | None]:
    consumer = confluent_kafka.Consumer({"group.id": "tls", **settings})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[bytes | None] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        found += [message.value() for message in consumer.consume(count, 0.2)]
    consumer.close()
    return found


def test_librdkafka_with_and_without_a_certificate(secured: Secured) -> None:
    own = certified("rdkafka", secured.authority)
    with_own = secured.rdkafka(secured.mutual_port, ssl_key_pem=own.key_pem(), ssl_certificate_pem=own.certificate_pem)
    for number, settings in enumerate((secured.rdkafka(secured.open_port), with_own)):
        topic, values = f"rdkafka-{number}", [str(value).encode() for value in range(2000)]
        producer = confluent_kafka.Producer(settings)
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(PATIENCE_S) == 0
        assert _consume(settings, topic, len(values)) == values


def test_who_has_no_certificate_where_one_is_required(secured: Secured) -> None:
    assert not is_served(secured.mutual_port, secured.context())
    _said(secured, "MUTUAL: the TLS handshake failed: peer sent no certificates")


def test_who_has_somebody_elses_certificate(secured: Secured) -> None:
    strange = certified("stranger", certified("other authority"))
    assert not is_served(secured.mutual_port, secured.context(strange))
    _said(secured, "MUTUAL: the TLS handshake failed: invalid peer certificate: UnknownIssuer")
    assert is_served(secured.mutual_port, secured.context(certified("client", secured.authority)))


def test_who_does_not_trust_the_broker(secured: Secured) -> None:
    other = certified("other authority")
    security = Security.of({"security.protocol": "SSL", "ssl.truststore.type": "PEM"} | _certificates(other))
    with pytest.raises(TlsFailed):
        Client.connect("127.0.0.1", secured.open_port, security=security)
    _said(secured, "SSL: the TLS handshake failed: received fatal alert: UnknownCA")


def _certificates(own: Certified) -> dict[str, str]:
    return {"ssl.truststore.certificates": own.certificate_pem}


def _said(secured: Secured, text: str) -> None:
    eventually("the broker says it", lambda: text in secured.broker.log.read_text(), facts=secured.broker.log.read_text)


def test_plain_text_at_a_port_with_tls(secured: Secured) -> None:
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", secured.open_port), PATIENCE_S) as connection:
            connection.settimeout(PATIENCE_S)
            connection.sendall(API_VERSIONS)
            alert = connection.recv(100)
            assert alert[:1] == b"\x15"
            assert connection.recv(1) == b""
    _said(secured, "SSL: the TLS handshake failed: the client does not speak TLS")
    assert secured.broker.log.read_text().count("the client does not speak TLS") == 1


def test_tls_at_a_port_without_it(secured: Secured) -> None:
    assert not is_served(secured.broker.port, secured.context())
    _said(secured, "this looks like TLS, which this listener does not speak")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is absent")
def test_openssl(secured: Secured) -> None:
    """Protocols that are not enabled, and renegotiation, are refused; sessions go on with a ticket."""
    address = f"127.0.0.1:{secured.open_port}"

    def s_client(*arguments: str, said: bytes = b"") -> str:
        command = ["openssl", "s_client", "-connect", address, "-CAfile", str(secured.trusted), *arguments]
        done = subprocess.run(command, input=said, capture_output=True, timeout=PATIENCE_S, check=False)
        return (done.stdout + done.stderr).decode(errors="replace")

    for version in ("-tls1_2", "-tls1_3"):
        said = s_client(version, "-verify_return_error", "-verify_ip", "127.0.0.1")
        assert "Verify return code: 0 (ok)" in said
    kept = secured.folder / "session.pem"
    s_client("-tls1_2", "-sess_out", str(kept))
    assert "Reused, TLSv1.2" in s_client("-tls1_2", "-sess_in", str(kept))
    assert "Cipher is (NONE)" in s_client("-tls1_1", "-cipher", "ALL:@SECLEVEL=0")
    assert "Cipher is (NONE)" in s_client("-tls1_2", "-cipher", "AES128-SHA:@SECLEVEL=0")
    # A line with an R asks for renegotiation.
    assert "renegotiation" in s_client("-tls1_2", said=b"R\n")


@pytest.mark.judge
@pytest.mark.parametrize("version", ["2.7.2", "3.9.2", "4.3.1"])
@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_java(secured: Secured, version: str, protocol: str) -> None:
    """With a certificate of its own, and the broker's name checked."""
    own = certified("java", secured.authority)
    file = secured.folder / f"java-{version}-{protocol}.properties"
    settings = {
        "security.protocol": "SSL",
        "ssl.enabled.protocols": protocol,
        "ssl.protocol": protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": secured.trusted,
        "ssl.keystore.location": own.pkcs12(secured.folder / f"java-{version}.p12", "secret"),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": "secret",
        "ssl.key.password": "secret",
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    server = ("--bootstrap-server", f"localhost:{secured.mutual_port}", "--topic", f"java-{version}-{protocol}")
    values = [f"{number} {'x' * 500}" for number in range(2000)]
    text = "\n".join(values) + "\n"
    producers, consumers = ("--producer.config", "--consumer.config")
    if version == "4.3.1":
        producers = consumers = "--command-config"
    tool(version, "console-producer", *server, producers, str(file), stdin=text)
    read = ("--from-beginning", "--max-messages", "2000", consumers, str(file))
    assert tool(version, "console-consumer", *server, *read).splitlines() == values


@pytest.mark.skipif(not is_there, reason="prometheus_client is absent")
def test_handshakes_are_counted(brokers: Brokers, tmp_path: Path, own: Path) -> None:
    plain, port, metrics = free_port(), free_port(), free_port()
    settings = {
        "listeners": listeners(plaintext=plain, ssl=port),
        "metrics.listener": f"127.0.0.1:{metrics}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": own,
    }
    broker = brokers(port=plain, settings=settings)
    shown(port)
    assert not is_served(port, ssl.create_default_context())

    def counted() -> tuple[float | None, float | None]:
        found = scrape(metrics)
        names = (f"ottla_{what}_authentication_total" for what in ("successful", "failed"))
        one, other = (found(name, listener="SSL") for name in names)
        assert found("ottla_failed_authentication_total", listener="PLAINTEXT") == 0
        return one, other

    eventually("they are counted", lambda: counted() == (1, 1), facts=lambda: (counted(), broker.log.read_text()))


# --- settings ---


def started(brokers: Brokers, tmp_path: Path, **settings: object) -> str:
    """The one line of a broker that does not start with these settings of its listener with TLS."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return refused(brokers, **{"ssl.keystore.type": "PEM", **given})


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return store(tmp_path / "own.pem", certified("broker", None, ["localhost"]))


def test_stores_that_cannot_be_read(brokers: Brokers, tmp_path: Path, own: Path) -> None:
    said = started(brokers, tmp_path)
    assert "ssl.keystore.location is not set: a file with the key and its certificate is needed" in said
    missing = tmp_path / "missing.pem"
    said = started(brokers, tmp_path, ssl_keystore_location=missing)
    assert f"ssl.keystore.location={missing} cannot be read: No such file or directory" in said
    said = started(brokers, tmp_path, ssl_keystore_key="PEM?")
    assert "ssl.keystore.certificate.chain is not set" in said


def test_keys_that_cannot_be_used(brokers: Brokers, tmp_path: Path) -> None:
    path = tmp_path / "own.pem"
    one, two = certified("one"), certified("two")
    path.write_text(one.key_pem() + two.certificate_pem)
    said = started(brokers, tmp_path, ssl_keystore_location=path)
    assert f"ssl.keystore.location={path}: the key does not belong to the certificate" in said
    store(path, one, "secret")
    said = started(brokers, tmp_path, ssl_keystore_location=path)
    assert "the key is encrypted, and ssl.key.password is not set" in said
    said = started(brokers, tmp_path, ssl_keystore_location=path, ssl_key_password="wrong")
    assert "the key cannot be opened with ssl.key.password" in said
    path.write_text(one.certificate_pem)
    assert "the key is no private key" in started(brokers, tmp_path, ssl_keystore_location=path)


def test_names_that_mean_nothing_here(brokers: Brokers, tmp_path: Path, own: Path) -> None:
    said = started(brokers, tmp_path, ssl_keystore_location=own, ssl_enabled_protocols="TLSv1.3,TLSv1.1")
    assert "ssl.enabled.protocols: TLSv1.1 is not possible, only TLSv1.2 and TLSv1.3 are" in said
    said = started(brokers, tmp_path, ssl_keystore_location=own, ssl_cipher_suites="TLS_RSA_WITH_AES_128_CBC_SHA")
    assert "ssl.cipher.suites: TLS_RSA_WITH_AES_128_CBC_SHA is not possible, only TLS_AES_256_GCM_SHA384" in said


def test_clients_certificates_need_somebody_who_signs_them(brokers: Brokers, tmp_path: Path, own: Path) -> None:
    name = "listener.name.ssl.ssl.client.auth"
    said = started(brokers, tmp_path, ssl_keystore_location=own, **{name: "required"})
    assert f"ssl.truststore.location is not set, and {name}=required: no certificate could be accepted" in said
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": empty}
    said = started(brokers, tmp_path, ssl_keystore_location=own, ssl_client_auth="requested", **trusted)
    assert f"ssl.truststore.location={empty}: has no certificates" in said


def test_settings_for_parts_of_java(brokers: Brokers, tmp_path: Path, own: Path) -> None:
    """A class that decides whom to trust is refused; what only names Java's own parts is a warning."""
    said = started(brokers, tmp_path, ssl_keystore_location=own, ssl_engine_factory_class="org.example.Engines")
    assert "ssl.engine.factory.class: Ottla runs no Java class that makes TLS engines; remove the setting" in said
    plain, name = free_port(), "listener.name.ssl.ssl.trustmanager.algorithm"
    settings = {
        "listeners": listeners(plaintext=plain, ssl=free_port()),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": own,
        "ssl.provider": "SunJSSE",
        name: "PKIX",
    }
    broker = brokers(port=plain, settings=settings)
    assert f"only Java's own libraries look at it: {name}, ssl.provider\n" in broker.log.read_text()


def test_an_expired_certificate_is_a_warning(brokers: Brokers, tmp_path: Path) -> None:
    fresh = certified("broker", None, ["localhost"])
    then = datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    expired = (
        x509.CertificateBuilder()
        .subject_name(fresh.certificate.subject)
        .issuer_name(fresh.certificate.subject)
        .public_key(fresh.key.public_key())
        .serial_number(1)
        .not_valid_before(then - datetime.timedelta(days=1))
        .not_valid_after(then)
        .sign(fresh.key, hashes.SHA256())
    )
    old = Certified(fresh.key, expired)
    read = certificates.read(old.certificate_pem)
    assert (read.begin, read.end) == (then - datetime.timedelta(days=1), then)
    path = store(tmp_path / "own.pem", old)
    plain = free_port()
    settings = {
        "listeners": listeners(plaintext=plain, ssl=free_port()),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": path,
    }
    broker = brokers(port=plain, settings=settings)
    assert f"ssl.keystore.location={path}: a certificate expired on 2020-01-02 03:04:05" in broker.log.read_text()


def test_times_after_2049() -> None:
    own = certified("broker")
    far = datetime.datetime(2126, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(own.certificate.subject)
        .issuer_name(own.certificate.subject)
        .public_key(own.key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.datetime(1999, 1, 1, tzinfo=datetime.UTC))
        .not_valid_after(far)
        .sign(own.key, hashes.SHA256())
    )
    read = certificates.read(Certified(own.key, made).certificate_pem)
    assert (read.begin.year, read.end) == (1999, far)
