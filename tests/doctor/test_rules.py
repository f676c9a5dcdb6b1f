"""Access rules, as the doctor finds them in a cluster."""

import trio

from ottla.client import Security
from ottla.doctor.examine import Options, examine
from ottla.doctor.findings import Level, Report
from ottla.doctor.rules import CHECK
from ottla.wire.needs import Operation, Resource
from tests.broker.authorization.ruled import PLAIN, Ruled, rule, settings
from tests.peers.ottla import Brokers
from tests.peers.ports import free_port
from tests.support.waiting import PATIENCE_S, eventually


def level(report: Report) -> Level | None:
    return next((each.level for each in report.findings if each.check == CHECK), None)


def test_an_authorizer_without_rules_and_with_some(brokers: Brokers) -> None:
    ports = free_port(), free_port()
    brokers(port=ports[0], settings=settings(*ports, users=("alice",)))
    ruled = Ruled(*ports)

    def look(port: int, security: Security | None = None) -> Report:
        return trio.run(examine, "127.0.0.1", port, Options(timeout_s=PATIENCE_S, security=security))

    assert level(look(ports[0])) is Level.WARNING
    ruled.create(rule("alice", Operation.READ, Resource.TOPIC, "orders"))
    eventually("there is one", lambda: level(look(ports[0])) is Level.OK)
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    given["sasl.jaas.config"] = f'{PLAIN} required username="alice" password="p";'
    assert level(look(ports[1], Security.of(given))) is Level.SKIPPED


def test_a_broker_without_an_authorizer_has_no_line(brokers: Brokers) -> None:
    report = trio.run(examine, "127.0.0.1", brokers().port, Options(timeout_s=PATIENCE_S))
    assert level(report) is None
