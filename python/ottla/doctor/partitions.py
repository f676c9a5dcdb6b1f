"""Where the records are: log directories that fail, partitions without a leader, replicas that are behind."""

from __future__ import annotations

from collections import Counter

from ottla.doctor.brokers import Cluster, Refused, named
from ottla.doctor.findings import Report, some
from ottla.wire.k35_describe_log_dirs import DESCRIBE_LOG_DIRS, DescribeLogDirsRequest

LEADER_NOT_AVAILABLE = 5
KAFKAS_DEFAULT = "/tmp/kafka-logs"


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
        where = some([each.log_dir for each in answer.results])
        report.ok("disk", f"broker {broker}: {logs} logs of {size / 1e6:,.0f} MB in {where}")
        if any(each.log_dir == KAFKAS_DEFAULT for each in answer.results):
            report.warning(
                "disk",
                f"broker {broker} keeps its logs in /tmp, which is emptied when the machine starts",
                "set log.dirs to a directory that stays",
            )


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
    if offline:
        report.problem(
            "partitions",
            f"{len(offline)} of {count} partitions have no leader: {some(offline)}",
            "start the brokers that have their replicas, and look at their log directories",
        )
    if behind:
        report.warning(
            "partitions",
            f"{len(behind)} of {count} partitions have fewer in-sync replicas than replicas: {some(behind)}",
            "is a broker down, slow, or its disk out of use? Until they are in sync another failure may cost records",
        )
    if not offline and not behind:
        report.ok("partitions", f"all of {count} have a leader and all of their replicas")


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
        report.ok("brokers", f"{len(there)} are there, and all that have replicas")
        return
    names = [f"{broker} ({count} partitions)" for broker, count in sorted(missed.items())]
    report.warning(
        "brokers",
        f"brokers are to have replicas, and are not there: {some(names)}",
        "start them again; one that does not come back can be replaced by another with its id, or its replicas moved "
        "to others with kafka-reassign-partitions",
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
    elsewhere = sum(
        partition.leader_id == broker and partition.replica_nodes[0] != broker
        for partition in partitions
        if partition.replica_nodes
    )
    whole = "all" if most == led.total() else f"{most} of"
    report.warning(
        "leaders",
        f"broker {broker} leads {whole} {led.total()} partitions, though there are {brokers} brokers",
        f"{elsewhere} of them are to be led by others, who were away: `kafka-leader-election --election-type preferred "
        "--all-topic-partitions`, or auto.leader.rebalance.enable=true"
        if elsewhere * 2 > most
        else "others have no replicas, or are never named first: make plans with kafka-reassign-partitions --generate, "
        "and move partitions to them",
    )
