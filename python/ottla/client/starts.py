"""Where partitions are read that came without an offset: what a group has committed, the first or the last record, or a
time.

Found in the background, each partition for itself: one that has no leader, or whose leader stands still, holds up no
other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from ottla.client.offsets import FoundOffset, ask_offsets
from ottla.client.ongoing import Ongoing
from ottla.errors import (
    KafkaError,
    NetworkException,
    NoOffsetForPartition,
    RemoteProtocolError,
    UnknownTopicOrPartition,
)
from ottla.kafka import EARLIEST, LATEST, NO_EPOCH, TopicPartition

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.commits import Commits

RETRY_MS = 100
RETRY_MS_MAX = 1_000
#: For so long a poll that does not wait for records waits for an answer.
PATIENCE_MS = 1_000
STARTS: Final = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True, slots=True)
class At:
    """The first record at or after this time in milliseconds; the end if there is none."""

    timestamp_ms: int


Start = int | At
"""An offset, `EARLIEST`, `LATEST`, or `At` a time."""


class Place(NamedTuple):
    """Where a partition is read, and the epoch of the leader that wrote the record before; -1 if it is not known."""

    offset: int
    leader_epoch: int = NO_EPOCH


@dataclass(eq=False, slots=True)
class _Wanted:
    """One partition: how it is to begin (None: as the group has committed, else at the consumer's start)."""

    start: Start | None
    #: How many requests are under way; one that is overdue is repeated, since another broker may lead by now.
    asked: int = 0
    again_at: float = 0.0
    pause_s: float = RETRY_MS / 1000
    problem: KafkaError | None = None
    unknown_since: float | None = None


class Starts:
    """The partitions that have no place yet. `then` is called when there is something new, and must not raise.

    `find` begins what is due; `found` and `refused` collect what came of it, for the caller to take.
    """

    def __init__(
        self,
        cluster: Cluster,
        start: int | None,
        then: Callable[[], object],
        *,
        read_committed: bool = False,
        commits: Callable[[], Commits] | None = None,
    ) -> None:
        """`start` is for partitions without a start of their own for which nothing is committed."""
        self.cluster = cluster
        self.start = start
        self.read_committed = read_committed
        self.found: dict[TopicPartition, Place] = {}
        self.refused: dict[TopicPartition, KafkaError] = {}
        self._commits = commits
        self._then = then
        self._wanted: dict[TopicPartition, _Wanted] = {}
        self._doubted: set[str] = set()
        self._began_at = -1.0

    def __contains__(self, partition: object) -> bool:
        return partition in self._wanted or partition in self.found

    def __len__(self) -> int:
        return len(self._wanted)

    def __bool__(self) -> bool:
        return bool(self._wanted)

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """Those that have no place yet, or one that was not taken yet."""
        return self._wanted.keys() | self.found.keys()

    @property
    def problems(self) -> dict[TopicPartition, KafkaError]:
        """Why partitions have no place yet, though they may have one later."""
        return {each: wanted.problem for each, wanted in self._wanted.items() if wanted.problem is not None}

    def wanted(self, partition: TopicPartition) -> Start | None:
        """How a partition is to begin that has no place yet."""
        return self._wanted[partition].start

    def gone(self, after_ms: float) -> dict[TopicPartition, KafkaError]:
        """The partitions that no broker has known for so long, with the errors that say so."""
        now = trio.current_time()
        return {
            each: wanted.problem
            for each, wanted in self._wanted.items()
            if wanted.unknown_since is not None
            and wanted.problem is not None
            and now - wanted.unknown_since >= after_ms / 1000
        }

    def add(self, starts: Mapping[TopicPartition, Start | None]) -> None:
        """These partitions are to begin so; what was to be found for them before is no longer."""
        for partition, start in starts.items():
            self.discard(partition)
            self._wanted[partition] = _Wanted(start)

    def discard(self, partition: TopicPartition) -> None:
        """It has a place, or nobody wants one."""
        self._wanted.pop(partition, None)
        self.found.pop(partition, None)
        self.refused.pop(partition, None)

    def find(self) -> None:
        """Asks for those for which it is time."""
        now = trio.current_time()
        due = {partition: wanted for partition, wanted in self._wanted.items() if wanted.again_at <= now}
        if due:
            for partition, wanted in due.items():
                if wanted.asked:
                    wanted.problem = NetworkException(f"nobody says where {partition} begins")
                    self._doubted.add(partition.topic)
                wanted.asked += 1
                wanted.again_at = now + PATIENCE_MS / 1000 * 2 ** (wanted.asked - 1)
            self._began_at = now
            Ongoing(self.cluster.ongoing, partial(self._ask, due), self._then)

    def next_time(self) -> float:
        """When `find` has something to do again."""
        return min((each.again_at for each in self._wanted.values()), default=float("inf"))

    def patience(self, since: float) -> float:
        """Until when it is worth waiting for what was asked after `since`; before `since` if nothing was."""
        if self._began_at < since or not any(each.asked for each in self._wanted.values()):
            return float("-inf")
        return self._began_at + PATIENCE_MS / 1000

    async def _ask(self, asked: Mapping[TopicPartition, _Wanted]) -> None:
        """Raises nothing: what fails is noted where it belongs."""
        try:
            times = await self._beginnings(asked)
            late: dict[TopicPartition, int] = {}

            def tell(partition: TopicPartition, found: FoundOffset) -> None:
                if found.offset < 0:
                    late[partition] = LATEST
                else:
                    self._place(partition, asked, Place(found.offset))

            await self._list(times, asked, tell)
            # A time behind the last record.
            await self._list(late, asked, tell)
        finally:
            for wanted in asked.values():
                wanted.asked -= 1

    async def _beginnings(self, asked: Mapping[TopicPartition, _Wanted]) -> dict[TopicPartition, int]:
        """The times to ask for, after what is committed was found."""
        times: dict[TopicPartition, int] = {}
        open_ones = []
        for partition, wanted in asked.items():
            if wanted.start is None:
                open_ones.append(partition)
            else:
                times[partition] = wanted.start.timestamp_ms if isinstance(wanted.start, At) else wanted.start
        if open_ones and self._commits is not None:
            try:
                committed = await self._commits().committed_once(open_ones, is_stable=self.read_committed)
            except KafkaError as problem:
                self._failed(dict.fromkeys(open_ones, problem), asked)
                return times
            for partition, found in committed.items():
                self._place(partition, asked, Place(found.offset, found.leader_epoch))
            open_ones = [each for each in open_ones if each not in committed]
        if self.start is not None:
            times |= dict.fromkeys(open_ones, self.start)
        else:
            for partition in open_ones:
                why = f"nothing is committed for {partition}, and the consumer has no start ('earliest', 'latest')"
                self._failed({partition: NoOffsetForPartition(why)}, asked)
        return times

    async def _list(
        self,
        times: Mapping[TopicPartition, int],
        asked: Mapping[TopicPartition, _Wanted],
        tell: Callable[[TopicPartition, FoundOffset], object],
    ) -> None:
        if not times:
            return
        doubted, self._doubted = self._doubted, set()
        try:
            problems = await ask_offsets(self.cluster, times, tell, read_committed=self.read_committed, doubted=doubted)
        except (KafkaError, OSError, RemoteProtocolError) as problem:
            trouble = problem if isinstance(problem, KafkaError) else NetworkException(str(problem))
            trouble.__cause__ = None if trouble is problem else problem
            problems = dict.fromkeys(times, trouble)
        self._failed(problems, asked)

    def _place(self, partition: TopicPartition, asked: Mapping[TopicPartition, _Wanted], place: Place) -> None:
        # It may have been taken away, or sought elsewhere, meanwhile.
        if self._wanted.get(partition) is asked[partition]:
            del self._wanted[partition]
            self.found[partition] = place
            self._then()

    def _failed(self, problems: Mapping[TopicPartition, KafkaError], asked: Mapping[TopicPartition, _Wanted]) -> None:
        now = trio.current_time()
        for partition, problem in problems.items():
            wanted = asked[partition]
            if self._wanted.get(partition) is not wanted:
                continue
            wanted.problem = problem
            wanted.again_at = now + wanted.pause_s
            wanted.pause_s = min(2 * wanted.pause_s, RETRY_MS_MAX / 1000)
            if not problem.retriable:
                self.refused[partition] = problem
            self._doubted.add(partition.topic)
            if not isinstance(problem, UnknownTopicOrPartition):
                wanted.unknown_since = None
            elif wanted.unknown_since is None:
                wanted.unknown_since = now
