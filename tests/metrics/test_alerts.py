"""The alerts name what a broker exports, somebody is told what to do about each, and each fires when it should.

Whether it fires is Prometheus' own `promtool test rules`, on series that this file makes up: for each alert some for
which it fires, and for all of them the series of a cluster that is well.
"""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ottla.metrics.alerts import ALERTS, CRITICAL, WARNING, Alert, render
from ottla.metrics.families import FAMILIES
from tests.support.promtool import found

PROJECT = Path(__file__).parents[2]
BY_NAME = {family.name: family for family in FAMILIES}
METRIC = re.compile(r"\b(?:kafka|ottla)_\w+")
LABELS = re.compile(r"(?:by|on) \(([^)]*)\)|\$labels\.(\w+)")
#: Prometheus gives these to whatever it scrapes.
TARGET = {"job", "instance"}


def test_the_file_is_in_step() -> None:
    assert (PROJECT / "docs" / "alerts.yml").read_text() == render(), "run `make docs`"
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)
    assert {alert.severity for alert in ALERTS} == {CRITICAL, WARNING}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_what_an_alert_names_is_exported(alert: Alert) -> None:
    """That a broker serves every family under its name and type: `test_every_family_is_served_under_its_type`."""
    named = METRIC.findall(alert.expression)
    assert named
    for name in named:
        assert name in BY_NAME, f"{name} is exported by nobody"
    known = TARGET.union(*(BY_NAME[name].labels for name in named))
    found = LABELS.findall(alert.expression) + LABELS.findall(alert.summary)
    for label in (each.strip() for listed, one in found for each in (listed or one).split(",")):
        assert label in known, f"{label} is no label of {named}"
    for name in re.findall(r"(?:rate|increase)\((\w+)", alert.expression):
        assert BY_NAME[name].type == "counter", name


def test_somebody_is_told_what_to_do_about_each() -> None:
    page = (PROJECT / "docs" / "operations.md").read_text()
    rows = re.findall(r"^\| `(Ottla\w+)` \| (.+) \| (.+) \|$", page, re.MULTILINE)
    assert [name for name, _, _ in rows] == [alert.name for alert in ALERTS], "one row for each, in their order"
    assert all(meaning.strip() and todo.strip() for _, meaning, todo in rows)


# --- Prometheus' own judgement ---


@pytest.fixture(scope="module")
def promtool() -> str:
    return found()


#: Values by the minute, in promtool's notation: from, step, how often; `_` is none.
Series = Mapping[str, str]
MINUTES = 100
REPLICAS, CONTROLLER = "kafka_server_replicamanager_", "kafka_controller_kafkacontroller_"
SHRINKS = f"{REPLICAS}isrshrinks_total"
THROTTLED = 'ottla_replication_throttled_bytes_total{side="leader"}'
MOVED = "kafka_server_brokertopicmetrics_reassignmentbytesin_total"
PARTITION = 'topic="t",partition="0"'


def constant(value: float) -> str:
    return f"{value:g}+0x{MINUTES}"


def growing(by: float) -> str:
    return f"0+{by:g}x{MINUTES}"


#: A cluster that is well, with one failure that it survived, and a move under a throttle that goes on.
WELL: Series = {
    "ottla_ready": constant(1),
    f"{CONTROLLER}activecontrollercount": constant(1),
    f"{CONTROLLER}offlinepartitionscount": constant(0),
    # While it is told what it leads.
    "ottla_partitions_to_lead_that_are_not_led": f"0+0x20 7+0x0 0+0x{MINUTES}",
    f"{REPLICAS}underminisrpartitioncount": constant(0),
    "kafka_controller_controllerstats_uncleanleaderelections_total": constant(3),
    "kafka_log_logmanager_offlinelogdirectorycount": constant(0),
    'ottla_log_directory_free_bytes{logDirectory="/d"}': constant(30),
    'ottla_log_directory_disk_bytes{logDirectory="/d"}': constant(100),
    "ottla_topics_whose_settings_are_not_understood": f"0+0x20 2+0x5 0+0x{MINUTES}",
    "ottla_audit_lines_lost_total": constant(3),
    f"{REPLICAS}underreplicatedpartitions": f"0+0x20 7+0x5 0+0x{MINUTES}",
    f"kafka_cluster_partition_atminisr{{{PARTITION}}}": constant(1),
    f"kafka_cluster_partition_underreplicated{{{PARTITION}}}": constant(0),
    SHRINKS: f"0+0x20 7+0x{MINUTES}",
    f"{REPLICAS}failedisrupdates_total": f"0+0x20 2+0x{MINUTES}",
    'kafka_server_replicafetchermanager_maxlag{clientId="Replica"}': constant(50),
    'kafka_server_replicafetchermanager_minfetchrate{clientId="Replica"}': constant(2),
    # For a moment, as when a log starts anew.
    'kafka_server_replicafetchermanager_failedpartitionscount{clientId="Replica"}': f"0+0x20 2+0x3 0+0x{MINUTES}",
    f"{REPLICAS}partitioncount": constant(9),
    f"{REPLICAS}leadercount": constant(3),
    "kafka_controller_controllereventmanager_eventqueuesize": constant(1),
    'kafka_controller_controllerchannelmanager_queuesize{broker_id="1"}': f"3+0x3 0+0x{MINUTES}",
    f"{CONTROLLER}preferredreplicaimbalancecount": constant(1),
    f"{CONTROLLER}globalpartitioncount": constant(10),
    f"{REPLICAS}reassigningpartitions": constant(2),
    MOVED: growing(1e6),
    THROTTLED: growing(1e6),
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent": constant(0.8),
}

#: The series that are otherwise where an alert fires, by alert.
ILL: Mapping[str, Series] = {
    "OttlaNotReady": {"ottla_ready": constant(0)},
    "OttlaNoController": {f"{CONTROLLER}activecontrollercount": constant(0)},
    "OttlaManyControllers": {f"{CONTROLLER}activecontrollercount": constant(2)},
    "OttlaOfflinePartitions": {f"{CONTROLLER}offlinepartitionscount": constant(4)},
    "OttlaPartitionsNotLed": {"ottla_partitions_to_lead_that_are_not_led": constant(3)},
    "OttlaUnderMinIsr": {f"{REPLICAS}underminisrpartitioncount": constant(1)},
    "OttlaUncleanElection": {"kafka_controller_controllerstats_uncleanleaderelections_total": f"0+0x60 1+0x{MINUTES}"},
    "OttlaLogDirectoryOffline": {"kafka_log_logmanager_offlinelogdirectorycount": constant(1)},
    "OttlaDiskNearlyFull": {'ottla_log_directory_free_bytes{logDirectory="/d"}': constant(9)},
    "OttlaSettingsNotUnderstood": {"ottla_topics_whose_settings_are_not_understood": constant(1)},
    "OttlaAuditLinesLost": {"ottla_audit_lines_lost_total": f"0+0x60 1+0x{MINUTES}"},
    "OttlaUnderReplicated": {f"{REPLICAS}underreplicatedpartitions": constant(1)},
    "OttlaOneFailureFromRefusal": {f"kafka_cluster_partition_underreplicated{{{PARTITION}}}": constant(1)},
    "OttlaReplicasComeAndGo": {SHRINKS: growing(0.5)},
    "OttlaFailedIsrUpdates": {f"{REPLICAS}failedisrupdates_total": growing(0.5)},
    "OttlaReplicaLag": {'kafka_server_replicafetchermanager_maxlag{clientId="Replica"}': constant(200_000)},
    "OttlaFetcherStandsStill": {'kafka_server_replicafetchermanager_minfetchrate{clientId="Replica"}': constant(0)},
    "OttlaFetchedInVain": {'kafka_server_replicafetchermanager_failedpartitionscount{clientId="Replica"}': constant(1)},
    "OttlaControllerIsLate": {"kafka_controller_controllereventmanager_eventqueuesize": constant(1000)},
    "OttlaBrokerDoesNotListen": {'kafka_controller_controllerchannelmanager_queuesize{broker_id="1"}': constant(1)},
    "OttlaLeadersOutOfPlace": {f"{CONTROLLER}preferredreplicaimbalancecount": constant(3)},
    "OttlaMoveStandsStill": {MOVED: constant(5)},
    "OttlaThrottleLeftBehind": {f"{REPLICAS}reassigningpartitions": constant(0)},
    "OttlaLoopIsBusy": {"kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent": constant(0.05)},
}


def with_target(name: str) -> str:
    """A series as one of a broker that Prometheus scrapes."""
    metric, _, labels = name.rstrip("}").partition("{")
    return f'{metric}{{job="kafka",instance="one",{labels}}}'


def case(name: str, series: Series, expected: Sequence[Alert]) -> dict[str, object]:
    """A test for promtool: of these series all that fire, late enough, are the expected."""
    firing = {alert.name for alert in expected}
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": with_target(each), "values": values} for each, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f'count by (alertname) (ALERTS{{alertstate="firing",alertname="{alert.name}"}})',
                "eval_time": f"{MINUTES - 5}m",
                "exp_samples": [{"labels": f'{{alertname="{alert.name}"}}', "value": 1}]
                if alert.name in firing
                else [],
            }
            for alert in ALERTS
        ],
    }


def judged(promtool: str, tmp_path: Path, cases: Sequence[Mapping[str, object]]) -> None:
    rules, tests = tmp_path / "rules.yml", tmp_path / "tests.yml"
    rules.write_text(render())
    # JSON is YAML.
    tests.write_text(json.dumps({"rule_files": [rules.name], "evaluation_interval": "1m", "tests": cases}))
    for command in (["check", "rules", rules], ["test", "rules", tests]):
        done = subprocess.run([promtool, *command], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_fires_when_it_should_and_no_other(promtool: str, tmp_path: Path) -> None:
    assert set(ILL) == {alert.name for alert in ALERTS}
    assert {METRIC.findall(name)[0] for name in WELL} == {
        name for alert in ALERTS for name in METRIC.findall(alert.expression)
    }
    judged(
        promtool,
        tmp_path,
        [
            case("a cluster that is well", WELL, []),
            *(case(alert.name, {**WELL, **ILL[alert.name]}, [alert]) for alert in ALERTS),
        ],
    )


def test_a_broker_that_follows_nobody_has_no_fetcher(promtool: str, tmp_path: Path) -> None:
    alone = {**WELL, **ILL["OttlaFetcherStandsStill"], f"{REPLICAS}partitioncount": constant(3)}
    judged(promtool, tmp_path, [case("alone", alone, [])])
