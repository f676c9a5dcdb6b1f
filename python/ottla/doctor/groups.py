"""Groups that do not keep up, that nobody reads for any more, or whose offsets point at what is gone."""

from __future__ import annotations

from collections import defaultdict

from ottla.doctor.brokers import Cluster, Refused, named
from ottla.doctor.findings import Report, some
from ottla.doctor.offsets import offsets
from ottla.errors import counted
from ottla.kafka import EARLIEST, LATEST, TopicPartition
from ottla.wire.k09_offset_fetch import OFFSET_FETCH, OffsetFetchRequest
from ottla.wire.k16_list_groups import LIST_GROUPS, ListGroupsRequest

#: Groups whose offsets are looked at.
GROUPS_MAX = 500


async def check_groups(report: Report, cluster: Cluster, lag_max: int) -> None:
    """Raises OSError, Refused."""
    committed: dict[str, dict[TopicPartition, int]] = {}
    states: dict[str, str] = {}
    total = 0
    for broker in cluster.connections:
        answer = await cluster.ask(broker, LIST_GROUPS, ListGroupsRequest())
        if answer.error_code:
            raise Refused(f"broker {broker}: {named(answer.error_code)}")
        total += len(answer.groups)
        for listed in answer.groups[: max(0, GROUPS_MAX - len(committed))]:
            states[listed.group_id] = listed.group_state
            committed[listed.group_id] = await _committed(cluster, broker, listed.group_id)
    wanted = {partition for rows in committed.values() for partition in rows}
    ends = await offsets(cluster, wanted, LATEST)
    starts = await offsets(cluster, wanted, EARLIEST)

    lags: defaultdict[str, int] = defaultdict(int)
    lost: list[str] = []
    for group, rows in committed.items():
        for partition, offset in rows.items():
            end, start = ends.get(partition), starts.get(partition)
            if end is None or start is None:
                continue
            lags[group] += max(0, end - max(offset, start))
            if offset > end or offset < start:
                lost.append(f"{group} in {partition} (at {offset}, of {start} to {end})")
    late = sorted((group for group, lag in lags.items() if lag > lag_max), key=lambda group: -lags[group])
    if late:
        shown = [f"{group} ({lags[group]:,}{', nobody reads' if states[group] == 'Empty' else ''})" for group in late]
        are = counted(len(late), "is", "are")
        report.warning(
            "groups",
            f"{are} more than {counted(lag_max, 'record')} behind, of {total:,}: {some(shown)}",
            "start or add consumers, or delete groups that are not needed (`ottla group delete GROUP`)",
        )
    if lost:
        report.warning(
            "groups",
            f"{counted(len(lost), 'committed offset is', 'committed offsets are')} out of what is there: {some(lost)}",
            "these consumers fell behind retention, or the topic was made anew: they will jump, to where "
            "auto.offset.reset says",
        )
    if not late and not lost:
        report.ok("groups", f"none of {total:,} is more than {counted(lag_max, 'record')} behind")
    if total > len(committed):
        left_out = counted(total - len(committed), "was", "were")
        report.skipped("groups", f"{left_out} not looked at, of {total:,}")


async def _committed(cluster: Cluster, broker: int, group: str) -> dict[TopicPartition, int]:
    answer = await cluster.ask(broker, OFFSET_FETCH, OffsetFetchRequest(group_id=group, topics=None))
    return {
        TopicPartition(topic.name, row.partition_index): row.committed_offset
        for topic in answer.topics
        for row in topic.partitions
        if row.error_code == 0 and row.committed_offset >= 0
    }
