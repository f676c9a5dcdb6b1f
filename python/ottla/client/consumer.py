"""Records in: from partitions that are named, at places that are named. No groups, no commits.

Each `poll` asks every leader once for all partitions it leads, without fetch sessions, and gives whatever came.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

import trio

from ottla import _core
from ottla.client.cluster import Address, Cluster
from ottla.client.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from ottla.client.offsets import list_offsets
from ottla.errors import CorruptMessage, KafkaError, RemoteProtocolError, UnknownTopicOrPartition, error
from ottla.kafka import CONSUMER, EARLIEST, LATEST, TopicPartition

WAIT_MS = 500
FETCH_BYTES = 16 * 1024 * 1024
PARTITION_BYTES = 1024 * 1024
RETRY_MS = 100
GONE_MS = 3_000
ABORT = 0


@dataclass(frozen=True, slots=True)
class At:
    """The first record at or after this time in milliseconds; the end if there is none."""

    timestamp_ms: int


Start = int | At
"""An offset, `EARLIEST`, `LATEST`, or `At` a time."""


class Record(NamedTuple):
    """One record as it was consumed. `timestamp_ms` is -1 if it has none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Consumer:
    """`consumer = Consumer(cluster); await consumer.assign({TopicPartition("t", 0): EARLIEST}); await consumer.poll()`.

    `positions` has the next offset of each partition and may be changed between polls.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        read_committed: bool = False,
        wait_ms: int = WAIT_MS,
        fetch_bytes: int = FETCH_BYTES,
        partition_bytes: int = PARTITION_BYTES,
        gone_ms: int = GONE_MS,
    ) -> None:
        """A poll waits for the first record at most `wait_ms`; sizes are those of one answer and of one partition in
        it. A partition that brokers have not known for `gone_ms` is gone; one that starts may not know it yet.
        """
        self.cluster = cluster
        self.read_committed = read_committed
        self.wait_ms = wait_ms
        self.fetch_bytes = fetch_bytes
        self.partition_bytes = partition_bytes
        self.gone_ms = gone_ms
        self.positions: dict[TopicPartition, int] = {}
        self._unknown_since: float | None = None

    async def assign(self, starts: Mapping[TopicPartition, Start]) -> None:
        """Reads these partitions from now on, and no others.

        Raises:
            KafkaError: a partition does not exist, or its leader cannot be asked.
        """
        times: dict[TopicPartition, int] = {}
        for partition, start in starts.items():
            if isinstance(start, At):
                times[partition] = start.timestamp_ms
            elif start < 0:
                times[partition] = start
        found = await list_offsets(self.cluster, times, read_committed=self.read_committed)
        late = {partition: LATEST for partition, each in found.items() if each.offset < 0}
        found |= await list_offsets(self.cluster, late, read_committed=self.read_committed)
        self.positions = {
            partition: found[partition].offset if partition in found else int(starts[partition])  # type: ignore[arg-type]
            for partition in starts
        }

    async def ends(self) -> dict[TopicPartition, int]:
        """Where each assigned partition ends now: its high watermark, or with `read_committed` its last stable
        offset.
        """
        asked = dict.fromkeys(self.positions, LATEST)
        found = await list_offsets(self.cluster, asked, read_committed=self.read_committed)
        return {partition: each.offset for partition, each in found.items()}

    async def poll(self) -> list[Record]:
        """The next records, those of a partition in order; empty if none came within `wait_ms`.

        Leaders that moved or cannot be reached are looked up and tried again by the next poll.

        Raises:
            OffsetOutOfRange: a position is not (or no longer) in its partition; set another one.
            UnknownTopicOrPartition: a partition is gone.
            CorruptMessage: the batch at the position of a partition is damaged. What is whole before it was given.
            KafkaError: what else a broker answers and is not worth a retry.
        """
        answers: list[tuple[TopicPartition, _core.FetchedPartition]] = []
        try:
            groups = await self.cluster.by_leader(self.positions)
        except (KafkaError, OSError, RemoteProtocolError) as problem:
            if isinstance(problem, KafkaError) and not problem.retriable:
                raise
            if isinstance(problem, UnknownTopicOrPartition) and self._is_gone():
                raise
            await trio.sleep(RETRY_MS / 1000)
            return []
        self._unknown_since = None
        refusals: list[KafkaError] = []
        async with trio.open_nursery() as nursery:
            for leader, partitions in groups.items():
                nursery.start_soon(self._fetch, leader, partitions, answers, refusals)
        # Errors first: records that were decoded before one is raised would be lost.
        if refusals:
            raise refusals[0]
        stale: set[str] = set()
        for partition, answer in answers:
            if answer.error_code:
                failure = error(answer.error_code, f"{partition} at offset {self.positions[partition]}")
                if not failure.retriable:
                    raise failure
                stale.add(partition.topic)
        whole = [
            (partition, answer, _batches(partition, answer)) for partition, answer in answers if not answer.error_code
        ]
        records = [
            record for partition, answer, batches in whole for record in self._records(partition, answer, batches)
        ]
        if stale:
            self.cluster.forget(stale)
            await trio.sleep(RETRY_MS / 1000)
        return records

    async def __aiter__(self) -> AsyncIterator[Record]:
        """All records from here on, without end."""
        while True:
            for record in await self.poll():
                yield record

    async def _fetch(
        self,
        leader: Address,
        partitions: list[TopicPartition],
        answers: list[tuple[TopicPartition, _core.FetchedPartition]],
        refusals: list[KafkaError],
    ) -> None:
        topics: dict[str, list[FetchPartition]] = {}
        for topic, number in partitions:
            position = self.positions[TopicPartition(topic, number)]
            topics.setdefault(topic, []).append(
                FetchPartition(partition=number, fetch_offset=position, partition_max_bytes=self.partition_bytes)
            )
        request = FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=self.wait_ms,
            min_bytes=1,
            max_bytes=self.fetch_bytes,
            isolation_level=int(self.read_committed),
            topics=[FetchTopic(topic=name, partitions=asked) for name, asked in topics.items()],
        )
        try:
            connection = await self.cluster.connection(leader)
            answer = await connection.call(FETCH, request, timeout_ms=self.cluster.timeout_ms + self.wait_ms)
        except KafkaError as problem:  # of the connection: this broker does not take us
            refusals.append(problem)
            return
        except (OSError, RemoteProtocolError):
            self.cluster.forget(topics)
            await trio.sleep(RETRY_MS / 1000)
            return
        answers += [(TopicPartition(each.topic, each.partition), each) for each in answer.partitions]

    def _is_gone(self) -> bool:
        """Whether a partition has been unknown for so long that it is gone."""
        now = trio.current_time()
        if self._unknown_since is None:
            self._unknown_since = now
        return now - self._unknown_since >= self.gone_ms / 1000

    def _records(
        self, partition: TopicPartition, answer: _core.FetchedPartition, batches: list[_core.BatchInfo]
    ) -> Iterator[Record]:
        """The answer's records from the position on; moves it."""
        data = answer.records or memoryview(b"")
        aborted = _Aborted(answer.aborted_transactions or []) if self.read_committed else None
        for batch in batches:
            start, self.positions[partition] = self.positions[partition], batch.last_offset + 1
            whole = data[batch.position : batch.position + batch.size_bytes]
            if aborted is not None and aborted.drops(batch, whole):
                continue
            for each in _core.RecordReader(whole, start_offset=start, check_crc=False):
                yield Record(*partition, each.offset, each.timestamp_ms, each.key, each.value, each.headers)


def _batches(partition: TopicPartition, answer: _core.FetchedPartition) -> list[_core.BatchInfo]:
    """The batches of an answer up to the first that is damaged. Raises CorruptMessage if that is the first of all."""
    data = answer.records or memoryview(b"")
    try:
        return _core.read_batches(data)
    except CorruptMessage as problem:
        whole: list[_core.BatchInfo] = []
        offset: int | str = "unknown"
        why = str(problem)
        with suppress(CorruptMessage):
            for batch in _core.read_batches(data, check_crc=False):
                offset = batch.base_offset
                try:
                    _core.read_batches(data[batch.position : batch.position + batch.size_bytes])
                except CorruptMessage as found:
                    why = str(found)
                    break
                whole.append(batch)
        if whole:
            return whole
        raise CorruptMessage(f"{partition}: the batch at offset {offset} is damaged: {why}") from None


class _Aborted:
    """Which batches of an answer belong to aborted transactions: of a producer from a first offset to its abort
    marker.
    """

    def __init__(self, transactions: list[tuple[int, int]]) -> None:
        self._later = sorted(transactions, key=itemgetter(1), reverse=True)
        self._now: set[int] = set()

    def drops(self, batch: _core.BatchInfo, data: memoryview) -> bool:
        while self._later and self._later[-1][1] <= batch.last_offset:
            self._now.add(self._later.pop()[0])
        if batch.is_control:
            (marker,) = _core.RecordReader(data, with_control=True)
            if int.from_bytes((marker.key or b"")[2:4], "big") == ABORT:
                self._now.discard(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in self._now


__all__ = ["EARLIEST", "LATEST", "At", "Consumer", "Record", "Start"]
