"""Alerts for Prometheus: `python -m ottla.metrics.alerts > ottla-alerts.yml`, which `rule_files` then names.

The metrics are Kafka's wherever it has them, so the rules watch Apache Kafka behind the JMX exporter as well. A
cluster is what one job of Prometheus scrapes: where `job` is another label's task, write that one instead.
`docs/operations.md` says what is to be done about each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, NamedTuple

#: Somebody is to be woken.
CRITICAL: Final = "critical"
#: Somebody is to look at it by day.
WARNING: Final = "warning"


class Alert(NamedTuple):
    """`expression` holds for `minutes` before the alert fires. `summary` may use Prometheus' templates."""

    name: str
    expression: str
    minutes: int
    severity: str
    summary: str


_CONTROLLERS = "sum by (job) (kafka_controller_kafkacontroller_activecontrollercount)"
_MOVING = "sum by (job) (kafka_server_replicamanager_reassigningpartitions) > 0"
_THROTTLED = "ottla_replication_throttled_bytes_total"

ALERTS: Final = (
    Alert("OttlaNotReady", "ottla_ready == 0", 5, CRITICAL, "{{ $labels.instance }} takes no clients"),
    Alert("OttlaNoController", f"{_CONTROLLERS} == 0", 1, CRITICAL, "{{ $labels.job }} has no controller"),
    Alert("OttlaManyControllers", f"{_CONTROLLERS} > 1", 2, CRITICAL, "{{ $labels.job }} has {{ $value }} controllers"),
    Alert(
        "OttlaOfflinePartitions",
        "max by (job) (kafka_controller_kafkacontroller_offlinepartitionscount) > 0",
        1,
        CRITICAL,
        "{{ $value }} partitions of {{ $labels.job }} have no leader",
    ),
    Alert(
        "OttlaPartitionsNotLed",
        "ottla_partitions_to_lead_that_are_not_led > 0",
        1,
        CRITICAL,
        "{{ $value }} partitions that {{ $labels.instance }} is to lead are led by nobody",
    ),
    Alert(
        "OttlaUnderMinIsr",
        "kafka_server_replicamanager_underminisrpartitioncount > 0",
        1,
        CRITICAL,
        "{{ $value }} partitions that {{ $labels.instance }} leads take no writes with acks=all",
    ),
    Alert(
        "OttlaUncleanElection",
        "increase(kafka_controller_controllerstats_uncleanleaderelections_total[1h]) > 0",
        0,
        CRITICAL,
        "replicas that were not in sync lead in {{ $labels.job }}: acknowledged records may be lost",
    ),
    Alert(
        "OttlaLogDirectoryOffline",
        "kafka_log_logmanager_offlinelogdirectorycount > 0",
        0,
        CRITICAL,
        "{{ $value }} log directories of {{ $labels.instance }} are out of use",
    ),
    Alert(
        "OttlaDiskNearlyFull",
        "ottla_log_directory_free_bytes / ottla_log_directory_disk_bytes < 0.1",
        10,
        CRITICAL,
        "{{ $value | humanizePercentage }} of the disk of {{ $labels.logDirectory }} on {{ $labels.instance }} is left",
    ),
    Alert(
        "OttlaSettingsNotUnderstood",
        "ottla_topics_whose_settings_are_not_understood > 0",
        10,
        WARNING,
        "nothing of {{ $value }} topics is deleted or compacted on {{ $labels.instance }}",
    ),
    Alert(
        "OttlaAuditLinesLost",
        "increase(ottla_audit_lines_lost_total[1h]) > 0",
        0,
        WARNING,
        "{{ $labels.instance }} could not write lines of its audit log",
    ),
    Alert(
        "OttlaUnderReplicated",
        "kafka_server_replicamanager_underreplicatedpartitions > 0",
        10,
        WARNING,
        "{{ $value }} partitions that {{ $labels.instance }} leads lack replicas in sync",
    ),
    Alert(
        "OttlaOneFailureFromRefusal",
        "count by (job, instance) "
        "((kafka_cluster_partition_atminisr == 1) and (kafka_cluster_partition_underreplicated == 1)) > 0",
        5,
        WARNING,
        "{{ $value }} partitions that {{ $labels.instance }} leads take no writes if one more replica goes",
    ),
    Alert(
        "OttlaReplicasComeAndGo",
        "rate(kafka_server_replicamanager_isrshrinks_total[10m]) > 0",
        30,
        WARNING,
        "replicas leave the in-sync replicas of what {{ $labels.instance }} leads again and again",
    ),
    Alert(
        "OttlaFailedIsrUpdates",
        "rate(kafka_server_replicamanager_failedisrupdates_total[10m]) > 0",
        20,
        WARNING,
        "the controller refuses changes of in-sync replicas by {{ $labels.instance }}",
    ),
    Alert(
        "OttlaReplicaLag",
        "max by (job, instance) (kafka_server_replicafetchermanager_maxlag) > 100000",
        15,
        WARNING,
        "a partition that {{ $labels.instance }} follows is {{ $value }} records behind",
    ),
    Alert(
        "OttlaFetcherStandsStill",
        "max by (job, instance) (kafka_server_replicafetchermanager_minfetchrate) == 0 and on (job, instance) "
        "kafka_server_replicamanager_partitioncount > kafka_server_replicamanager_leadercount",
        5,
        WARNING,
        "{{ $labels.instance }} gets no answers from a leader that it follows",
    ),
    Alert(
        "OttlaFetchedInVain",
        "max by (job, instance) (kafka_server_replicafetchermanager_failedpartitionscount) > 0",
        5,
        WARNING,
        "{{ $labels.instance }} fetches {{ $value }} partitions in vain, so that they lack a replica in sync",
    ),
    Alert(
        "OttlaControllerIsLate",
        "kafka_controller_controllereventmanager_eventqueuesize > 100",
        2,
        WARNING,
        "{{ $value }} events wait for the controller {{ $labels.instance }}",
    ),
    Alert(
        "OttlaBrokerDoesNotListen",
        "kafka_controller_controllerchannelmanager_queuesize > 0",
        5,
        WARNING,
        "broker {{ $labels.broker_id }} does not answer the controller of {{ $labels.job }}",
    ),
    Alert(
        "OttlaLeadersOutOfPlace",
        "max by (job) (kafka_controller_kafkacontroller_preferredreplicaimbalancecount) / "
        "max by (job) (kafka_controller_kafkacontroller_globalpartitioncount) > 0.2",
        60,
        WARNING,
        "{{ $value | humanizePercentage }} of the partitions of {{ $labels.job }} are not led by their first replica",
    ),
    Alert(
        "OttlaMoveStandsStill",
        f"{_MOVING} and sum by (job) (rate(kafka_server_brokertopicmetrics_reassignmentbytesin_total[10m])) == 0",
        30,
        WARNING,
        "{{ $value }} partitions of {{ $labels.job }} are moving, and nothing is copied",
    ),
    Alert(
        "OttlaThrottleLeftBehind",
        f"sum by (job) (rate({_THROTTLED}[10m])) > 0 unless {_MOVING}",
        60,
        WARNING,
        "replicas of {{ $labels.job }} are throttled, and none is moving",
    ),
    Alert(
        "OttlaLoopIsBusy",
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent < 0.1",
        10,
        WARNING,
        "the loop of {{ $labels.instance }} has hardly a pause",
    ),
)
"""The worst first."""


def render() -> str:
    """The rules file."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Written by `python -m ottla.metrics.alerts`. What is to be done about each: docs/operations.md of Ottla."
    yield "groups:"
    yield "  - name: ottla"
    yield "    rules:"
    for alert in ALERTS:
        yield f"      - alert: {alert.name}"
        # A string of JSON is one of YAML.
        yield f"        expr: {json.dumps(alert.expression)}"
        if alert.minutes:
            yield f"        for: {alert.minutes}m"
        yield "        labels:"
        yield f"          severity: {alert.severity}"
        yield "        annotations:"
        yield f"          summary: {json.dumps(alert.summary)}"


if __name__ == "__main__":
    print(render(), end="")
