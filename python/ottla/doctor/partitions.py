"""Where the records are: log directories that fail, partitions without a leader, replicas that are behind."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

from ottla.client.leading import not_led
from ottla.doctor.brokers import Cluster, Refused, named
from ottla.doctor.findings import Report, some
from ottla.errors import counted
from ottla.kafka import TopicPartition
from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsRequest, ListOffsetsResponse
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.k35_describe_log_dirs import DESCRIBE_LOG_DIRS, DescribeLogDirsRequest

LEADER_NOT_AVAILABLE = 5
KAFKAS_DEFAULT = "/tmp/kafka-logs"
NEARLY_FULL, FULL = 0.05, 0.01
"""Which part of a disk is free then."""


async def check_directories(report: Report, cluster: Cluster) -> None:
    """Raises OSError."""
    for broker in cluster.connections:
        try:
            answer = await cluster.ask(broker, DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None))
        except Refused as refused:
            report.skipped("disk", f"broker {broker}: {refused}")
            continue
        bad = [f"{each.log_dir} ({named(each.error_code)})" for each in answer.results if each.error_code]
        if bad:
            report.problem(
                "disk",
                f"broker {broker}: log directories are out of use: {some(bad)}",
                "look at the broker's log for the error of the disk, repair or replace it, and restart the broker",
            )
            continue
        size = sum(row.partition_size for each in answer.results for topic in each.topics for row in topic.partitions)
        logs = sum(len(topic.partitions) for each in answer.results for topic in each.topics)
        if not answer.results:
            report.skipped(
                "disk", f"broker {broker} does not tell of its log directories", "ask with the right to Describe"
            )
            continue
        full = _check_space(report, cluster, broker, [each.log_dir for each in answer.results])
        if not full:
            where = some([each.log_dir for each in answer.results])
            report.ok("disk", f"broker {broker}: {counted(logs, 'log')} of {size / 1e6:,.0f} MB in {where}")
        if any(each.log_dir == KAFKAS_DEFAULT for each in answer.results):
            report.warning(
                "disk",
                f"broker {broker} keeps its logs in /tmp, which is emptied when the machine starts",
                "set log.dirs to a directory that stays",
            )


def _check_space(report: Report, cluster: Cluster, broker: int, directories: list[str]) -> bool:
    """Reports directories whose disk is nearly full; True if there are any. No answer of Kafka 2.7's protocol tells, so
    only the directories of brokers on this machine are looked at.
    """
    found = False
    for directory in directories:
        space = _space(directory, broker, cluster.metadata.cluster_id)
        if space is None or space[0] >= space[1] * NEARLY_FULL:
            continue
        found = True
        free, size = (f"{each / 1e6:,.0f} MB" for each in space)
        add = report.problem if space[0] < space[1] * FULL else report.warning
        add(
            "disk",
            f"broker {broker}: the disk of {directory} has {free} left of {size}",
            "a broker without space refuses records: make room, or lower retention.ms or retention.bytes of topics",
        )
    return found


def _space(directory: str, broker: int, cluster_id: str | None) -> tuple[int, int] | None:
    """The free bytes and all bytes of a directory's disk; None if it is not this broker's, on this machine."""
    try:
        owner = Path(directory, "meta.properties").read_text().splitlines()
        disk = os.statvfs(directory)
    except (OSError, UnicodeDecodeError):
        return None
    if not {f"broker.id={broker}", f"cluster.id={cluster_id}"} <= set(owner):
        return None
    return disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize


async def check_replicas(report: Report, cluster: Cluster) -> None:
    """Partitions that cannot be used, or are one failure away from it."""
    offline: list[str] = []
    behind: list[str] = []
    count = 0
    for topic in cluster.metadata.topics:
        for partition in topic.partitions:
            name = f"{topic.name}-{partition.partition_index}"
            count += 1
            if partition.leader_id < 0 or partition.error_code == LEADER_NOT_AVAILABLE:
                offline.append(name)
            elif len(partition.isr_nodes) < len(partition.replica_nodes):
                behind.append(name)
    whole = counted(count, "partition")
    if offline:
        report.problem(
            "partitions",
            f"{len(offline):,} of {whole} have no leader: {some(offline)}",
            "start the brokers that have their replicas, and look at their log directories; if these are lost, "
            "`ottla topic elect TOPIC --unclean` has another replica lead, which loses what it does not have",
        )
    if behind:
        report.warning(
            "partitions",
            f"{len(behind):,} of {whole} have fewer in-sync replicas than replicas: {some(behind)}",
            "is a broker down, slow, or its disk out of use? Until they are in sync another failure may cost records",
        )
    if not offline and not behind:
        report.ok("partitions", f"each of {count:,} has a leader and all of its replicas")


async def check_served(report: Report, cluster: Cluster) -> None:
    """Partitions whose leaders do not say that they lead them. Leaders that cannot be reached from here are a finding
    of their own, and are left out. Raises OSError, Refused.
    """

    async def ask(leader: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        try:
            return await cluster.ask(leader, LIST_OFFSETS, request)
        except Refused as refused:
            raise OSError(str(refused)) from refused

    async def look(partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        rows = [MetadataRequestTopic(name=name) for name in {partition.topic for partition in partitions}]
        request = MetadataRequest(topics=rows, allow_auto_topic_creation=False)
        now = _leaders(cluster, await cluster.ask_any(METADATA, request))
        return {partition: now[partition] for partition in partitions if partition in now}

    leaders = _leaders(cluster, cluster.metadata)
    wrong = await not_led(leaders, ask, look, silent_s=cluster.timeout_s)
    if not wrong:
        report.ok("served", f"the leaders of {counted(len(leaders), 'partition')} say that they lead them")
        return
    who = sorted({str(leaders[partition]) for partition in wrong})
    report.problem(
        "served",
        f"{len(wrong):,} of {counted(len(leaders), 'partition')} have a leader that does not serve them: "
        f"{some([f'{partition} ({words})' for partition, words in sorted(wrong.items())])}",
        f"look at the log of {'broker' if len(who) == 1 else 'brokers'} {some(who)}, and restart it: clients wait for "
        "it, and are told by Metadata that all is well",
    )


def _leaders(cluster: Cluster, metadata: MetadataResponse) -> dict[TopicPartition, int]:
    """The leaders that can be asked."""
    return {
        TopicPartition(topic.name, partition.partition_index): partition.leader_id
        for topic in metadata.topics
        for partition in topic.partitions
        if partition.leader_id in cluster.connections
    }


async def check_absent(report: Report, cluster: Cluster) -> None:
    """Brokers that hold replicas by the assignments, and are not there. Nobody tells since when."""
    there = {broker.node_id for broker in cluster.metadata.brokers}
    missed = Counter(
        broker
        for topic in cluster.metadata.topics
        for partition in topic.partitions
        for broker in partition.replica_nodes
        if broker not in there
    )
    if not missed:
        report.ok("brokers", f"{counted(len(there), 'is', 'are')} there, and all that have replicas")
        return
    names = [f"{broker} ({counted(count, 'partition')})" for broker, count in sorted(missed.items())]
    report.warning(
        "brokers",
        f"brokers are to have replicas, and are not there: {some(names)}",
        "start them again; one that does not come back can be replaced by another with its id, or its replicas copied "
        "to others with `ottla broker drain ID --replicas`",
    )


#: Below so many partitions for each broker it is chance who leads.
PARTITIONS_PER_BROKER_MIN = 3


async def check_leaders(report: Report, cluster: Cluster) -> None:
    """One broker that does the work of several: of what is not its share it leads at least half, too."""
    brokers = len(cluster.metadata.brokers)
    partitions = [partition for topic in cluster.metadata.topics for partition in topic.partitions]
    led = Counter(partition.leader_id for partition in partitions if partition.leader_id >= 0)
    if brokers < 2 or led.total() < brokers * PARTITIONS_PER_BROKER_MIN:
        report.ok("leaders", "there is too little to spread among brokers")
        return
    broker, most = max(led.items(), key=lambda item: item[1])
    if most < led.total() * (1 + 1 / brokers) / 2:
        report.ok("leaders", f"no broker leads much more than others: {most} of {led.total()} partitions at most")
        return
    assigned = [partition.replica_nodes for partition in partitions if partition.leader_id >= 0]
    preferred = Counter(replicas[0] for replicas in assigned if replicas)
    whole = "all" if most == led.total() else f"{most} of"
    too_many = led.total() * (1 + 1 / brokers) / 2
    if preferred[broker] < too_many:
        away = sum(each.leader_id == broker != each.replica_nodes[0] for each in partitions if each.replica_nodes)
        todo = (
            f"{away} of them are to be led by others, who were away: `ottla broker balance` gives them back, and so "
            "does a controller with auto.leader.rebalance.enable=true after a while"
        )
    elif sum(replicas == [broker] for replicas in assigned) < too_many:
        todo = "others have replicas, and are seldom named first: `ottla broker balance --leaders` changes the order"
    else:
        todo = "others have no replicas of them: `ottla broker balance --replicas` copies as few as will do"
    report.warning(
        "leaders", f"broker {broker} leads {whole} {led.total()} partitions, though there are {brokers} brokers", todo
    )
