"""Writes the dashboard for Grafana, which shows a cluster and its brokers:

    python packaging/grafana/dashboard.py > packaging/grafana/ottla.json        (make dashboard)

The metrics are Kafka's wherever it has them (docs/metrics.md), so most panels show Apache Kafka behind the JMX exporter
as well. A cluster is what one job of Prometheus scrapes. A row's panels are in the order in which somebody looks who
was called: is it served, is it safe, what does it do, what is it short of.
"""

import json
from typing import Any, NamedTuple

#: Grafana's grid has so many columns.
COLUMNS = 24
HEIGHT = 8
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
#: What the variables of the dashboard choose.
OF = 'job="$job",instance=~"$instance"'
CLUSTER = 'job="$job"'
EVERY = "$__rate_interval"

REPLICAS = "kafka_server_replicamanager"
TRAFFIC = "kafka_server_brokertopicmetrics"
CONTROLLER = "kafka_controller_kafkacontroller"
REQUESTS = "kafka_network_requestmetrics"
GROUPS = "kafka_coordinator_group_groupmetadatamanager"


class Panel(NamedTuple):
    """One panel. `queries` are pairs of an expression and the name of its lines; `unit` is one of Grafana's."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    width: int = 8


def number(title: str, expression: str) -> Panel:
    """A number that is 0 in a cluster that is well."""
    return Panel(title, "short", ((expression, ""),), "stat", 4)


def rate(name: str, by: str = "instance", labels: str = OF) -> str:
    return f"sum by ({by}) (rate({name}{{{labels}}}[{EVERY}]))"


def most(name: str, by: str, none: str) -> str:
    """The ten with the highest rate. `none` is the value of the label that is left out."""
    labels = f'{OF},{by}!="{none}"'
    return f"topk(10, {rate(name, by, labels)})"


def quantile(part: str, request: str, which: str = "0.99") -> str:
    return f'{REQUESTS}_{part}timems{{{OF},request="{request}",quantile="{which}"}}'


ROWS: dict[str, tuple[Panel, ...]] = {
    "The cluster": (
        number("Brokers that are not ready", f"count(ottla_ready{{{CLUSTER}}} == 0) or vector(0)"),
        number("Controllers (1 is right)", f"sum({CONTROLLER}_activecontrollercount{{{CLUSTER}}})"),
        number("Partitions without a leader", f"max({CONTROLLER}_offlinepartitionscount{{{CLUSTER}}})"),
        number("Under-replicated partitions", f"sum({REPLICAS}_underreplicatedpartitions{{{CLUSTER}}})"),
        number("Partitions below min.insync.replicas", f"sum({REPLICAS}_underminisrpartitioncount{{{CLUSTER}}})"),
        number("Log directories out of use", f"sum(kafka_log_logmanager_offlinelogdirectorycount{{{CLUSTER}}})"),
    ),
    "Traffic": (
        Panel("Records in", "cps", ((rate(f"{TRAFFIC}_messagesin_total", labels=OF + ',topic=""'), "{{instance}}"),)),
        Panel("Bytes in", "Bps", ((rate(f"{TRAFFIC}_bytesin_total", labels=OF + ',topic=""'), "{{instance}}"),)),
        Panel("Bytes out", "Bps", ((rate(f"{TRAFFIC}_bytesout_total", labels=OF + ',topic=""'), "{{instance}}"),)),
        Panel("Bytes in, the busiest topics", "Bps", ((most(f"{TRAFFIC}_bytesin_total", "topic", ""), "{{topic}}"),)),
        Panel("Bytes out, the busiest topics", "Bps", ((most(f"{TRAFFIC}_bytesout_total", "topic", ""), "{{topic}}"),)),
        Panel(
            "Replication",
            "Bps",
            (
                (rate(f"{TRAFFIC}_replicationbytesin_total"), "{{instance}} in"),
                (rate(f"{TRAFFIC}_replicationbytesout_total"), "{{instance}} out"),
            ),
        ),
    ),
    "Requests": (
        Panel("Requests", "reqps", ((rate(f"{REQUESTS}_requests_total", "request"), "{{request}}"),)),
        Panel("Produce, p99", "ms", ((quantile("total", "Produce"), "{{instance}}"),)),
        Panel("FetchConsumer, p99", "ms", ((quantile("total", "FetchConsumer"), "{{instance}}"),)),
        Panel(
            "Errors in answers",
            "cps",
            ((most(f"{REQUESTS}_errors_total", "error", "NONE"), "{{error}}"),),
        ),
        Panel(
            "Where Produce spends its time, p99",
            "ms",
            tuple(
                (f"max({quantile(part, 'Produce')})", part)
                for part in ("requestqueue", "local", "remote", "responsequeue", "responsesend")
            ),
        ),
        Panel(
            "Requests that wait",
            "short",
            (
                (
                    f"sum by (delayedOperation) (kafka_server_delayedoperationpurgatory_purgatorysize{{{OF}}})",
                    "{{delayedOperation}}",
                ),
            ),
        ),
    ),
    "Replication and the controller": (
        Panel("Led partitions", "short", ((f"{REPLICAS}_leadercount{{{OF}}}", "{{instance}}"),)),
        Panel(
            "Followers behind their leaders, at most",
            "short",
            ((f"max by (instance) (kafka_server_replicafetchermanager_maxlag{{{OF}}})", "{{instance}}"),),
        ),
        Panel(
            "In-sync replicas that left and came",
            "cps",
            (
                (rate(f"{REPLICAS}_isrshrinks_total"), "{{instance}} left"),
                (rate(f"{REPLICAS}_isrexpands_total"), "{{instance}} came"),
            ),
        ),
        Panel("Partitions that move", "short", ((f"{REPLICAS}_reassigningpartitions{{{OF}}}", "{{instance}}"),)),
        Panel(
            "What waits for the controller",
            "short",
            ((f"kafka_controller_controllereventmanager_eventqueuesize{{{OF}}}", "{{instance}}"),),
        ),
        Panel(
            "Leaders out of place",
            "short",
            ((f"max({CONTROLLER}_preferredreplicaimbalancecount{{{CLUSTER}}})", "partitions"),),
        ),
    ),
    "Groups": (
        Panel(
            "Lag, the ten that are farthest behind",
            "short",
            (
                (
                    f"topk(10, sum by (consumergroup, topic) (kafka_consumergroup_lag{{{OF}}}))",
                    "{{consumergroup}} {{topic}}",
                ),
            ),
            width=16,
        ),
        Panel(
            "Groups",
            "short",
            (
                (f"sum({GROUPS}_numgroupsstable{{{OF}}})", "stable"),
                (f"sum({GROUPS}_numgroupsempty{{{OF}}})", "empty"),
                (
                    f"sum({GROUPS}_numgroupspreparingrebalance{{{OF}}}) + "
                    f"sum({GROUPS}_numgroupscompletingrebalance{{{OF}}})",
                    "rebalancing",
                ),
            ),
        ),
    ),
    "The machines": (
        Panel(
            "Time in which the loop had nothing to do",
            "percentunit",
            ((f"kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent{{{OF}}}", "{{instance}}"),),
        ),
        Panel("Processors in use", "short", ((f"rate(process_cpu_seconds_total{{{OF}}}[{EVERY}])", "{{instance}}"),)),
        Panel("Memory", "bytes", ((f"process_resident_memory_bytes{{{OF}}}", "{{instance}}"),)),
        Panel(
            "Disk that is free",
            "percentunit",
            (
                (
                    f"ottla_log_directory_free_bytes{{{OF}}} / ottla_log_directory_disk_bytes{{{OF}}}",
                    "{{instance}} {{logDirectory}}",
                ),
            ),
        ),
        Panel("Connections", "short", ((f"sum by (instance) (ottla_connections{{{OF}}})", "{{instance}}"),)),
        Panel(
            "Clients that could not say who they are",
            "cps",
            ((rate("ottla_failed_authentication_total", "instance, listener"), "{{instance}} {{listener}}"),),
        ),
    ),
}


def dashboard() -> dict[str, Any]:
    """The dashboard in Grafana's form (schema 36, Grafana 9 and newer)."""
    return {
        "uid": "ottla",
        "title": "Ottla",
        "tags": ["ottla", "kafka"],
        "schemaVersion": 36,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": list(_panels()),
    }


def _variables() -> list[dict[str, Any]]:
    def choice(name: str, label: str, query: str, **more: Any) -> dict[str, Any]:
        asked = {"query": query, "refId": name}
        return {
            "name": name,
            "label": label,
            "type": "query",
            "datasource": SOURCE,
            "query": asked,
            "refresh": 2,
            **more,
        }

    return [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        choice("job", "Cluster", "label_values(kafka_server_kafkaserver_brokerstate, job)"),
        choice(
            "instance",
            "Broker",
            'label_values(kafka_server_kafkaserver_brokerstate{job="$job"}, instance)',
            multi=True,
            includeAll=True,
            allValue=".*",
        ),
    ]


def _panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    y = 0
    for title, panels in ROWS.items():
        place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
        found.append({"id": len(found) + 1, "type": "row", "title": title, "gridPos": place, "panels": []})
        y, x = y + 1, 0
        for panel in panels:
            if x + panel.width > COLUMNS:
                x, y = 0, y + HEIGHT
            place = {"x": x, "y": y, "w": panel.width, "h": HEIGHT}
            found.append({"id": len(found) + 1, "gridPos": place, **_drawn(panel)})
            x += panel.width
        y += HEIGHT
    return found


def _drawn(panel: Panel) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + number), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
        for number, (expression, legend) in enumerate(panel.queries)
    ]
    bounds = {"min": 0, "max": 1} if panel.unit == "percentunit" else {"min": 0}
    defaults = {"unit": panel.unit, **bounds}
    return {
        "type": panel.kind,
        "title": panel.title,
        "datasource": SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {},
    }


if __name__ == "__main__":
    print(json.dumps(dashboard(), indent=1))
