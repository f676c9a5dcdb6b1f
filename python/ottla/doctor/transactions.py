"""Transactions that nobody ends: readers of committed records wait behind them."""

from __future__ import annotations

import time
from collections import defaultdict

from ottla.doctor.brokers import Cluster, Refused
from ottla.doctor.findings import Report, some
from ottla.doctor.offsets import offsets
from ottla.errors import counted
from ottla.kafka import LATEST, READ_COMMITTED, TopicPartition
from ottla.wire.k61_describe_producers import DESCRIBE_PRODUCERS, DescribeProducersRequest, TopicRequest

#: transaction.max.timeout.ms: no transaction of a producer that keeps to the rules is open for longer.
TIMEOUT_MAX_S = 15 * 60


async def check_open(report: Report, cluster: Cluster) -> None:
    """Raises OSError, Refused."""
    partitions = [
        TopicPartition(topic.name, row.partition_index) for topic in cluster.metadata.topics for row in topic.partitions
    ]
    # The other order would take what is appended in between for open.
    ends = await offsets(cluster, partitions, LATEST)
    stable = await offsets(cluster, partitions, LATEST, READ_COMMITTED)
    behind = [
        partition for partition in partitions if partition in ends and stable.get(partition, 1 << 62) < ends[partition]
    ]
    if not behind:
        report.ok("transactions", "none is open")
        return
    having = counted(len(behind), "partition has", "partitions have")
    hanging = await _hanging(cluster, behind)
    if hanging is None:
        report.skipped(
            "transactions",
            f"{having} open ones: {some([_name(each) for each in behind])}; since when, only brokers from 2.8 on tell",
            "look again in some minutes: where the same last stable offset stands still, one hangs",
        )
    elif hanging:
        report.problem(
            "transactions",
            f"open for more than {TIMEOUT_MAX_S // 60} minutes without a record: {some(hanging)}",
            "readers of committed records wait there: `ottla transaction find-hanging` names them, and "
            "`ottla transaction abort TOPIC PARTITION --start-offset OFFSET` ends them",
        )
    else:
        report.ok("transactions", f"{having} open ones, none of them for long")


def _name(partition: TopicPartition) -> str:
    topic, number = partition
    return f"{topic}-{number}"


async def _hanging(cluster: Cluster, behind: list[TopicPartition]) -> list[str] | None:
    """None if the brokers do not tell."""
    leaders = {
        (topic.name, row.partition_index): row.leader_id
        for topic in cluster.metadata.topics
        for row in topic.partitions
    }
    by_leader: defaultdict[int, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for topic, index in behind:
        by_leader[leaders[topic, index]][topic].append(index)
    now_ms = time.time() * 1000
    found: list[str] = []
    for leader, topics in by_leader.items():
        rows = [TopicRequest(name=topic, partition_indexes=indexes) for topic, indexes in topics.items()]
        try:
            answer = await cluster.ask(leader, DESCRIBE_PRODUCERS, DescribeProducersRequest(topics=rows))
        except Refused:
            return None
        found += [
            f"{topic.name}-{row.partition_index} (producer {producer.producer_id})"
            for topic in answer.topics
            for row in topic.partitions
            for producer in row.active_producers
            if producer.current_txn_start_offset >= 0 and now_ms - producer.last_timestamp > TIMEOUT_MAX_S * 1000
        ]
    return found
