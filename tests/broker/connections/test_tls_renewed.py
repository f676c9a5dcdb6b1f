"""Certificates of open listeners that are renewed: by AlterConfigs, and in their files."""

import os
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla.wire.k32_describe_configs import DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResource
from tests.peers.certificates import Certified, certified
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.support.client import Client, connect
from tests.support.settings import BROKER, alter
from tests.support.tls import API_VERSIONS, context, is_served, listeners, shown, store
from tests.support.waiting import PATIENCE_S, eventually

INVALID_REQUEST = 42
DYNAMIC_BROKER, STATIC = 2, 4
HOSTS = ["localhost", "127.0.0.1"]
KEYS = "listener.name.ssl.ssl.keystore.location"
TRUSTED = "listener.name.ssl.ssl.truststore.location"


@dataclass(frozen=True)
class Renewed:
    """A broker with a plain listener and one with TLS, which asks for a certificate that `authority` signed."""

    broker: Broker
    folder: Path
    port: int
    authority: Certified
    old: Certified

    def new(self, name: str = "broker", hosts: list[str] | None = None) -> Certified:
        return certified(name, self.authority, HOSTS if hosts is None else hosts)

    def put(self, name: str, content: str) -> None:
        """Has a file with another content at once."""
        path = self.folder / f"{name}.new"
        path.write_text(content)
        os.replace(path, self.folder / name)

    def alter(self, name: str, value: str | Path | None) -> tuple[int, str]:
        with connect(self.broker) as client:
            code, message = alter(client, name, None if value is None else str(value), broker=str(self.broker.id))
        return code, message or ""

    def shows(self, own: Certified) -> None:
        eventually("it shows it", lambda: shown(self.port) == own.certificate_pem, facts=self.broker.log.read_text)

    def says(self, text: str) -> None:
        eventually("it says it", lambda: text in self.broker.log.read_text(), facts=self.broker.log.read_text)

    def context(self, own: Certified) -> ssl.SSLContext:
        return context(self.authority.certificate_pem, self.folder / "client.pem", own)


@pytest.fixture
def renewed(brokers: Brokers, tmp_path: Path) -> Renewed:
    authority = certified("authority")
    old = certified("broker", authority, HOSTS)
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(authority.certificate_pem)
    plain, port = free_port(), free_port()
    settings = {
        "listeners": listeners(plaintext=plain, ssl=port),
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        KEYS: store(tmp_path / "broker.pem", old),
        TRUSTED: trusted,
        "ssl.client.auth": "requested",
    }
    return Renewed(brokers(port=plain, settings=settings), tmp_path, port, authority, old)


def test_a_file_with_another_certificate(renewed: Renewed) -> None:
    """New connections get it; one that is open goes on."""
    own = certified("client", renewed.authority)
    with (
        socket.create_connection(("127.0.0.1", renewed.port), PATIENCE_S) as plain,
        renewed.context(own).wrap_socket(plain, server_hostname="localhost") as before,
    ):
        new = renewed.new()
        renewed.put("broker.pem", new.key_pem() + new.certificate_pem)
        renewed.shows(new)
        renewed.says(f"new connections get what {KEYS}={renewed.folder}/broker.pem has now")
        before.sendall(API_VERSIONS)
        assert before.recv(1) != b""
    # In the same file, without another one in its place.
    newest = renewed.new()
    store(renewed.folder / "broker.pem", newest)
    renewed.shows(newest)


def test_a_file_that_cannot_be_used_is_told_once(renewed: Renewed) -> None:
    new, later = renewed.new(), renewed.new()
    renewed.put("broker.pem", later.key_pem() + new.certificate_pem)
    renewed.says("the key does not belong to the certificate; new connections get the certificate of before")
    assert shown(renewed.port) == renewed.old.certificate_pem
    (renewed.folder / "broker.pem").unlink()
    renewed.says("cannot be read: No such file or directory; new connections get the certificate of before")
    renewed.put("broker.pem", new.key_pem() + new.certificate_pem)
    renewed.shows(new)
    said = renewed.broker.log.read_text()
    assert said.count("new connections get the certificate of before") == 2
    assert "PRIVATE KEY" not in said


def test_those_who_are_trusted(renewed: Renewed) -> None:
    others = certified("other authority")
    one, other = certified("one", renewed.authority), certified("other", others)
    assert is_served(renewed.port, renewed.context(one))
    assert not is_served(renewed.port, renewed.context(other))
    renewed.put("trusted.pem", others.certificate_pem)
    eventually("the other is", lambda: is_served(renewed.port, renewed.context(other)))
    assert not is_served(renewed.port, renewed.context(one))
    # A setting that is the same has its file read again, before there is an answer.
    renewed.put("trusted.pem", renewed.authority.certificate_pem)
    path = str(renewed.folder / "trusted.pem")
    assert renewed.alter(TRUSTED, path) == (0, "")
    eventually("the first is", lambda: is_served(renewed.port, renewed.context(one)))


def test_another_file_by_a_setting(renewed: Renewed) -> None:
    new = renewed.new(hosts=[*HOSTS, "another.example"])
    assert renewed.alter(KEYS, store(renewed.folder / "new.pem", new)) == (0, "")
    renewed.shows(new)
    # Its file is looked at from now on.
    newest = renewed.new(hosts=[*HOSTS, "another.example"])
    store(renewed.folder / "new.pem", newest)
    renewed.shows(newest)
    # Whoever names it again has it read at once.
    assert renewed.alter(KEYS, None)[0] == INVALID_REQUEST  # the name of another.example would be lost
    again = renewed.new(hosts=[*HOSTS, "another.example"])
    store(renewed.folder / "new.pem", again)
    assert renewed.alter(KEYS, renewed.folder / "new.pem") == (0, "")
    assert shown(renewed.port) == again.certificate_pem


def test_a_store_with_a_password_holds_after_a_restart(brokers: Brokers, tmp_path: Path) -> None:
    """Also where the file of the broker's own settings is gone; where the new one is, the broker says so."""
    old, new = certified("broker", None, HOSTS), certified("broker", None, HOSTS)
    plain, port = free_port(), free_port()
    settings = {
        "listeners": listeners(plaintext=plain, ssl=port),
        "password.encoder.secret": "encoder secret",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store(tmp_path / "old.pem", old),
    }
    broker = brokers(port=plain, settings=settings)
    file = new.pkcs12(tmp_path / "new.p12", "store secret")
    prefix = "listener.name.ssl.ssl.keystore"
    given = {f"{prefix}.type": "PKCS12", f"{prefix}.location": str(file), f"{prefix}.password": "store secret"}
    with connect(broker) as client:
        client.alter_broker(str(broker.id), given)
    eventually("it shows it", lambda: shown(port) == new.certificate_pem, facts=broker.log.read_text)
    broker.stop()
    (tmp_path / "old.pem").unlink()
    broker = brokers.restart(broker, settings=settings)
    assert shown(port) == new.certificate_pem
    broker.stop()
    file.unlink()
    broker = brokers.restart(broker, settings=settings, wait=False)
    assert broker.process.wait(PATIENCE_S) == 1
    said = broker.log.read_text()
    assert f"cannot start the broker: listener SSL://127.0.0.1:{port}: {KEYS}={file} cannot be read" in said
    assert "Traceback" not in said


def test_stores_that_are_refused(renewed: Renewed) -> None:
    """Nothing is stored, and the old certificate goes on."""
    missing = renewed.folder / "missing.pem"
    code, said = renewed.alter(KEYS, missing)
    assert (code, f"{KEYS}={missing} cannot be read: No such file or directory" in said) == (INVALID_REQUEST, True)
    code, said = renewed.alter(KEYS, store(renewed.folder / "stranger.pem", renewed.new("stranger")))
    assert code == INVALID_REQUEST
    assert "the certificate is of CN=stranger, and that of now is of CN=broker; the name can only change with" in said
    code, said = renewed.alter(KEYS, store(renewed.folder / "fewer.pem", renewed.new(hosts=["localhost"])))
    assert code == INVALID_REQUEST
    assert "lacks alternative names that the one of now has (127.0.0.1)" in said
    # The same where the file is the same, and its content is not.
    other = renewed.new("stranger")
    store(renewed.folder / "broker.pem", other)
    code, said = renewed.alter(KEYS, renewed.folder / "broker.pem")
    assert (code, "the certificate is of CN=stranger" in said) == (INVALID_REQUEST, True)
    # Settings of other kinds do not ask what the file has.
    assert renewed.alter("log.retention.ms", "1000000") == (0, "")
    assert shown(renewed.port) == renewed.old.certificate_pem
    with Client.connect("127.0.0.1", renewed.broker.port, "test") as client:
        assert alter(client, "ssl.keystore.location", "x", broker=str(renewed.broker.id))[0] == INVALID_REQUEST


def test_what_is_told_of_the_settings(renewed: Renewed) -> None:
    new = store(renewed.folder / "new.pem", renewed.new())
    assert renewed.alter(KEYS, new) == (0, "")
    asked = DescribeConfigsResource(resource_type=BROKER, resource_name=str(renewed.broker.id), configuration_keys=None)

    def told() -> dict[str, tuple[str | None, int]]:
        with connect(renewed.broker) as client:
            (row,) = client.call(DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=[asked])).results
        return {config.name: (config.value, config.config_source) for config in row.configs}

    eventually("the new one", lambda: told()[KEYS] == (str(new), DYNAMIC_BROKER))
    assert told()["ssl.client.auth"] == ("requested", STATIC)
    assert renewed.alter(KEYS, None) == (0, "")
    eventually("the old one", lambda: told()[KEYS] == (str(renewed.folder / "broker.pem"), STATIC))


def test_case_and_blanks_of_a_name_do_not_matter(renewed: Renewed) -> None:
    new = renewed.new(" Broker ")
    renewed.put("broker.pem", new.key_pem() + new.certificate_pem)
    renewed.shows(new)
