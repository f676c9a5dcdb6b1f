"""Where the records are: log directories that fail, partitions without a leader, replicas that are behind."""

from __future__ import annotations

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
