"""The doctor's findings about clusters that Ottla's brokers are to join: Apache Kafka's, and trees with what stops
that.
"""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
import trio
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from ottla.doctor.examine import Options, examine
from ottla.doctor.findings import Finding, Level, Report
from ottla.doctor.migration import BROKERS, TREE, check_tree
from tests.peers.apache import Apache
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]


def look(port: int, zookeeper: str | None) -> Report:
    return trio.run(examine, "127.0.0.1", port, Options(migrates=True, zookeeper=zookeeper))


def of(report: Report, check: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.check == check]


def topic(port: int, **config: str) -> None:
    client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
    client.create_topics([NewTopic("t", 1, 1, config=config)])["t"].result(PATIENCE_S)


@pytest.mark.parametrize(("version", "settings"), [("2.7.2", {}), ("3.9.2", {"inter.broker.protocol.version": "2.7"})])
def test_clusters_that_can(kafka: Apache, zookeeper: str, version: str, settings: dict[str, object]) -> None:
    broker = kafka.broker(version, zookeeper=zookeeper, settings=settings)
    topic(broker.port, **{"retention.ms": "1000000"})
    report = look(broker.port, zookeeper)
    assert [finding for finding in of(report, BROKERS) if finding.level is Level.PROBLEM] == []
    assert [finding.level for finding in of(report, TREE)] == [Level.OK], of(report, TREE)
    (skipped,) = of(look(broker.port, None), TREE)
    assert (skipped.level, "--zookeeper" in skipped.todo) == (Level.SKIPPED, True)


def test_one_that_ran_a_newer_protocol(kafka: Apache, zookeeper: str) -> None:
    broker = kafka.broker("3.9.2", zookeeper=zookeeper)
    topic(broker.port)
    report = look(broker.port, zookeeper)
    assert any("inter.broker.protocol.version=3.9" in finding.found for finding in of(report, BROKERS))
    assert any("topics with ids: t" in finding.found for finding in of(report, TREE))
    command = [sys.executable, "-m", "ottla", "doctor", f"127.0.0.1:{broker.port}", "--migration"]
    ended = subprocess.run([*command, "--zookeeper", zookeeper], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "topics with ids: t" in ended.stdout


def test_one_in_kraft_mode(kafka: Apache) -> None:
    broker = kafka.broker("3.9.2")
    (finding,) = of(look(broker.port, None), BROKERS)
    assert (finding.level, "KRaft" in finding.found) == (Level.PROBLEM, True)
    assert "`ottla mirror`" in finding.todo


def test_settings_that_ottla_refuses_or_does_not_have(kafka: Apache, zookeeper: str) -> None:
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:ANONYMOUS",
        "inter.broker.protocol.version": "2.5",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,GSSAPI",
    }
    broker = kafka.broker("2.7.2", zookeeper=zookeeper, settings=settings)
    found = of(look(broker.port, zookeeper), BROKERS)
    problems = [finding.found for finding in found if finding.level is Level.PROBLEM]
    assert not any("authorizer" in problem for problem in problems)
    assert any("inter.broker.protocol.version=2.5" in problem for problem in problems)
    assert any("sasl.enabled.mechanisms=SCRAM-SHA-256,GSSAPI: Ottla has no GSSAPI" in problem for problem in problems)
    assert not [finding for finding in found if "super.users" in finding.found]


@pytest.fixture
def tree(zookeeper: str) -> Iterator[KazooClient]:
    server, _, chroot = zookeeper.partition("/")
    client = KazooClient(server)
    client.start(PATIENCE_S)
    client.ensure_path("/" + chroot)
    client.chroot = "/" + chroot
    yield client
    client.stop()
    client.close()


NODES = {
    "features": ("/feature", {"version": 1, "status": 1, "features": {"metadata.version": {}}}, "metadata.version"),
    "KRaft": ("/migration", {"version": 0}, "on its way to KRaft"),
    "KRaft's controller": (
        "/controller",
        {"version": 2, "brokerid": 3000, "timestamp": "1", "kraftControllerEpoch": 4},
        "on its way to KRaft",
    ),
    "nonsense": ("/brokers/ids/8", {"version": 5}, "not a broker's registration"),
    "no topic": ("/brokers/topics/x", {"version": 2}, "nobody understands: x"),
    "tiered": ("/config/topics/t", {"version": 1, "config": {"remote.storage.enable": "true"}}, "tiered storage: t"),
    "unknown": ("/config/topics/t", {"version": 1, "config": {"no.such": "1"}}, "does not know: no.such of t"),
    "invalid": ("/config/topics/t", {"version": 1, "config": {"retention.ms": "soon"}}, "topic t: retention.ms=soon"),
    "more": (
        "/brokers/topics/t/partitions/0/state",
        {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1], "leader_recovery_state": 1},
        "2.7 does not have: /brokers/topics/t/partitions/0/state",
    ),
    "rules": ("/kafka-acl/Topic/secret", {}, "access rules for Topic:secret"),
    "tokens": ("/delegation_token/tokens/one", {}, "1 delegation token"),
    "deleting": ("/admin/delete_topics/t", {}, "being deleted: t"),
    "moving": ("/admin/reassign_partitions", {"version": 1, "partitions": []}, "being moved"),
}


@pytest.mark.parametrize("name", NODES)
def test_what_is_found_in_the_tree(tree: KazooClient, zookeeper: str, name: str) -> None:
    usual = {"version": 2, "partitions": {"0": [1]}, "adding_replicas": {}, "removing_replicas": {}}
    tree.create("/brokers/topics/t", json.dumps(usual).encode(), makepath=True)
    path, content, said = NODES[name]
    tree.create(path, json.dumps(content).encode(), makepath=True)
    report = Report("test")
    trio.run(check_tree, report, zookeeper, 10.0)
    (finding,) = report.findings
    assert said in finding.found
    assert finding.todo
    assert finding.level is (Level.WARNING if name in ("unknown", "rules", "deleting", "moving") else Level.PROBLEM)


def test_a_tree_that_is_not_there(zookeeper: str) -> None:
    report = Report("test")
    trio.run(check_tree, report, zookeeper, 10.0)
    (finding,) = report.findings
    assert (finding.level, zookeeper.partition("/")[2] in finding.found) == (Level.PROBLEM, True)
