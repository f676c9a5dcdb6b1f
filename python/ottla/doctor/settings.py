"""Settings that work until they are needed: too many replicas for the brokers there are, acknowledgements that can
never come or mean little, offsets that are forgotten before the records.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

from ottla.config import Source, UnknownSetting
from ottla.config.topic import understood
from ottla.doctor.brokers import Cluster, Refused, named
from ottla.doctor.findings import Report, some
from ottla.errors import UnknownTopicOrPartition, counted
from ottla.kafka import BROKER_RESOURCE, OFFSETS_TOPIC, TOPIC_RESOURCE, TRANSACTIONS_TOPIC
from ottla.wire.k32_describe_configs import (
    DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)

#: Topics whose settings are asked for, so many at a time.
TOPICS_AT_ONCE = 200

OF_BROKERS = (
    "auto.create.topics.enable",
    "default.replication.factor",
    "inter.broker.protocol.version",
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
    settings = await of_broker(cluster, next(iter(cluster.connections)), OF_BROKERS)
    fine = True
    for topic in missing:
        setting, users = INTERNAL[topic]
        wanted = int(settings.get(setting) or 1)
        if wanted > cluster.size:
            fine = False
            report.problem(
                "internal topics",
                f"{topic} is not there and cannot be made: {setting}={wanted}, and {_there(cluster.size)}",
                f"{users} wait for it: start more brokers, or set {setting}={cluster.size} and restart the broker",
            )
    if fine:
        report.ok("internal topics", f"{some(missing)} can be made when first needed")


async def check_settings(report: Report, cluster: Cluster) -> None:
    """Raises OSError, Refused."""
    fine = True
    protocols = {}
    for broker in cluster.connections:
        settings = await of_broker(cluster, broker, OF_BROKERS)
        protocols[broker] = protocol(settings)
        for found, todo in _odd(settings, cluster.size):
            fine = False
            report.warning("settings", f"broker {broker}: {found}", todo)
    if len(set(protocols.values())) > 1:
        fine = False
        report.warning(
            "settings",
            "brokers have other values of inter.broker.protocol.version than others: "
            + some([f"{broker} has {version or 'none'}" for broker, version in protocols.items()]),
            "if an upgrade is under way, finish it: give all of them the same, and restart them one by one",
        )
    if fine:
        report.ok("settings", "none of the brokers' that are known for trouble")


def protocol(settings: Mapping[str, str | None]) -> str:
    """The release that `inter.broker.protocol.version` stands for: 2.7 of 2.7-IV2. Empty if it is not told."""
    return ".".join((settings.get("inter.broker.protocol.version") or "").partition("-")[0].split(".")[:2])


def _odd(settings: dict[str, str | None], brokers: int) -> Iterable[tuple[str, str]]:
    if settings.get("unclean.leader.election.enable") == "true":
        yield (
            "unclean.leader.election.enable=true: a replica that is behind may become leader, and acknowledged records "
            "are lost",
            "set it to false, unless being there matters more than what is there",
        )
    replicas = int(settings.get("default.replication.factor") or 1)
    if replicas > brokers:
        yield (
            f"default.replication.factor={replicas}, and {_there(brokers)}: no topic can be made without "
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


def _there(brokers: int) -> str:
    return f"there {'is' if brokers == 1 else 'are'} {counted(brokers, 'broker')}"


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
    rigid: list[str] = []
    unclean: list[str] = []
    names = list(replicas)
    async for name, settings in of_topics(cluster, names, OF_TOPICS):
        text = settings.get("min.insync.replicas") or ""
        # One that is not understood has a finding of its own.
        least = int(text) if text.isdecimal() else 1
        if least > replicas[name]:
            impossible.append(f"{name} ({least} of {replicas[name]})")
        elif isr[name] < least:
            starved.append(f"{name} ({isr[name]} of {least})")
        elif least == 1 and replicas[name] >= 3:
            weak.append(name)
        elif least == replicas[name] > 1:
            rigid.append(f"{name} ({least})")
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
    if rigid:
        report.warning(
            "topics",
            f"min.insync.replicas is the number of replicas: {some(rigid)}",
            "the restart of one broker is enough to refuse writes with acks=all: set it one lower, or add a replica",
        )
    if unclean:
        report.warning(
            "topics", f"unclean.leader.election.enable=true: {some(unclean)}", "acknowledged records may be lost there"
        )
    if not (impossible or starved or weak or rigid or unclean):
        report.ok("topics", f"nothing odd in the settings of {counted(len(names), 'topic')}")


async def check_understood(report: Report, cluster: Cluster) -> None:
    """Checks that the settings of topics are understood. Raises OSError, Refused."""
    found: list[str] = []
    async for row in _described(cluster, [topic.name for topic in cluster.metadata.topics], None):
        if row.error_code not in (0, UnknownTopicOrPartition.code):
            found.append(f"{row.resource_name} ({row.error_message or named(row.error_code)})")
            continue
        own = {each.name: each.value for each in row.configs if each.config_source == Source.TOPIC.value}
        _, problems = understood({name: value for name, value in own.items() if value is not None})
        found += [
            f"{row.resource_name} ({problem})"
            for problem in problems.values()
            if not isinstance(problem, UnknownSetting)
        ]
    if found:
        report.problem(
            "topics",
            f"settings that Ottla does not understand: {some(found)}",
            "Ottla's brokers delete and compact nothing of these topics until this is mended: `ottla topic alter TOPIC "
            "--set NAME=VALUE`, or `--unset NAME`",
        )


async def of_broker(cluster: Cluster, broker: int, names: Sequence[str]) -> dict[str, str | None]:
    """These settings of one broker, as it has them. Raises OSError, Refused."""
    resource = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name=str(broker), configuration_keys=list(names)
    )
    answer = await cluster.ask(broker, DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=[resource]))
    (row,) = answer.results
    if row.error_code:
        raise Refused(f"the settings of broker {broker}: {row.error_message or named(row.error_code)}")
    return {each.name: each.value for each in row.configs}


async def of_topics(
    cluster: Cluster, topics: Sequence[str], names: Sequence[str]
) -> AsyncIterator[tuple[str, dict[str, str | None]]]:
    """These settings of each topic; one that was deleted meanwhile is left out. Raises OSError, Refused."""
    async for row in _described(cluster, topics, list(names)):
        if row.error_code == 0:
            yield row.resource_name, {each.name: each.value for each in row.configs}


async def _described(
    cluster: Cluster, topics: Sequence[str], names: list[str] | None
) -> AsyncIterator[DescribeConfigsResult]:
    """A broker's answer about each topic's settings: those in `names`, or all for None. Raises OSError, Refused."""
    for start in range(0, len(topics), TOPICS_AT_ONCE):
        resources = [
            DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=names)
            for topic in topics[start : start + TOPICS_AT_ONCE]
        ]
        for row in (await cluster.ask_any(DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=resources))).results:
            yield row
