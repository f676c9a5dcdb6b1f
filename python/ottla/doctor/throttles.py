"""Throttles of replication that outlive the move they were made for: replicas that fall behind later are held back by
them, and nobody remembers why (KIP-73).
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.doctor import settings
from ottla.doctor.brokers import Cluster, Refused, named
from ottla.doctor.findings import Report, some
from ottla.errors import counted
from ottla.wire.k46_list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsRequest,
)

RATES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
#: A rate that was never set (a long's largest); those that a tool sets are less.
NEVER_SET = 2**63 - 1


async def check_throttles(report: Report, cluster: Cluster) -> None:
    """Raises OSError, Refused."""
    brokers = []
    for broker in cluster.connections:
        of_broker = await settings.of_broker(cluster, broker, RATES)
        brokers += [f"{broker} ({name}={of_broker[name]})" for name in RATES if _is_rate(of_broker.get(name))]
    names = [topic.name or "" for topic in cluster.metadata.topics]
    topics = []
    async for name, of_topic in settings.of_topics(cluster, names, REPLICAS):
        if any(of_topic.get(setting) for setting in REPLICAS):
            topics.append(name)
    if not brokers and not topics:
        report.ok("throttles", "no replica is throttled")
        return
    what = "; ".join(_parts(brokers, topics))
    try:
        moves = await _moves(cluster)
    except Refused as refused:
        report.skipped("throttles", f"replicas are throttled, and moves cannot be asked for: {what}: {refused}")
        return
    if moves:
        report.ok("throttles", f"{counted(moves, 'partition is', 'partitions are')} moving under a throttle: {what}")
        return
    report.warning(
        "throttles",
        f"replicas are throttled, and no partition is moving: {what}",
        "a replica that falls behind catches up no faster than that: `ottla topic reassign --resume` takes back what "
        "moves have left",
    )


def _is_rate(value: str | None) -> bool:
    return bool(value) and int(value or NEVER_SET) != NEVER_SET


def _parts(brokers: list[str], topics: list[str]) -> Iterable[str]:
    if topics:
        yield f"topics {some(topics)}"
    if brokers:
        yield f"brokers {some(brokers)}"


async def _moves(cluster: Cluster) -> int:
    """How many partitions are moving. Brokers of before 2.4 do not tell. Raises OSError, Refused."""
    answer = await cluster.ask_controller(
        LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsRequest(timeout_ms=int(cluster.timeout_s * 1000))
    )
    if answer.error_code:
        raise Refused(answer.error_message or named(answer.error_code))
    return sum(len(topic.partitions) for topic in answer.topics)
