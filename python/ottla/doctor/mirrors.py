"""Mirrors of a file of `ottla mirror`: whether they run, keep up, and note where groups go on.

Both clusters of a flow are asked, and not the instances. How old is too old follows from the file's intervals:

| what         | is old                                                                               |
|--------------|--------------------------------------------------------------------------------------|
| a heartbeat  | after three intervals, and `SLOW_S` for who is slow                                  |
| a checkpoint | after one interval and `SLOW_S`, if its group has committed something else meanwhile |

A checkpoint is written when something has changed, so one that is old says nothing where its group stands still. Where
one moved for the first time after a long rest, its checkpoint is said to be late until the mirror has noticed: for an
interval at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import trio

from ottla.client.admin import Admin
from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer, Record
from ottla.doctor.findings import Report, some
from ottla.errors import CorruptMessage, KafkaError, RemoteProtocolError, UnknownTopicOrPartition, counted
from ottla.kafka import EARLIEST, LATEST, TopicPartition
from ottla.mirror.config import FlowConfig, MirrorConfig
from ottla.mirror.formats import Checkpoint, Heartbeat
from ottla.mirror.naming import HEARTBEATS
from ottla.mirror.status import Status, cluster_of, status_of

T = TypeVar("T")

CHECK: Final = "mirror"
#: How much later than an interval something may come.
SLOW_S: Final = 10.0
#: Of a topic with checkpoints so many are read, the newest.
CHECKPOINTS_MAX: Final = 50_000
#: How long all of it may take for one flow.
READ_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Mirrors:
    """The flows of a file that is called so."""

    file: str
    config: MirrorConfig


async def check_mirrors(report: Report, mirrors: Mirrors, timeout_s: float, lag_max: int) -> None:
    """Raises nothing: a flow whose clusters do not answer is a problem of its own."""
    for flow in mirrors.config.flows:
        before = len(report.findings)
        try:
            status = await status_of(flow, timeout_ms=timeout_s * 1000)
            async with (
                cluster_of(flow.reads, timeout_s * 1000) as source,
                cluster_of(flow.writes, timeout_s * 1000) as target,
            ):
                one = _Flow(report, mirrors.file, flow, status, source, target)
                with trio.fail_after(READ_S):
                    if await one.check_life():
                        one.check_lag(lag_max)
                        await one.check_checkpoints()
        except (KafkaError, OSError, RemoteProtocolError, trio.TooSlowError) as error:
            report.problem(
                CHECK,
                f"{flow} cannot be looked at: {str(error) or f'it takes longer than {READ_S:g} s'}",
                f"`ottla doctor` with the addresses of {flow.source} and of {flow.target} says more",
            )
        if len(report.findings) == before:
            report.ok(CHECK, f"{flow} is copied by {counted(status.instances, 'instance')}, lag {status.lag:,}")


class _Flow:
    """The checks of one flow; each adds what is wrong."""

    def __init__(
        self, report: Report, file: str, flow: FlowConfig, status: Status, source: Cluster, target: Cluster
    ) -> None:
        self._report = report
        self._file = file
        self._flow = flow
        self._status = status
        self._source = source
        self._target = target

    async def check_life(self) -> bool:
        """Checks that instances copy the flow. True if they are ours, so that there is more to look at."""
        flow = self._flow
        silent_s = None if flow.heartbeats_s is None else 3 * flow.heartbeats_s + SLOW_S
        beats = silent_s is not None and await self._beats(silent_s)
        if not self._status.instances and beats:
            self._report.skipped(
                CHECK, f"{flow} has heartbeats and no instance of `ottla mirror`: MirrorMaker 2 seems to copy it"
            )
        elif not self._status.instances:
            self._report.problem(CHECK, f"{flow} is copied by no instance", f"start one: `ottla mirror {self._file}`")
        elif silent_s is not None and not beats:
            self._report.warning(
                CHECK,
                f"{flow} has no heartbeat of the last {silent_s:g} s, and is to have one every {flow.heartbeats_s} s",
                f"the log of its {counted(self._status.instances, 'instance')} says why they cannot write to "
                f"{flow.target}; `ottla mirror status {self._file}` shows whether records still come",
            )
        return self._status.instances > 0

    async def _beats(self, silent_s: float) -> bool:
        since_ms = int((time.time() - silent_s) * 1000)
        for record in await _since(self._target, TopicPartition(HEARTBEATS, 0), since_ms):
            beat = _decoded(Heartbeat.decode, record)
            if beat is not None and (beat.source, beat.target) == (self._flow.source, self._flow.target):
                return True
        return False

    def check_lag(self, lag_max: int) -> None:
        """Says which partitions are far behind, or not begun."""
        lags = {each: found.lag for each, found in self._status.partitions.items() if found.lag is not None}
        late = sorted((each for each, lag in lags.items() if lag > lag_max), key=lambda each: -lags[each])
        if late:
            shown = [f"{each} ({lags[each]:,})" for each in late]
            are = counted(len(late), "partition is", "partitions are")
            self._report.warning(
                CHECK,
                f"{self._flow}: {are} more than {counted(lag_max, 'offset')} behind: {some(shown)}",
                f"`ottla mirror status {self._file}` shows whether that shrinks; if not, start more instances",
            )
        waiting = [str(each) for each, found in self._status.partitions.items() if found.copied is None and found.end]
        if waiting:
            are = counted(len(waiting), "partition is", "partitions are")
            self._report.warning(
                CHECK,
                f"{self._flow}: {are} not begun: {some(waiting)}",
                f"new ones are begun within {self._flow.refresh_topics_s or 'any number of'} s: after that the log of "
                f"`ottla mirror {self._file}` says what is in the way",
            )

    async def check_checkpoints(self) -> None:
        """Says which groups have moved since their checkpoint, although the next one should be there."""
        flow = self._flow
        if flow.checkpoints_s is None:
            return
        old_ms = (time.time() - flow.checkpoints_s - SLOW_S) * 1000
        late = []
        for (group, mirror), (checkpoint, timestamp_ms) in (await self._checkpoints()).items():
            if timestamp_ms >= old_ms or not flow.groups.takes(group):
                continue
            partition = TopicPartition(flow.names.upstream(mirror.topic), mirror.partition)
            progress = self._status.partitions.get(partition)
            committed = (await Admin(self._source).groups.committed(group, [partition])).get(partition)
            # What is not copied yet has no place in the target.
            if progress is None or committed is None or committed.offset > (progress.copied or 0):
                continue
            if committed.offset != checkpoint.upstream:
                age_s = time.time() - timestamp_ms / 1000
                late.append(f"{group} in {partition} (at {committed.offset}, {checkpoint.upstream} {age_s:,.0f} s ago)")
        if late:
            are = counted(len(late), "checkpoint is", "checkpoints are")
            self._report.warning(
                CHECK,
                f"{flow}: {are} older than {flow.checkpoints_s} s, and the groups have moved: {some(sorted(late))}",
                f"look again in {flow.checkpoints_s} s: where the same is said, the log of "
                f"`ottla mirror {self._file}` says why it does not write them",
            )

    async def _checkpoints(self) -> dict[tuple[str, TopicPartition], tuple[Checkpoint, int]]:
        """The newest of each group and partition, and when it was written."""
        place = TopicPartition(self._flow.names.checkpoints(self._flow.source), 0)
        try:
            found = await Admin(self._target).list_offsets({place: LATEST})
            begin = (await Admin(self._target).list_offsets({place: EARLIEST}))[place].offset
        except UnknownTopicOrPartition:
            return {}
        end = found[place].offset
        newest: dict[tuple[str, TopicPartition], tuple[Checkpoint, int]] = {}
        for record in await _read(self._target, place, max(begin, end - CHECKPOINTS_MAX), end):
            checkpoint = _decoded(Checkpoint.decode, record)
            if checkpoint is not None:
                newest[checkpoint.group, checkpoint.partition] = checkpoint, record.timestamp_ms
        return newest


async def _since(cluster: Cluster, place: TopicPartition, since_ms: int) -> list[Record]:
    """The records of a partition since a time; none where it is not there."""
    admin = Admin(cluster)
    try:
        begin = (await admin.list_offsets({place: since_ms}))[place].offset
        end = (await admin.list_offsets({place: LATEST}))[place].offset
    except UnknownTopicOrPartition:
        return []
    return [] if begin < 0 else await _read(cluster, place, begin, end)


async def _read(cluster: Cluster, place: TopicPartition, begin: int, end: int) -> list[Record]:
    reader = Consumer(cluster, start="earliest", wait_ms=100)
    await reader.assign({place: begin})
    found: list[Record] = []
    while reader.positions[place] < end:
        found += await reader.poll()
    return found


def _decoded(decode: Callable[[bytes | None, bytes | None], T], record: Record) -> T | None:
    """None for what is no such record: others may write to these topics."""
    try:
        return decode(record.key, record.value)
    except CorruptMessage:
        return None
