"""Who comes in at the metrics listener: by TLS, by a password, or by a socket of the file system."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import stat
from pathlib import Path

import pytest

from tests.metrics.scraped import is_there
from tests.peers.certificates import Certified, certified
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.peers.skips import require
from tests.support.tls import shown, store
from tests.support.waiting import PATIENCE_S, eventually

PASSWORD = "a long pässword: with a colon"


@pytest.fixture(autouse=True)
def _needs_packages() -> None:
    if not is_there:
        require("clients", "the packages of the extra `metrics` are not installed")


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def asked(connection: http.client.HTTPConnection, path: str, headers: dict[str, str] | None = None) -> int:
    try:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if path == "/metrics" and answer.status == 200:
        assert b"ottla_ready 1" in body
    if answer.status == 401:
        assert answer.headers["www-authenticate"].startswith("Basic realm=")
        assert b"ottla_" not in body
    return answer.status


def refused(brokers: Brokers, **settings: object) -> str:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    broker = brokers(settings=given, wait=False)
    assert broker.process.wait(PATIENCE_S) == 1
    said = broker.log.read_text()
    assert "Traceback" not in said
    assert not broker.data.exists()
    return next(line for line in said.splitlines() if "cannot start the broker: " in line)


class Tls:
    """A broker whose metrics need TLS and a password."""

    def __init__(self, brokers: Brokers, folder: Path, **others: object) -> None:
        self.port = free_port()
        self.authority = certified("authority", hosts=[])
        self.keystore = store(folder / "metrics.pem", certified("metrics", self.authority, ["127.0.0.1"]))
        file = folder / "password"
        file.write_text(f"{PASSWORD}\n", encoding="utf-8")
        self.broker: Broker = brokers(
            settings={
                "metrics.listener": f"127.0.0.1:{self.port}",
                "metrics.security.protocol": "SSL",
                "listener.name.metrics.ssl.keystore.type": "PEM",
                "listener.name.metrics.ssl.keystore.location": self.keystore,
                "metrics.user": "prometheus",
                "metrics.password.file": file,
                **others,
            }
        )

    def connect(self, own: Path | None = None) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cadata=self.authority.certificate_pem)
        if own is not None:
            context.load_cert_chain(own)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE_S, context=context)


def test_metrics_need_tls_and_the_password(brokers: Brokers, tmp_path: Path) -> None:
    served = Tls(brokers, tmp_path)
    connection = served.connect()
    assert asked(connection, "/metrics", basic("prometheus", PASSWORD)) == 200
    for wrong in (
        {},
        basic("prometheus", PASSWORD[:-1]),
        basic("other", PASSWORD),
        {"Authorization": "Basic ?"},
        {"Authorization": basic("prometheus", PASSWORD)["Authorization"].replace("Basic", "Bearer")},
    ):
        assert asked(connection, "/metrics", wrong) == 401
        assert asked(connection, "/other", wrong) == 401
    assert asked(connection, "/healthz") == asked(connection, "/readyz") == 200
    assert asked(connection, "/metrics?x", basic("prometheus", PASSWORD)) == 200
    assert PASSWORD not in served.broker.log.read_text()


def test_another_password_in_the_file_is_taken(brokers: Brokers, tmp_path: Path) -> None:
    served = Tls(brokers, tmp_path)
    (tmp_path / "password").write_text("short\n")
    eventually("it is refused", lambda: "has less than 8 characters" in served.broker.log.read_text())
    assert asked(served.connect(), "/metrics", basic("prometheus", PASSWORD)) == 200
    (tmp_path / "password").write_text("another password\n")
    eventually(
        "it is taken", lambda: asked(served.connect(), "/metrics", basic("prometheus", "another password")) == 200
    )
    assert asked(served.connect(), "/metrics", basic("prometheus", PASSWORD)) == 401
    assert "another password" not in served.broker.log.read_text()


def test_refusals_stand_in_the_audit_log(brokers: Brokers, tmp_path: Path) -> None:
    audit = tmp_path / "audit.log"
    served = Tls(brokers, tmp_path, **{"audit.log.file": audit})
    for headers in ({}, basic("prometheus", "a wrong password"), basic("prometheus", PASSWORD)):
        asked(served.connect(), "/metrics", headers)
    eventually("both are written", lambda: audit.read_text().count("\n") == 2)
    first, second = (json.loads(line) for line in audit.read_text().splitlines())
    assert (first["user"], first["reason"]) == (None, "basic authentication: no name and password")
    assert (second["user"], second["reason"]) == (
        "prometheus",
        "basic authentication: wrong name or password of 'prometheus'",
    )
    for line in (first, second):
        assert (line["event"], line["listener"], line["mechanism"]) == ("authentication", "METRICS", "BASIC")
        assert (line["address"], line["allowed"]) == ("127.0.0.1", False)
    assert "a wrong password" not in audit.read_text()


def test_those_who_speak_no_tls_are_closed_and_hold_up_nobody(brokers: Brokers, tmp_path: Path) -> None:
    served = Tls(brokers, tmp_path)
    silent = socket.create_connection(("127.0.0.1", served.port), PATIENCE_S)
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE_S) as plain:
        plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"ottla" not in plain.recv(1000)
    assert asked(served.connect(), "/metrics", basic("prometheus", PASSWORD)) == 200
    silent.close()
    assert "Traceback" not in served.broker.log.read_text()


def test_scrapers_may_need_a_certificate(brokers: Brokers, tmp_path: Path) -> None:
    trusted = certified("clients", hosts=[])
    (tmp_path / "trusted.pem").write_text(trusted.certificate_pem)
    served = Tls(
        brokers,
        tmp_path,
        **{
            "listener.name.metrics.ssl.client.auth": "required",
            "listener.name.metrics.ssl.truststore.type": "PEM",
            "listener.name.metrics.ssl.truststore.location": tmp_path / "trusted.pem",
        },
    )
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        asked(served.connect(), "/healthz")
    own = store(tmp_path / "own.pem", certified("scraper", trusted))
    assert asked(served.connect(own), "/healthz") == 200


def test_a_renewed_certificate_is_taken(brokers: Brokers, tmp_path: Path) -> None:
    served = Tls(brokers, tmp_path)
    renewed: Certified = certified("metrics", served.authority, ["127.0.0.1"])
    served.keystore.write_text("no certificate")
    served.broker.wait_until(lambda: "get the certificate of before" in served.broker.log.read_text())
    assert asked(served.connect(), "/healthz") == 200
    store(served.keystore, renewed)
    eventually("it is shown", lambda: shown(served.port) == renewed.certificate_pem)


def test_a_socket_of_the_file_system(brokers: Brokers, tmp_path: Path) -> None:
    path = tmp_path / "metrics.sock"

    def ask(where: str) -> int:
        connection = http.client.HTTPConnection("localhost", timeout=PATIENCE_S)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(path))
        return asked(connection, where)

    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(path))
    broker = brokers(settings={"metrics.listener": f"unix:{path}"})
    assert ask("/metrics") == ask("/readyz") == 200
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    other = brokers(settings={"metrics.listener": f"unix:{path}"}, wait=False)
    assert other.process.wait(PATIENCE_S) == 1
    assert f"metrics.listener: cannot listen on {path}: Address already in use" in other.log.read_text()
    assert ask("/healthz") == 200
    broker.stop()
    assert not path.exists()


def test_what_cannot_be_served_refuses_the_start(brokers: Brokers, tmp_path: Path) -> None:
    listener = f"127.0.0.1:{free_port()}"
    short = tmp_path / "short"
    short.write_text("1234567\n")
    said = refused(brokers, metrics_listener=listener, metrics_user="a")
    assert "metrics.user is set, and metrics.password.file is not: they come together" in said
    given = {"metrics_listener": listener, "metrics_user": "a", "metrics_password_file": short}
    assert "its first line has less than 8 characters" in refused(brokers, **given)
    given["metrics_password_file"] = tmp_path / "absent"
    assert "absent cannot be read: No such file or directory" in refused(brokers, **given)
    said = refused(brokers, metrics_listener=listener, metrics_security_protocol="SSL")
    assert f"listener METRICS://{listener}: ssl.keystore.location is not set" in said
    assert "PLAINTEXT, SSL" in refused(brokers, metrics_listener=listener, metrics_security_protocol="TLS")
    said = refused(brokers, metrics_listener=f"unix:{tmp_path}/a", metrics_security_protocol="SSL")
    assert "so metrics.security.protocol has no effect; remove it" in said
    assert "107 bytes at most" in refused(brokers, metrics_listener=f"unix:/{'x' * 107}")
    said = refused(brokers, metrics_listener=f"unix:{short}")
    assert f"cannot listen on {short}: it is there, and no socket" in said
    assert short.exists()


def test_a_password_that_everybody_can_read_is_a_warning(brokers: Brokers, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(PASSWORD, encoding="utf-8")
    file.chmod(0o644)
    given = {"metrics.listener": f"127.0.0.1:{free_port()}", "metrics.user": "a", "metrics.password.file": file}
    said = brokers(settings=given).log.read_text()
    assert f"every user of this machine can read metrics.password.file={file}" in said
