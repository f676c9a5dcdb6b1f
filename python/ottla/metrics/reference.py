"""Writes `docs/metrics.md` from the families: `python -m ottla.metrics.reference` (which `make docs` runs)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.metrics import families as f
from ottla.metrics.families import FAMILIES, KAFKA, KAFKA_EXPORTER, OURS, Family

HEAD = """\
# Metrics

This page is written by `make docs` from `python/ottla/metrics/families.py`; a test compares the two.

```sh
ottla serve --metrics-port 9404        # or --set metrics.listener=HOST:PORT
```

```sh
curl http://127.0.0.1:9404/metrics     # for Prometheus
curl http://127.0.0.1:9404/healthz     # 200 as long as the broker's loop turns
curl http://127.0.0.1:9404/readyz      # 200, or 503 and the reasons why no traffic should come
```

That needs the packages of the extra `metrics`, which `make build` installs; for a wheel (`make wheel`):
`pip install "$(echo dist/ottla-*.whl)[metrics]"`.

`--metrics-port` takes the host of the first listener; `metrics.listener=:9404` without a host is 127.0.0.1. Named
wildcards (`0.0.0.0`, `[::]`) take IPv4 and IPv6, and are a warning in the log.

Without `metrics.listener` nothing is measured, and none of the packages for it is imported. With it, requests are
counted and timed where they are read and answered, in Rust; everything else is looked up when somebody scrapes. The
listener has neither encryption nor a password [unless you set them](#encryption-and-a-password). It serves 64
connections at a time over HTTP/1.1. A request has 10 seconds to come, an answer 30 seconds to be read. Scrapes are
written one after the other, between other work of the loop; while eight wait, or answers of 64 MB are being sent,
others are answered 503.

With 5,000 partitions a scrape takes the loop for 1.5 ms at a time
(`pytest -s tests/metrics/test_replicas.py -k thousands`). Nobody looks through the partitions between scrapes.

The parts of a request's time are Kafka's, though one loop does the work of Kafka's threads: a request is in the request
queue while requests that came in the same turn of the loop are handled before it, local while its handler runs, remote
while it waits for something else (a disk, a replica, `fetch.max.wait.ms`, a task of the loop), in the response queue
while its answer waits for earlier answers or for a full socket. Response send is the time from the first attempt to
send the answer until the socket has taken all of it.

[alerts.yml](alerts.yml) has rules for Prometheus' `rule_files`, as `python -m ottla.metrics.alerts` prints them; what
to do about each alert is said in [operations](operations.md#alerts). A cluster is what one job of Prometheus scrapes.

`/readyz` says no while the broker starts (opens its directories, recovers logs, registers, waits for the controller to
hand it its partitions), while coordinators read `__consumer_offsets` or `__transaction_state`, while the session of the
coordination tree is lost, when all log directories are out of use, and from the moment it is told to stop.

## Encryption and a password

```properties fragment
metrics.listener=0.0.0.0:9404
metrics.security.protocol=SSL
listener.name.metrics.ssl.keystore.type=PEM
listener.name.metrics.ssl.keystore.location=/etc/ottla/metrics.pem
metrics.user=prometheus
metrics.password.file=/etc/ottla/metrics.password
```

The settings of TLS are those of a listener that is called METRICS: `listener.name.metrics.ssl.*`, or `ssl.*` for all
([tls.md](tls.md)); with `ssl.client.auth=required` scrapers need a certificate. Files that change are taken within
seconds. The password is the first line of its file, of 8 characters at least; another one in the
file is taken within seconds. `/metrics` is only given with it, and refusals stand in the audit log
([audit.md](audit.md)). `/healthz` and `/readyz` need no password, since those who ask have none as a rule.

Prometheus has the other side in its `scrape_configs`: `scheme: https`, `tls_config` with `ca_file`, and `basic_auth`
with `username` and `password_file`.

`metrics.listener=unix:/run/ottla/metrics.sock` serves all three at a socket of the file system instead, for an agent on
the same machine (`curl --unix-socket /run/ottla/metrics.sock http://localhost/metrics`). Its owner and its group may
connect (mode 0660).
"""

SECTIONS: Final = {
    KAFKA: """\
## Kafka's, as the JMX exporter names them

Names, types and labels are those of Apache Kafka 2.7 behind prometheus/jmx_exporter with its `kafka-2_0_0.yml`, so
dashboards and alerts for Kafka work. Families of `kafka_server_brokertopicmetrics` have one sample without a label, for
all topics, and one for each topic. Quantiles are 0.50, 0.75, 0.95, 0.98, 0.99 and 0.999.
""",
    KAFKA_EXPORTER: """\
## Groups, as kafka_exporter names them

From what groups have committed to this broker as their coordinator, and from the high watermarks of the partitions that
it leads. The lag of at most 100,000 offsets is told (and labels of 16 MB); what is left out is counted. Members are
told of 10,000 groups. A group's id of more than 128 characters is cut, and ends in a hash of the whole.
""",
    OURS: """\
## Ottla's own

Beside these there are those that prometheus_client has for every Python process (`process_*`, `python_*`).
""",
}

CLUSTER_HEAD: Final = """\
## What a cluster is watched by

Kafka's names for what its operators look at first. Each metric is described below.

| Kafka's MBean | metric |
|---|---|"""

#: MBeans as Kafka's documentation has them (ops.html, monitoring).
CLUSTER: Final = {
    "kafka.controller:type=KafkaController,name=ActiveControllerCount": f.ACTIVE_CONTROLLERS,
    "kafka.controller:type=KafkaController,name=OfflinePartitionsCount": f.OFFLINE_PARTITIONS,
    "kafka.controller:type=KafkaController,name=PreferredReplicaImbalanceCount": f.IMBALANCE,
    "kafka.controller:type=ControllerStats,name=LeaderElectionRateAndTimeMs": f.EVENT_TIMES["leaderelection"][0],
    "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec": f.UNCLEAN_ELECTIONS,
    "kafka.controller:type=ControllerEventManager,name=EventQueueSize": f.EVENTS_WAITING,
    "kafka.controller:type=ControllerEventManager,name=EventQueueTimeMs": f.EVENTS_WAITED[0],
    "kafka.controller:type=ControllerChannelManager,name=TotalQueueSize": f.CHANNELS_WAITING,
    "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions": f.UNDER_REPLICATED,
    "kafka.server:type=ReplicaManager,name=UnderMinIsrPartitionCount": f.UNDER_MIN_ISR,
    "kafka.server:type=ReplicaManager,name=AtMinIsrPartitionCount": f.AT_MIN_ISR,
    "kafka.server:type=ReplicaManager,name=OfflineReplicaCount": f.OFFLINE_REPLICAS,
    "kafka.server:type=ReplicaManager,name=ReassigningPartitions": f.REASSIGNING,
    "kafka.server:type=ReplicaManager,name=IsrShrinksPerSec": f.ISR_SHRINKS,
    "kafka.server:type=ReplicaManager,name=IsrExpandsPerSec": f.ISR_EXPANDS,
    "kafka.server:type=ReplicaManager,name=FailedIsrUpdatesPerSec": f.ISR_FAILURES,
    "kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica": f.MAX_LAG,
    "kafka.server:type=ReplicaFetcherManager,name=MinFetchRate,clientId=Replica": f.MIN_FETCH_RATE,
    "kafka.server:type=ReplicaFetcherManager,name=FailedPartitionsCount,clientId=Replica": f.FAILED_PARTITIONS,
    "kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesInPerSec": f.REPLICATED_IN,
    "kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesOutPerSec": f.REPLICATED_OUT,
    "kafka.server:type=BrokerTopicMetrics,name=ReassignmentBytesInPerSec": f.REASSIGNED_IN,
    "kafka.server:type=BrokerTopicMetrics,name=ReassignmentBytesOutPerSec": f.REASSIGNED_OUT,
    "kafka.server:type=LeaderReplication, its byte-rate": f.THROTTLED,
    "kafka.server:type=FollowerReplication, its byte-rate": f.THROTTLED,
}

ABSENT: Final = {
    "kafka_controller_controllerchannelmanager_": "times of the controller's requests to each broker",
    "kafka_controller_controllerstats_": "listing of moves, features, the controller's own end: no events here",
    "kafka_controller_kafkacontroller_": "the controller's state, and replicas and topics that wait for deletion",
    "kafka_coordinator_transaction_": "queues of transaction markers",
    "kafka_log_logcleaner_": "the last runs of the cleaner's threads (Ottla logs each run)",
    "kafka_log_logcleanermanager_": "logs that cannot be cleaned, and when the cleaner last ran",
    "kafka_network_acceptor_": "Kafka's acceptor thread",
    "kafka_network_processor_": "Kafka's network threads one by one",
    "kafka_network_requestchannel_": "the queues between Kafka's network and handler threads",
    "kafka_network_requestmetrics_": "the time and the memory that conversions took",
    "kafka_network_socketserver_": "connections ended for not authenticating again, the control plane's listener",
    "kafka_server_brokertopicmetrics_": "refusals by their cause",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_count": "a number without a meaning",
    "kafka_server_kafkaserver_": "bytes that the process read from and wrote to disks, Kafka's own number of metrics",
    "kafka_server_replicaalterlogdirsmanager_": "moves between log directories",
    "kafka_server_replicafetchermanager_": "fetchers that died (Ottla's go on)",
    "kafka_server_sessionexpirelistener_": "events of the ZooKeeper session (see /readyz)",
    "kafka_server_zookeeperclientmetrics_": "times of ZooKeeper's requests",
    "kafka_utils_throttler_": "the cleaner's throttle",
}
"""The metrics that a Kafka has and Ottla knowingly has not, by the beginnings of their names."""


def render() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_cluster(), *_sections(), *_absent()])


def _cluster() -> Iterator[str]:
    yield CLUSTER_HEAD
    yield from (f"| `{bean}` | `{family.name}` |" for bean, family in CLUSTER.items())
    yield ""


def _sections() -> Iterator[str]:
    for origin, text in SECTIONS.items():
        yield text
        yield "| metric | type | labels | meaning |"
        yield "|---|---|---|---|"
        yield from (_row(family) for family in FAMILIES if family.origin == origin)
        yield ""


def _row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {family.type} | {labels} | {family.help} |"


def _absent() -> Iterator[str]:
    yield "## Kafka's that are not here\n"
    yield "| begins with | what it tells |"
    yield "|---|---|"
    for beginning, words in ABSENT.items():
        yield f"| `{beginning}` | {words} |"
    yield ""


if __name__ == "__main__":
    print(render(), end="")
