"""A group's committed offsets: stored in the order in which they are given, one request after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from ottla.client.groups import Committed
from ottla.errors import (
    FencedInstanceId,
    IllegalGeneration,
    KafkaError,
    NetworkException,
    RebalanceInProgress,
    UnknownMemberId,
    check,
    error,
)
from ottla.kafka import TopicPartition
from ottla.wire.k08_offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.k09_offset_fetch import OFFSET_FETCH, OffsetFetchRequest, OffsetFetchRequestTopic

if TYPE_CHECKING:
    from ottla.client.membership import Membership

RETRY_MS = 100
_STABLE_SINCE = 7
"""The version of OffsetFetch that can wait for transactions to end (KIP-447)."""

Offsets = Mapping[TopicPartition, Committed]
Callback = Callable[[Offsets, KafkaError | None], object]


@dataclass(eq=False, slots=True)
class _Commit:
    offsets: Offsets
    callback: Callback | None
    is_repeated: bool
    generation: int
    member_id: str
    problem: KafkaError | None = None
    done: trio.Event = field(default_factory=trio.Event)


class Commits:
    """`run` is the background task that sends; `finished` has callbacks that are due, for the task that polls."""

    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self.connection = membership.connection
        self.finished: deque[tuple[Callback, Offsets, KafkaError | None]] = deque()
        self._waiting: deque[_Commit] = deque()
        self._wake = trio.Event()

    async def commit(self, offsets: Offsets, timeout_ms: float) -> None:
        """Waits until the offsets are stored, and all that were given before them.

        Raises:
            UnknownMemberId, IllegalGeneration, RebalanceInProgress: the partitions may be others' now.
            KafkaError: what else the coordinator says; CoordinatorNotAvailable if it does not for `timeout_ms`.
        """
        if not offsets:
            return
        one = self._put(offsets, None, is_repeated=True)
        try:
            with trio.move_on_after(timeout_ms / 1000):
                await one.done.wait()
        finally:
            # Nobody waits for another attempt.
            one.is_repeated = False
        if not one.done.is_set():
            raise one.problem or error(15, f"group '{self.connection.group}': no answer within {timeout_ms:,g} ms")
        if one.problem is not None:
            raise one.problem

    def commit_soon(self, offsets: Offsets, callback: Callback | None) -> None:
        """Stores them in the background, with one attempt."""
        self._put(offsets, callback, is_repeated=False)

    async def drain(self) -> None:
        """Waits until what was given is sent and answered."""
        while self._waiting:
            await self._waiting[-1].done.wait()

    async def run(self, scope: trio.CancelScope) -> None:
        """Until this scope is cancelled, which is entered here."""
        with scope:
            while True:
                while not self._waiting:
                    self._wake = trio.Event()
                    await self._wake.wait()
                one = self._waiting[0]
                await self._carry_out(one)
                self._waiting.popleft()
                if one.callback is not None:
                    self.finished.append((one.callback, one.offsets, one.problem))
                one.done.set()

    async def committed(
        self, partitions: Iterable[TopicPartition], *, is_stable: bool
    ) -> dict[TopicPartition, Committed]:
        """What is stored; partitions without an offset are left out. With `is_stable` an offset that a transaction may
        still change is waited for.

        Raises:
            KafkaError: what the coordinator says, or that it could not be reached for the cluster's `timeout_ms`.
        """
        wanted = list(partitions)
        return await self.connection.cluster.retry(lambda: self.committed_once(wanted, is_stable=is_stable))

    async def committed_once(
        self, partitions: Iterable[TopicPartition], *, is_stable: bool
    ) -> dict[TopicPartition, Committed]:
        """The same, asked once: what may pass is an error, too."""
        topics: dict[str, list[int]] = {}
        for topic, number in partitions:
            topics.setdefault(topic, []).append(number)
        if not topics:
            return {}
        group = self.connection.group
        rows = [OffsetFetchRequestTopic(name, numbers) for name, numbers in topics.items()]
        try:
            waits = is_stable and await self.connection.version(OFFSET_FETCH) >= _STABLE_SINCE
            request = OffsetFetchRequest(group, rows, require_stable=waits)
            answer = await self.connection.call(OFFSET_FETCH, request, timeout_ms=self.connection.cluster.timeout_ms)
            check(answer.error_code, f"group '{group}'")
            found = {}
            left = {TopicPartition(topic, number) for topic, numbers in topics.items() for number in numbers}
            for topic_row in answer.topics:
                for row in topic_row.partitions:
                    place = TopicPartition(topic_row.name, row.partition_index)
                    check(row.error_code, f"group '{group}', {place}")
                    if place in left and row.committed_offset >= 0:
                        found[place] = Committed(row.committed_offset, row.committed_leader_epoch, row.metadata or "")
                    left.discard(place)
            if left:
                # Where nothing is committed an answer says so: who began elsewhere would leave out or repeat records.
                raise NetworkException(f"the answer of group '{group}' says nothing of {min(left)}")
            return found
        except KafkaError as problem:
            await self.connection.failed(problem)
            raise

    def _put(self, offsets: Offsets, callback: Callback | None, *, is_repeated: bool) -> _Commit:
        member = self.membership
        one = _Commit(dict(offsets), callback, is_repeated, member.generation, member.member_id)
        if member.is_subscribed and not member.is_stable:
            # What was read may be others' now, and with the next generation it would count.
            one.problem = RebalanceInProgress(f"group '{member.group}': no commit while this member joins")
            one.done.set()
            if callback is not None:
                self.finished.append((callback, one.offsets, one.problem))
            return one
        self._waiting.append(one)
        self._wake.set()
        return one

    async def _carry_out(self, one: _Commit) -> None:
        while True:
            one.problem = None
            try:
                await self._send(one)
                return
            except KafkaError as problem:
                one.problem = problem
                await self.connection.failed(problem)
                if isinstance(problem, FencedInstanceId | UnknownMemberId | IllegalGeneration | RebalanceInProgress):
                    self.membership.expelled(problem, one.generation)
                if not problem.retriable or not one.is_repeated:
                    return
            await trio.sleep(RETRY_MS / 1000)

    async def _send(self, one: _Commit) -> None:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, number), each in one.offsets.items():
            row = OffsetCommitRequestPartition(number, each.offset, each.leader_epoch, committed_metadata=each.metadata)
            topics.setdefault(topic, []).append(row)
        member = self.membership
        request = OffsetCommitRequest(
            member.group,
            one.generation,
            one.member_id,
            member.settings.instance_id if one.member_id else None,
            topics=[OffsetCommitRequestTopic(name, rows) for name, rows in topics.items()],
        )
        answer = await self.connection.call(OFFSET_COMMIT, request, timeout_ms=self.connection.cluster.timeout_ms)
        for row_topic in answer.topics:
            for found in row_topic.partitions:
                if found.error_code:
                    raise error(found.error_code, self._why(found.error_code, row_topic.name, found.partition_index))

    def _why(self, code: int, topic: str, number: int) -> str:
        group = self.connection.group
        if code in (UnknownMemberId.code, IllegalGeneration.code):
            return f"group '{group}' has gone on without this member: {topic}-{number} may be another's now"
        return f"group '{group}', {topic}-{number}"
