"""Settings that work until they are needed: too many replicas for the brokers there are, acknowledgements that can
never come or mean little, offsets that are forgotten before the records.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.doctor.brokers import Cluster, Refused, named
from ottla.doctor.findings import Report, some
from ottla.kafka import BROKER, OFFSETS_TOPIC, TOPIC, TRANSACTIONS_TOPIC
from ottla.wire.k32_describe_configs import DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResource

#: Topics whose settings are asked for, so many at a time.
TOPICS_AT_ONCE = 200

OF_BROKERS = (
    "auto.create.topics.enable",
    "default.replication.factor",
    "log.retention.hours",
    "log.retention.minutes",
    "log.retention.ms",
    "offsets.retention.minutes",
    "offsets.topic.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
    "unclean.leader.election.enable",
)
OF_TOPICS = ("min.insync.replicas", "unclean.leader.election.enable", "retention.ms", "cleanup.policy")

INTERNAL = {
    OFFSETS_TOPIC: ("offsets.topic.replication.factor", "consumer groups"),
    TRANSACTIONS_TOPIC: ("transaction.state.log.replication.factor", "transactions"),
}


async def check_internal_topics(report: Report, cluster: Cluster) -> None:
    """Raises OSError, Refused."""
    there = {topic.name for topic in cluster.metadata.topics}
    missing = [topic for topic in INTERNAL if topic not in there]
    if not missing:
        report.ok("internal topics", "all are there")
        return
    settings = await _broker(cluster, next(iter(cluster.connections)))
    fine = True
    for topic in missing:
        setting, users = INTERNAL[topic]
        wanted = int(settings.get(setting) or 1)
        if wanted > cluster.size:
            fine = False
            report.problem(
                "internal topics",
                f"{topic} is not there and cannot be made: {setting}={wanted}, and there are {cluster.size} brokers",
                f"{users} wait for it: start more brokers, or set {setting}={cluster.size} and restart the broker",
            )
    if fine:
        report.ok("internal topics", f"{some(missing)} can be made when first needed")


async def check_settings(report: Report, cluster: Cluster) -> None:
    """Raises OSError, Refused."""
    fine = True
    for broker in cluster.connections:
        settings = await _broker(cluster, broker)
        for found, todo in _of_broker(settings, cluster.size):
            fine = False
            report.warning("settings", f"broker {broker}: {found}", todo)
    if fine:
        report.ok("settings", "none of the brokers' that are known for trouble")


def _of_broker(settings: dict[str, str | None], brokers: int) -> Iterable[tuple[str, str]]:
    if settings.get("unclean.leader.election.enable") == "true":
        yield (
            "unclean.leader.election.enable=true: a replica that is behind may become leader, and acknowledged records "
            "are lost",
            "set it to false, unless being there matters more than what is there",
        )
    replicas = int(settings.get("default.replication.factor") or 1)
    if replicas > brokers:
        yield (
            f"default.replication.factor={replicas}, and there are {brokers} brokers: no topic can be made without "
            "saying otherwise",
            f"start more brokers, or set it to {brokers}",
        )
    kept_ms, offsets_ms = retention_ms(settings), int(settings.get("offsets.retention.minutes") or 10_080) * 60_000
    if kept_ms < 0 or kept_ms > offsets_ms:
        kept = "for ever" if kept_ms < 0 else f"for {kept_ms / 3_600_000:g} hours"
        yield (
            f"records are kept {kept}, offsets of idle groups for {offsets_ms / 3_600_000:g} hours: a group that "
            "comes back later begins anew",
            "set offsets.retention.minutes at least to what records are kept for",
        )


def retention_ms(settings: dict[str, str | None]) -> int:
    """How long records are kept; the finer unit wins. Negative: for ever."""
    for name, unit_ms in (
        ("log.retention.ms", 1),
        ("log.retention.minutes", 60_000),
        ("log.retention.hours", 3_600_000),
    ):
        if value := settings.get(name):
            return int(value) * unit_ms
    return 168 * 3_600_000


async def check_topics(report: Report, cluster: Cluster) -> None:
    """Raises OSError, Refused."""
    replicas = {
        topic.name: min((len(partition.replica_nodes) for partition in topic.partitions), default=0)
        for topic in cluster.metadata.topics
    }
    isr = {
        topic.name: min((len(partition.isr_nodes) for partition in topic.partitions), default=0)
        for topic in cluster.metadata.topics
    }
    impossible: list[str] = []
    starved: list[str] = []
    weak: list[str] = []
    unclean: list[str] = []
    names = list(replicas)
    for start in range(0, len(names), TOPICS_AT_ONCE):
        for name, settings in (await _topics(cluster, names[start : start + TOPICS_AT_ONCE])).items():
            least = int(settings.get("min.insync.replicas") or 1)
            if least > replicas[name]:
                impossible.append(f"{name} ({least} of {replicas[name]})")
            elif isr[name] < least:
                starved.append(f"{name} ({isr[name]} of {least})")
            elif least == 1 and replicas[name] >= 3:
                weak.append(name)
            if settings.get("unclean.leader.election.enable") == "true":
                unclean.append(name)
    if impossible:
        report.problem(
            "topics",
            f"min.insync.replicas is more than there are replicas: {some(impossible)}",
            "every write with acks=all fails there: lower it, or add replicas",
        )
    if starved:
        report.problem(
            "topics",
            f"fewer in-sync replicas than min.insync.replicas: {some(starved)}",
            "writes with acks=all fail there until replicas are back",
        )
    if weak:
        report.warning(
            "topics",
            f"min.insync.replicas=1 with three replicas or more: {some(weak)}",
            "acks=all may be answered when one broker has a record: set it to 2",
        )
    if unclean:
        report.warning(
            "topics", f"unclean.leader.election.enable=true: {some(unclean)}", "acknowledged records may be lost there"
        )
    if not (impossible or starved or weak or unclean):
        report.ok("topics", f"nothing odd in the settings of {len(names)}")


async def _broker(cluster: Cluster, broker: int) -> dict[str, str | None]:
    resource = DescribeConfigsResource(
        resource_type=BROKER, resource_name=str(broker), configuration_keys=list(OF_BROKERS)
    )
    answer = await cluster.ask(broker, DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=[resource]))
    (row,) = answer.results
    if row.error_code:
        raise Refused(f"the settings of broker {broker}: {row.error_message or named(row.error_code)}")
    return {each.name: each.value for each in row.configs}


async def _topics(cluster: Cluster, names: list[str]) -> dict[str, dict[str, str | None]]:
    resources = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=list(OF_TOPICS))
        for name in names
    ]
    answer = await cluster.ask_any(DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=resources))
    # One that was deleted meanwhile is left out.
    rows = [row for row in answer.results if row.error_code == 0]
    return {row.resource_name: {each.name: each.value for each in row.configs} for row in rows}
