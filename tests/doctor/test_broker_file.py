"""`ottla doctor --config`: what is wrong with the security of a broker's file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

from ottla.client import Security
from ottla.doctor import broker_file, certificates
from ottla.doctor.broker_file import CERTIFICATES, CHECK, FILES, LISTENERS, PASSWORDS, RULES, ZOOKEEPER
from ottla.doctor.examine import Options, examine
from ottla.doctor.findings import Finding, Level, Report
from tests.broker.authorization.ruled import AUTHORIZER
from tests.doctor.broker_files import GOOD, Machine, jaas, public_folder
from tests.peers.certificates import certified
from tests.peers.ottla import Brokers
from tests.peers.ports import free_port
from tests.peers.secured_zookeeper import jaas as logged_in
from tests.support.tls import listeners, store
from tests.support.waiting import PATIENCE_S

AUTHORIZER_SETTING = "authorizer__class__name"


@pytest.fixture
def machine() -> Iterator[Machine]:
    with public_folder() as found:
        yield found


def only(report: Report, check: str, level: Level) -> Finding:
    (found,) = [each for each in report.findings if each.check == check and each.level is not Level.OK]
    assert found.level is level, found
    assert found.todo
    return found


def test_a_broker_that_is_well(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    # Those of tests are good for a day.
    monkeypatch.setattr(certificates, "SOON_DAYS", 0)
    file = machine.write(**{AUTHORIZER_SETTING: AUTHORIZER, "super__users": "User:admin"})
    report = Report(str(file))
    broker_file.check(report, str(file))
    assert [finding for finding in report.findings if finding.level is not Level.OK] == []
    checks = {finding.check for finding in report.findings}
    assert checks == {CHECK, CERTIFICATES, LISTENERS, PASSWORDS, FILES, RULES}


def test_a_certificate_that_expires_soon_and_one_that_has(machine: Machine) -> None:
    soon = only(machine.look(now=datetime.now(UTC)), CERTIFICATES, Level.WARNING)
    assert "the certificate of CN=broker expires on" in soon.found
    assert "in 0 days" in soon.found
    over = only(machine.look(now=datetime.now(UTC) + timedelta(days=2)), CERTIFICATES, Level.PROBLEM)
    assert "has expired on" in over.found
    early = only(machine.look(now=datetime.now(UTC) - timedelta(days=2)), CERTIFICATES, Level.PROBLEM)
    assert "is not valid before" in early.found


@pytest.mark.parametrize(
    ("host", "is_covered"),
    [
        ("broker.example.org", True),
        ("BROKER.example.org", True),
        ("x.a.org", True),
        ("x.y.a.org", False),
        ("a.org", False),
        ("other.example.org", False),
        ("127.0.0.1", False),
    ],
)
def test_names_that_clients_are_told(machine: Machine, host: str, is_covered: bool) -> None:
    report = machine.look(now=datetime.now(UTC), advertised__listeners=f"SASL_SSL://{host}:9092")
    wrong = [each.found for each in report.findings if each.check == CERTIFICATES and each.level is Level.PROBLEM]
    assert (wrong == []) is is_covered
    if not is_covered:
        assert f"clients are told to connect to {host}, and " in wrong[0]
        assert "is for *.a.org, ::1, broker.example.org" in wrong[0]


def test_the_certificate_of_the_metrics(machine: Machine) -> None:
    own = store(machine.folder / "metrics.pem", certified("metrics", hosts=["127.0.0.1"]))
    own.chmod(0o600)
    report = machine.look(
        metrics__listener="127.0.0.2:9404",
        metrics__security__protocol="SSL",
        listener__name__metrics__ssl__keystore__location=own,
    )
    found = [each.found for each in report.findings if each.check == CERTIFICATES]
    assert any("listener METRICS://127.0.0.2:9404: " in each and "CN=metrics expires on" in each for each in found)
    assert any("are told to connect to 127.0.0.2, and " in each for each in found)


def test_an_open_listener_beside_secured_ones(machine: Machine) -> None:
    given = "SASL_SSL://0.0.0.0:9092,PLAINTEXT://{}:9093"
    told = "SASL_SSL://broker.example.org:9092,PLAINTEXT://broker.example.org:9093"
    report = machine.look(listeners=given.format("0.0.0.0"), advertised__listeners=told)
    assert "PLAINTEXT://0.0.0.0:9093 lets in everybody" in only(report, LISTENERS, Level.PROBLEM).found
    report = machine.look(listeners=given.format("127.0.0.1"), advertised__listeners=told)
    assert [each.level for each in report.findings if each.check == LISTENERS] == [Level.OK]
    report = machine.look(metrics__listener="0.0.0.0:9404")
    assert "metrics.listener=0.0.0.0:9404 tells everybody" in only(report, LISTENERS, Level.WARNING).found


def test_passwords_in_plain_text(machine: Machine) -> None:
    report = machine.look(
        listeners="SASL_PLAINTEXT://10.0.0.1:9092",
        advertised__listeners="SASL_PLAINTEXT://10.0.0.1:9092",
        security__inter__broker__protocol="SASL_PLAINTEXT",
        listener__name__sasl_plaintext__plain__sasl__jaas__config=jaas(alice=GOOD),
    )
    assert "takes passwords by PLAIN without TLS" in only(report, LISTENERS, Level.WARNING).found


def test_passwords_that_are_soon_guessed(machine: Machine) -> None:
    weak = jaas(alice="", bob="Admin-Secret", carol="1234567", longername="longername", dave=GOOD)
    found = only(machine.look(listener__name__sasl_ssl__plain__sasl__jaas__config=weak), PASSWORDS, Level.PROBLEM).found
    assert found == (
        "passwords that are soon guessed: alice on SASL_SSL (empty), bob on SASL_SSL (well known), carol on SASL_SSL "
        "(less than 8 characters), longername on SASL_SSL (the name of the user)"
    )
    assert "1234567" not in found


def test_files_that_others_can_read(machine: Machine) -> None:
    machine.keystore.chmod(0o644)
    found = only(machine.look(), FILES, Level.PROBLEM)
    assert found.found == f"every user of this machine can read {machine.keystore}"
    assert found.todo == f"chmod o-rwx {machine.keystore}"
    machine.folder.chmod(0o700)
    assert [each.level for each in machine.look().findings if each.check == FILES] == [Level.OK]


def test_rules(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there is no authorizer" in only(machine.look(), RULES, Level.WARNING).found
    given = {AUTHORIZER_SETTING: AUTHORIZER, "super__users": "User:admin"}
    report = machine.look(None, **given, allow__everyone__if__no__acl__found="true")
    assert "allow.everyone.if.no.acl.found=true: everybody may do" in only(report, RULES, Level.WARNING).found


def test_a_file_that_no_broker_starts_with(machine: Machine) -> None:
    report = machine.look(listeners="nonsense")
    assert "nonsense" in only(report, CHECK, Level.PROBLEM).found
    machine.keystore.write_text("no key")
    assert str(machine.keystore) in only(machine.look(), CERTIFICATES, Level.PROBLEM).found


def test_the_certificate_that_a_broker_shows(brokers: Brokers, tmp_path: Path) -> None:
    authority = certified("authority")
    own = certified("broker", authority, ["127.0.0.1"])
    ports = free_port(), free_port()
    settings = {
        "listeners": listeners(plaintext=ports[0], ssl=ports[1]),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store(tmp_path / "broker.pem", own),
    }
    brokers(port=ports[0], settings=settings)
    (tmp_path / "trusted.pem").write_text(authority.certificate_pem)
    security = Security("SSL", truststore_location=str(tmp_path / "trusted.pem"))
    report = trio.run(examine, "127.0.0.1", ports[1], Options(timeout_s=PATIENCE_S, security=security))
    found = only(report, certificates.CHECK, Level.WARNING).found
    assert found.startswith(f"127.0.0.1:{ports[1]}: the certificate of CN=broker expires on ")


NODES = {"zookeeper__connect": "127.0.0.1:1"}


def test_a_tree_that_is_kept(machine: Machine) -> None:
    own = {**NODES, "zookeeper__set__acl": "true", "zookeeper__sasl__jaas__config": logged_in()}
    (found,) = [each for each in machine.look(**own).findings if each.check == ZOOKEEPER]
    assert (found.level, found.found) == (Level.OK, "the broker keeps what it makes there as the user kafka")


def test_trees_that_are_open(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    login = only(machine.look(**NODES, zookeeper__sasl__jaas__config=logged_in()), ZOOKEEPER, Level.WARNING)
    assert "the broker is the user kafka there, and everybody" in login.found
    nobody = only(machine.look(**NODES), ZOOKEEPER, Level.WARNING)
    assert "the broker is nobody there" in nobody.found
    refused = only(machine.look(**NODES, zookeeper__set__acl="true"), ZOOKEEPER, Level.PROBLEM)
    assert "this broker is nobody to ZooKeeper" in refused.found


def test_a_tree_in_the_data_directory(machine: Machine) -> None:
    assert [each for each in machine.look().findings if each.check == ZOOKEEPER] == []
