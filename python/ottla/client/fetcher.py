"""Fetches from the leaders of many partitions, none of which holds up the others.

Each leader is asked for all partitions that it leads, one request at a time and on a connection of its own, without
fetch sessions. A request goes on when its caller has what it wanted: the next call takes up the answer.

| a partition                                  | meanwhile                                                          |
|----------------------------------------------|--------------------------------------------------------------------|
| has no leader, or an unknown one             | metadata are asked again; others are fetched                       |
| is answered with an error that may pass      | the same, and it rests for a moment                                |
| has a leader that cannot be reached          | the same                                                           |
| has a leader that does not answer            | the same, when the answer is overdue: it may have another by then  |
| has an error that does not pass              | the caller is told                                                 |
| was sought elsewhere while it was asked      | what comes of the former place is dropped                          |
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import trio

from ottla import _core
from ottla.client.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from ottla.client.group_connection import refuse_older
from ottla.client.leader_epochs import LeaderEpochs
from ottla.client.ongoing import Bell, Ongoing
from ottla.errors import KafkaError, OffsetOutOfRange, RemoteProtocolError, UnknownTopicOrPartition, error
from ottla.kafka import CONSUMER, TopicPartition

if TYPE_CHECKING:
    from ottla.client.cluster import Address, Cluster
    from ottla.wire.k03_metadata import MetadataResponse

logger = logging.getLogger("ottla.client")

WAIT_MS_MAX = 500
"""How long a broker is asked to wait for records, as in Java's consumer: what is sought, resumed or assigned meanwhile
waits as long.
"""
OVERDUE_MS = 1_000
"""So much later than it was to be there an answer is no longer waited for, and its leader is doubted."""
RETRY_MS = 100
RETRY_MS_MAX = 1_000
LOOK_MS_MAX = 400
"""The longest pause between two looks at metadata, while there is a reason to look."""


class Fetched(NamedTuple):
    """What came of a fetch: of each partition one row, some of them empty, and the partitions whose leader's log parts
    from what was read (`LeaderEpochs.check`).
    """

    rows: dict[TopicPartition, _core.FetchedPartition]
    truncated: dict[TopicPartition, tuple[int, int]]


class _Answer(NamedTuple):
    rows: list[_core.FetchedPartition]
    truncated: dict[TopicPartition, tuple[int, int]]
    problems: dict[TopicPartition, KafkaError]


@dataclass
class _Request:
    """One that is under way, whose answer is doubted from `due_at` on."""

    asked: dict[TopicPartition, int]
    due_at: float
    call: Ongoing[_Answer]


@dataclass
class _Rest:
    """Why and until when a partition is not asked."""

    problem: Exception
    until: float = 0.0
    pause_s: float = field(default=RETRY_MS / 1000)


class Fetcher:
    """`fetch` gives what comes first, and `problems` says why partitions cannot be asked now. For one task."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        fetch_bytes: int,
        partition_bytes: int,
        read_committed: bool = False,
        wait_ms_max: int = WAIT_MS_MAX,
        epochs: LeaderEpochs | None = None,
    ) -> None:
        self.cluster = cluster
        self.fetch_bytes = fetch_bytes
        self.partition_bytes = partition_bytes
        self.read_committed = read_committed
        self.wait_ms_max = wait_ms_max
        self._bell = Bell()
        self._is_interrupted = False
        self._epochs = LeaderEpochs(cluster) if epochs is None else epochs
        self._under_way: dict[Address, _Request] = {}
        self._asked_at = -math.inf
        self._resting: dict[TopicPartition, _Rest] = {}
        #: Why partitions have no leader, and since when brokers do not know them.
        self._without: dict[TopicPartition, Exception] = {}
        self._unknown_since: dict[TopicPartition, float] = {}
        self._stale: set[str] = set()
        self._look: Ongoing[MetadataResponse] | None = None
        self._look_problem: Exception | None = None
        self._look_at = 0.0
        self._look_pause_s = RETRY_MS / 1000
        self._told: set[TopicPartition] = set()

    @property
    def problems(self) -> dict[TopicPartition, Exception]:
        """Why partitions could not be asked by the last `fetch`, though a later one may."""
        return self._without | {partition: rest.problem for partition, rest in self._resting.items()}

    def gone(self, after_ms: float) -> dict[TopicPartition, UnknownTopicOrPartition]:
        """The partitions that no broker has known for so long, with the errors that say so."""
        now = trio.current_time()
        return {
            partition: problem
            for partition, since in self._unknown_since.items()
            if now - since >= after_ms / 1000
            and isinstance(problem := self._without.get(partition), UnknownTopicOrPartition)
        }

    def interrupt(self) -> None:
        """Ends the waiting of `fetch`: its caller has something else to do."""
        self._is_interrupted = True
        self._bell.ring()

    async def fetch(self, positions: Mapping[TopicPartition, int], since: float, until: float) -> Fetched:
        """The first answer that has records, or an error that does not pass, and what came with it; else what came
        until this time of trio's clock, or until `interrupt`. What was asked after `since`, when the caller's own call
        began, is waited for a moment longer.

        Raises:
            KafkaError: a broker refuses this client for good.
        """
        self._is_interrupted = False
        found = Fetched({}, {})
        while True:
            refusal = self._collect(positions, found)
            if found.truncated or any(row.error_code or row.records for row in found.rows.values()):
                return found
            if refusal is not None:
                raise refusal
            now = trio.current_time()
            if now < until or self._asked_at < since:
                self._ask(positions, max(0.0, until - now))
            if self._is_interrupted or (now >= until and not self._awaits(since, now)):
                await trio.lowlevel.checkpoint()
                return found
            await self._bell.wait_until(self._next_time(now, until))

    def _awaits(self, since: float, now: float) -> bool:
        """Whether an answer to something that was asked after `since` is still to be waited for."""
        look = self._look
        if look is not None and since <= look.began_at and now < look.began_at + OVERDUE_MS / 1000:
            return True
        return any(since <= each.call.began_at and now < each.due_at for each in self._under_way.values())

    def _next_time(self, now: float, until: float) -> float:
        """When there is something to do though nothing rings."""
        times = [each.due_at for each in self._under_way.values() if each.due_at > now]
        if self._look is not None:
            times.append(self._look.began_at + OVERDUE_MS / 1000)
        if now < until:
            times += [until, *(rest.until for rest in self._resting.values() if rest.until > now)]
            if self._without or self._stale:
                times.append(self._look_at)
        return max(min(times, default=until), now)

    # --- what comes ---

    def _collect(self, positions: Mapping[TopicPartition, int], found: Fetched) -> KafkaError | None:
        """Takes what has come. Gives an error of a broker that does not take this client."""
        refusal: KafkaError | None = None
        for leader, request in list(self._under_way.items()):
            if not request.call.is_done:
                continue
            del self._under_way[leader]
            try:
                answer = request.call.result()
            except (KafkaError, OSError, RemoteProtocolError) as problem:
                if isinstance(problem, KafkaError) and not problem.retriable:
                    refusal = refusal or problem
                for partition in request.asked:
                    self._rest(partition, problem)
                continue
            for partition, trouble in answer.problems.items():
                self._rest(partition, trouble)
            for partition, at in answer.truncated.items():
                if positions.get(partition) == request.asked[partition]:
                    found.truncated[partition] = at
            for row in answer.rows:
                partition = TopicPartition(row.topic, row.partition)
                asked = request.asked.get(partition)
                if asked is not None and positions.get(partition) == asked:
                    self._take(partition, asked, row, found)
        return refusal

    def _take(self, partition: TopicPartition, position: int, row: _core.FetchedPartition, found: Fetched) -> None:
        if row.error_code:
            problem = error(row.error_code, f"{partition} at offset {position}")
            if problem.retriable and not isinstance(problem, OffsetOutOfRange):
                self._rest(partition, problem)
                return
        elif self._resting.pop(partition, None) is not None and partition in self._told:
            self._told.discard(partition)
            logger.info("%s is read again", partition)
        known = found.rows.get(partition)
        if known is None or not known.records:
            found.rows[partition] = row

    def _rest(self, partition: TopicPartition, problem: Exception) -> None:
        """It is asked again after a pause, of the leader that metadata name then."""
        rest = self._resting.get(partition)
        if rest is None:
            rest = self._resting[partition] = _Rest(problem)
        else:
            rest.problem, rest.pause_s = problem, min(2 * rest.pause_s, RETRY_MS_MAX / 1000)
            # A leader that moves is worth no line.
            self._tell(partition, problem)
        rest.until = trio.current_time() + rest.pause_s
        self._stale.add(partition.topic)

    def _tell(self, partition: TopicPartition, problem: Exception) -> None:
        if partition not in self._told:
            self._told.add(partition)
            logger.warning("%s cannot be read now: %s", partition, problem)

    # --- what is asked ---

    def _ask(self, positions: Mapping[TopicPartition, int], wait_s: float) -> None:
        """Asks leaders that owe no answer, and for metadata where they are missing or doubted."""
        now = trio.current_time()
        if self._look is not None and self._look.is_done:
            self._looked(self._look)
        self._doubt(now)
        groups, without = self.cluster.located(positions)
        self._note(without, positions, now)
        self._look_for(without, now)
        wait_ms = int(min(wait_s * 1000, self.wait_ms_max))
        for leader, partitions in groups.items():
            if leader not in self._under_way:
                asked = {
                    each: positions[each]
                    for each in partitions
                    if (rest := self._resting.get(each)) is None or rest.until <= now
                }
                if asked:
                    due_at = now + (wait_ms + OVERDUE_MS) / 1000
                    call = Ongoing(
                        self.cluster.ongoing, partial(self._request, leader, asked, wait_ms), self._bell.ring
                    )
                    self._under_way[leader] = _Request(asked, due_at, call)
                    self._asked_at = now

    def _doubt(self, now: float) -> None:
        """Leaders whose answers are overdue may lead no longer."""
        for leader, request in self._under_way.items():
            if request.due_at <= now and not request.call.is_done:
                late_s = now - request.call.began_at
                problem = TimeoutError(f"no answer from {leader.host}:{leader.port} for {late_s:.1f} s")
                for partition in request.asked:
                    self._rest(partition, problem)
                request.due_at = now + OVERDUE_MS / 1000

    def _note(
        self,
        without: Mapping[TopicPartition, KafkaError | None],
        positions: Mapping[TopicPartition, int],
        now: float,
    ) -> None:
        self._without = {}
        for partition, why in without.items():
            problem = why or self._look_problem
            if problem is not None:
                self._without[partition] = problem
                self._tell(partition, problem)
        for known in (self._resting, self._unknown_since):
            for partition in [each for each in known if each not in positions]:
                del known[partition]
        self._told &= positions.keys()
        for partition in list(self._unknown_since):
            if not isinstance(self._without.get(partition), UnknownTopicOrPartition):
                del self._unknown_since[partition]
        for partition, trouble in self._without.items():
            if isinstance(trouble, UnknownTopicOrPartition):
                self._unknown_since.setdefault(partition, now)

    def _look_for(self, without: Mapping[TopicPartition, KafkaError | None], now: float) -> None:
        topics = {partition.topic for partition in without} | self._stale
        if not topics:
            self._look_pause_s = RETRY_MS / 1000
            return
        look = self._look
        if look is not None and now - look.began_at < OVERDUE_MS / 1000:
            return
        # One that is overdue asks a broker that stands still: the next asks another, and whoever answers is heard.
        if look is not None or now >= self._look_at:
            self._stale.clear()
            self._look = Ongoing(self.cluster.ongoing, partial(self.cluster.refresh, sorted(topics)), self._bell.ring)

    def _looked(self, look: Ongoing[MetadataResponse]) -> None:
        self._look = None
        self._look_at = trio.current_time() + self._look_pause_s
        self._look_pause_s = min(2 * self._look_pause_s, LOOK_MS_MAX / 1000)
        self._look_problem = look.problem

    async def _request(self, leader: Address, asked: Mapping[TopicPartition, int], wait_ms: int) -> _Answer:
        cluster = self.cluster
        async with cluster.lent_connection(leader) as connection:
            refuse_older(connection)
            truncated, problems = await self._epochs.check(connection, asked)
            topics: dict[str, list[FetchPartition]] = {}
            for place, offset in asked.items():
                if place not in truncated and place not in problems:
                    row = FetchPartition(
                        partition=place.partition,
                        current_leader_epoch=self._epochs.of_leader(place),
                        fetch_offset=offset,
                        partition_max_bytes=self.partition_bytes,
                    )
                    topics.setdefault(place.topic, []).append(row)
            if not topics:
                return _Answer([], truncated, problems)
            request = FetchRequest(
                replica_id=CONSUMER,
                max_wait_ms=0 if truncated or problems else wait_ms,
                min_bytes=1,
                max_bytes=self.fetch_bytes,
                isolation_level=int(self.read_committed),
                topics=[FetchTopic(topic=name, partitions=rows) for name, rows in topics.items()],
            )
            answer = await connection.call(FETCH, request, timeout_ms=cluster.timeout_ms + wait_ms)
            if answer.error_code:
                raise error(answer.error_code, f"the broker at {leader.host}:{leader.port}")
            return _Answer(list(answer.partitions), truncated, problems)
