"""The audit log of a broker with listeners of every kind."""

from __future__ import annotations

import json
import shutil
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ottla.client import BlockingConnection, Security
from ottla.errors import SaslAuthenticationFailed
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreateTopicsRequest
from ottla.wire.needs import Operation, Resource
from tests.broker.authorization.ruled import PLAIN, Ruled, rule, settings
from tests.metrics.scraped import scrape
from tests.peers.certificates import certified
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.support.tls import context, is_served, store
from tests.support.waiting import PATIENCE_S, eventually

SECRET = "a-secret-that-is-long"


@dataclass
class Audited:
    broker: Broker
    ruled: Ruled
    path: Path
    metrics: int
    tls: int
    trusted: str

    def text(self) -> str:
        return self.path.read_text() if self.path.exists() else ""

    def lines(self, **wanted: object) -> list[dict[str, Any]]:
        """The lines whose fields have these values."""
        found = [json.loads(line) for line in self.text().splitlines()]
        return [line for line in found if all(line.get(name) == value for name, value in wanted.items())]

    def line(self, **wanted: object) -> dict[str, Any]:
        """The one such line, when it has come."""
        (found,) = eventually(f"a line with {wanted}", lambda: self.lines(**wanted), facts=self.text)
        return found

    def enter(self, user: str, password: str) -> None:
        given = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN} required username="{user}" password="{password}";',
        }
        BlockingConnection.connect("127.0.0.1", self.ruled.sasl, security=Security.of(given)).close()


def started(brokers: Brokers, folder: Path, **others: object) -> Audited:
    folder.mkdir(parents=True)
    own = certified("broker", hosts=["localhost"])
    plaintext, sasl, tls, metrics = (free_port() for _ in range(4))
    given = settings(plaintext, sasl, ("alice", "root"), **others)
    given["listeners"] = f"{given['listeners']},TLS://127.0.0.1:{tls}"
    given["listener.security.protocol.map"] = f"{given['listener.security.protocol.map']},TLS:SSL"
    given |= {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store(folder / "broker.pem", own),
        "listener.name.sasl.plain.sasl.jaas.config": (
            f'{PLAIN} required user_alice="p" user_root="p" user_carol="{SECRET}";'
        ),
        "audit.log.file": folder / "audit.log",
        "metrics.listener": f"127.0.0.1:{metrics}",
    }
    broker = brokers(port=plaintext, settings=given)
    return Audited(broker, Ruled(plaintext, sasl), folder / "audit.log", metrics, tls, own.certificate_pem)


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    folder = tmp_path_factory.mktemp("audited")
    with Brokers(folder) as brokers:
        found = started(brokers, folder / "logs")
        topics = [CreatableTopic(name, 1, 1) for name in ("orders", "bills")]
        found.ruled.ask(None, CREATE_TOPICS, CreateTopicsRequest(topics=topics))
        found.ruled.create(rule("alice", Operation.READ, Resource.TOPIC, "bills"))
        yield found


def asked(audited: Audited, user: str | None, topic: str) -> int:
    message = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (row,) = audited.ruled.ask(user, METADATA, message, 9).topics
    return int(row.error_code)


def test_what_is_denied_is_written_once_with_who_and_where(audited: Audited) -> None:
    assert [asked(audited, "alice", "orders") for _ in range(3)] == [29, 29, 29]
    line = audited.line(event="authorization", name="orders")
    assert line.pop("time").endswith("Z")
    assert line.pop("client_id")
    assert line == {
        "event": "authorization",
        "principal": "User:alice",
        "address": "127.0.0.1",
        "listener": "SASL",
        "api": "Metadata",
        "operation": "DESCRIBE",
        "resource": "topic",
        "name": "orders",
        "allowed": False,
        "rule": "no rule allows it",
    }


def test_what_is_allowed_is_not_written_unless_it_is_wanted(audited: Audited, brokers: Brokers, tmp_path: Path) -> None:
    assert asked(audited, "alice", "bills") == 0
    assert asked(audited, "alice", "absent") == 29
    audited.line(name="absent")
    assert audited.lines(allowed=True) == []
    other = started(brokers, tmp_path / "allowed", audit_log_allowed="true")
    other.ruled.create(rule("alice", Operation.READ, Resource.TOPIC, "bills"))
    eventually("it is allowed", lambda: asked(other, "alice", "bills") != 29)
    assert other.line(principal="User:alice", name="bills", allowed=True)["rule"] == ("User:alice may read topic bills")
    assert other.line(principal="User:ANONYMOUS", api="CreateAcls")["rule"] == "a super user"
    assert other.line(event="authentication", user="alice")["mechanism"] == "PLAIN"


def test_who_could_not_say_who_it_is_is_written_without_a_secret(audited: Audited) -> None:
    name = "\u202e" + 100 * "x"
    for user, password in (("alice", "wrong-password"), (SECRET, "x"), (name, "y")):
        with pytest.raises(SaslAuthenticationFailed):
            audited.enter(user, password)
    line = audited.line(event="authentication", user="alice")
    assert line["reason"] == "authentication by PLAIN failed: wrong password of 'alice'"
    assert (line["listener"], line["mechanism"], line["address"]) == ("SASL", "PLAIN", "127.0.0.1")
    assert line["allowed"] is False
    audited.line(user="[hidden]")
    audited.line(user=f"{name[:64]}... (101 characters)")
    text = audited.path.read_text()
    assert text.isascii()
    assert SECRET not in text
    assert "wrong-password" not in text


def test_a_tls_handshake_that_fails_is_written(audited: Audited) -> None:
    assert not is_served(audited.tls, ssl.create_default_context())
    line = audited.line(mechanism="TLS")
    assert line["reason"].startswith("the TLS handshake failed: ")
    assert line["listener"] == "TLS"


def test_certificates_that_give_a_name_and_those_that_give_none(brokers: Brokers, tmp_path: Path) -> None:
    authority = certified("authority")
    (tmp_path / "trusted.pem").write_text(authority.certificate_pem)
    audited = started(
        brokers,
        tmp_path / "named",
        audit_log_allowed="true",
        listener_name_tls_ssl_client_auth="required",
        listener_name_tls_ssl_truststore_type="PEM",
        listener_name_tls_ssl_truststore_location=tmp_path / "trusted.pem",
        listener_name_tls_ssl_principal_mapping_rules="RULE:^CN=(known)$/$1/",
    )
    for name in ("known", "other"):
        made = context(audited.trusted, tmp_path / "own.pem", certified(name, authority))
        assert is_served(audited.tls, made) is (name == "known")
    assert audited.line(mechanism="TLS", user="known")["allowed"] is True
    line = audited.line(mechanism="TLS", user=None)
    assert "applies to the name CN=other in the client's certificate" in line["reason"]
    assert line["allowed"] is False


def test_who_speaks_before_it_said_who_it_is_is_written(audited: Audited) -> None:
    with BlockingConnection.connect("127.0.0.1", audited.ruled.sasl) as stranger, pytest.raises(OSError):  # noqa: PT011
        stranger.call(METADATA, MetadataRequest(topics=None), 9)
    assert audited.line(event="authentication", mechanism=None)["allowed"] is False


def test_a_disk_that_is_gone_loses_lines_and_nobody_waits(brokers: Brokers, tmp_path: Path) -> None:
    audited = started(brokers, tmp_path / "gone")
    shutil.rmtree(audited.path.parent)

    def lost() -> float | None:
        return scrape(audited.metrics)("ottla_audit_lines_lost_total")

    assert lost() == 0
    assert asked(audited, "alice", "one") == 29
    eventually("it is lost", lambda: lost() == 1)
    assert asked(audited, "alice", "two") == 29
    eventually("it is lost", lambda: lost() == 2)
    assert audited.broker.log.read_text().count("lines of the audit log are lost") == 1
    audited.path.parent.mkdir()
    assert asked(audited, "alice", "three") == 29
    audited.line(name="three")
    assert "the audit log is written again; 2 of its lines are lost" in audited.broker.log.read_text()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"audit.log.file": "FOLDER"}, "this is a folder; name a file in it"),
        ({"audit.log.file": "FOLDER/absent/audit.log"}, "there is no folder FOLDER/absent; make it first"),
        ({"audit.log.file": "/dev/null"}, "this is no ordinary file, which the log needs"),
        ({"audit.log.file": "FOLDER/a", "audit.log.files": 1}, "audit.log.files"),
        ({"audit.log.file": "FOLDER/a", "audit.log.max.bytes": 100}, "audit.log.max.bytes"),
    ],
)
def test_what_cannot_be_written_refuses_the_start(
    brokers: Brokers, tmp_path: Path, given: dict[str, object], said: str
) -> None:
    named = {name: str(value).replace("FOLDER", str(tmp_path)) for name, value in given.items()}
    broker = brokers(settings=named, wait=False)
    assert broker.process.wait(PATIENCE_S) == 1
    line = broker.log.read_text().strip().splitlines()[-1]
    assert said.replace("FOLDER", str(tmp_path)) in line
    assert "cannot start the broker" in line
    assert not broker.data.exists()
