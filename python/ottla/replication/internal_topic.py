"""An internal topic: where a coordinator keeps its state, one partition per share of the groups (or transactional ids).

Whoever leads a partition is the coordinator of the keys that belong to it. It reads the partition once when it becomes
leader, answers from memory after that, and puts every change into the log before it tells anyone: an append is done
only when the high watermark, and with one replica the disk, covers it. The leader epoch is the coordinator's epoch: an
append for an epoch that is no longer the partition's is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import trio

from ottla import _core
from ottla.errors import (
    MessageTooLarge,
    NotLeaderOrFollower,
    RecordListTooLarge,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from ottla.errors import error as kafka_error
from ottla.kafka import ACKS_ALL, NO_EPOCH
from ottla.net.guard import failed
from ottla.replication.appends import SafeAppends
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla._core import BatchInfo, Log
    from ottla.net import Server
    from ottla.replication.delayed import Deadlines
    from ottla.replication.replicas import Replicas
    from ottla.replication.roles import RoleListener
    from ottla.replication.turn import Turn

#: How much is read and decoded at once, at most: about 2,000 records, and a fraction of a millisecond with the
#: interpreter.
LOAD_BYTES_MAX = 256 * 1024

#: What the appends of a turn put into one batch at most; the first may be larger.
TURN_BYTES = 64 * 1024

#: Errors of a shared batch that only one of its parts may be to blame for: its size, or a mistake that the records of
#: one brought about. Nothing of the batch is in the log then.
_OF_ONE_PART = frozenset({MessageTooLarge.code, RecordListTooLarge.code, UnknownServerError.code})

NewRecords = list[tuple[bytes, bytes | None]]
"""Key and value of each record; None is a tombstone."""


@dataclass(frozen=True, slots=True)
class LoadedBatch:
    """A batch as it is in the log."""

    info: BatchInfo
    #: (offset, key, value); of a control batch none
    records: list[tuple[int, bytes | None, bytes | None]]
    #: of a control batch that ends a transaction: whether it committed
    is_commit: bool | None


class InternalTopic:
    """One internal topic as its coordinator uses it. All methods are called from the loop's thread.

    `partition_count` is asked for how many partitions there are (or will be); `create` makes the topic and returns when
    it has leaders. `turn` is the hub's, for `append_shared`. `load_bytes`: how much is read at once. `required_acks`:
    with 0 or 1 an append is done when it is in the log, without the other replicas and the disk.
    """

    def __init__(
        self,
        name: str,
        *,
        replicas: Replicas,
        server: Server,
        deadlines: Deadlines,
        partition_count: Callable[[], int],
        create: Callable[[], Awaitable[None]],
        append_timeout_ms: int,
        compression: str = "none",
        turn: Turn | None = None,
        load_bytes: int = LOAD_BYTES_MAX,
        required_acks: int = ACKS_ALL,
    ) -> None:
        self.name = name
        self._load_bytes = min(load_bytes, LOAD_BYTES_MAX)
        self._is_safe_at_once = required_acks in (0, 1)
        self.append_timeout_ms = append_timeout_ms
        self.compression = compression
        self.partition_count = partition_count
        self._create = create
        self._replicas = replicas
        self._appends = SafeAppends(replicas, server, deadlines)
        self._turn = turn
        #: What this turn appends, by partition.
        self._shared: dict[int, _Shared] = {}

    def subscribe(self, listener: RoleListener) -> None:
        """Tells `listener` of every change of role from now on, and at once of the partitions that are led already."""
        self._replicas.role_listeners[self.name] = listener
        for (topic, index), partition in self._replicas.partitions.items():
            if topic == self.name and partition.is_leader:
                listener.elected(index, partition.term)

    async def ensure(self) -> None:
        """Creates the topic if it is not there; returns when it has leaders. Raises KafkaError if that is not to be."""
        await self._create()

    def partition_for(self, key: str) -> int:
        """The partition whose leader coordinates `key`."""
        return partition_for(key, self.partition_count())

    def term(self, index: int) -> int | None:
        """The term in which this broker leads a partition, by its first leader epoch; None if it does not lead."""
        partition = self._replicas.partitions.get((self.name, index))
        return partition.term if partition is not None and partition.is_leader else None

    # --- appending ---

    async def append(self, index: int, term: int, records: NewRecords, producer: tuple[int, int] | None = None) -> int:
        """Appends records as one batch; returns its last offset when it is safe (see above).

        `producer` (id and epoch) makes the batch a part of that producer's transaction.

        Raises:
            NotLeaderOrFollower: the partition is in another leader epoch, or got into one meanwhile.
            NotEnoughReplicas, NotEnoughReplicasAfterAppend: fewer in-sync replicas than min.insync.replicas; in the
                second case, and after RequestTimedOut, the records are in the log and may yet become safe.
            MessageTooLarge: the batch is larger than max.message.bytes.
            UnknownServerError: a mistake of ours, which is logged.
        """
        done = trio.Event()
        outcome = [0, -1]

        def appended(error: int, last_offset: int) -> None:
            outcome[:] = error, last_offset
            done.set()

        self.append_then(index, term, records, appended, producer)
        await done.wait()
        error, last_offset = outcome
        if error:
            raise kafka_error(error, f"{self.name}-{index}")
        return last_offset

    def append_then(
        self,
        index: int,
        term: int,
        records: NewRecords,
        done: Callable[[int, int], None],
        producer: tuple[int, int] | None = None,
    ) -> None:
        """The same without a task: `done(error code, last offset)` is called once, perhaps before this returns.

        Calls of one partition reach the log in their order. The offset is -1 where nothing was appended.
        """
        if index in self._shared:
            self._write_shared(index)
        partition = self._replicas.partitions.get((self.name, index))
        if partition is None:
            return done(UnknownTopicOrPartition.code, -1)
        if not partition.is_leader or partition.term != term:
            return done(partition.leader_error(NO_EPOCH) or NotLeaderOrFollower.code, -1)
        producer_id, producer_epoch = producer or (-1, -1)
        return self._appends.append(
            partition,
            lambda token: partition.log.append_records(
                records,
                partition.leader_epoch,
                token,
                compression=self.compression,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
            ),
            done,
            self.append_timeout_ms,
            is_safe_at_once=self._is_safe_at_once,
        )

    def append_shared(self, index: int, term: int, records: NewRecords, done: Callable[[int, int], None]) -> None:
        """The same for small appends that come by the dozen. Those of one turn of the hub and one partition are one
        batch, which is written at its end. Outside of a turn each is written alone.
        """
        if self._turn is None or not self._turn.is_open:
            return self.append_then(index, term, records, done)
        shared = self._shared.get(index)
        size = sum(len(key) + len(value or b"") for key, value in records)
        if shared is not None and (shared.term != term or shared.size_bytes + size > TURN_BYTES):
            self._write_shared(index)
            shared = None
        if shared is None:
            if not self._shared:
                self._turn.at_end(self._write_all_shared)
            shared = self._shared[index] = _Shared(term)
        shared.add(records, size, done)
        return None

    def _write_all_shared(self, _: object) -> None:
        for index in tuple(self._shared):
            try:
                self._write_shared(index)
            except BaseException as error:
                failed(f"the append of a turn to {self.name}-{index}", error)

    def _write_shared(self, index: int) -> None:
        shared = self._shared.pop(index)

        def appended(error: int, last_offset: int) -> None:
            if error in _OF_ONE_PART and len(shared.parts) > 1:
                # Each gets what it would have got alone.
                for part in shared.parts:
                    self.append_then(index, shared.term, part.records, part.appended)
            else:
                shared.appended(error, last_offset)

        self.append_then(index, shared.term, shared.records, appended)

    # --- reading ---

    def load(self, index: int) -> Loading:
        """The batches of a partition from its start to what is its end now, to be iterated with `async for`.

        The iteration raises NotLeaderOrFollower when this broker's term as its leader ends meanwhile.
        """
        partition = self._replicas.partitions.get((self.name, index))
        if partition is None:
            raise UnknownTopicOrPartition(f"{self.name}-{index}")
        return Loading(partition, self._load_bytes)


class Loading:
    """An iteration over a partition's batches. The disk is waited for on a thread, and the loop runs in between."""

    def __init__(self, partition: Partition, bytes_at_once: int) -> None:
        self._partition = partition
        self._bytes_at_once = bytes_at_once
        self._term = partition.term
        self._next = partition.log.start_offset
        self._end = partition.log.end_offset
        self._batches: deque[LoadedBatch] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LoadedBatch:
        while not self._batches:
            if self._next >= self._end:
                raise StopAsyncIteration
            await self._read()
        return self._batches.popleft()

    async def _read(self) -> None:
        partition = self._partition
        loaded = await trio.to_thread.run_sync(_read_batches, partition.log, self._next, self._bytes_at_once)
        if partition.term != self._term or not partition.is_leader:
            raise NotLeaderOrFollower(f"{partition} has another role since its loading began")
        if not loaded:
            self._next = self._end  # all that was left has been compacted away
        for batch in loaded:
            if batch.info.base_offset < self._end:
                self._batches.append(batch)
            self._next = batch.info.last_offset + 1


def _read_batches(log: Log, offset: int, bytes_max: int) -> list[LoadedBatch]:
    """Some whole batches from `offset` on, at least one; none at the end of the log."""
    piece = log.read(offset, bytes_max).slice
    if piece is None:
        return []
    loaded = []
    for info, records in _core.decode_batches(piece.read()):
        if info.last_offset < offset:
            continue
        if info.is_control:
            loaded.append(LoadedBatch(info, [], _is_commit(records)))
        else:
            loaded.append(LoadedBatch(info, records, None))
    return loaded


def _is_commit(records: Sequence[tuple[int, bytes | None, bytes | None]]) -> bool | None:
    """What a control batch says (KIP-98): its one key is a version and a type, each int16; 0 aborts, 1 commits."""
    if not records or records[0][1] is None or len(records[0][1]) < 4:
        return None
    return {0: False, 1: True}.get(int.from_bytes(records[0][1][2:4], "big", signed=True))


class _Shared:
    """One batch for several appends, each of which is answered with the last offset of its own records."""

    __slots__ = ("parts", "size_bytes", "term")

    def __init__(self, term: int) -> None:
        self.term = term
        self.size_bytes = 0
        self.parts: list[_Part] = []

    @property
    def records(self) -> NewRecords:
        return [record for part in self.parts for record in part.records]

    def add(self, records: NewRecords, size_bytes: int, done: Callable[[int, int], None]) -> None:
        self.size_bytes += size_bytes
        self.parts.append(_Part(records, done))

    def appended(self, error: int, last_offset: int) -> None:
        end = 0
        before = last_offset - sum(len(part.records) for part in self.parts)
        for part in self.parts:
            end += len(part.records)
            part.appended(error, -1 if last_offset < 0 else before + end)


@dataclass(frozen=True, slots=True)
class _Part:
    """One append of a shared batch, and who is told of it."""

    records: NewRecords
    done: Callable[[int, int], None]

    def appended(self, error: int, last_offset: int) -> None:
        """What the one who waits makes of it is not the business of the other parts."""
        try:
            self.done(error, last_offset)
        except BaseException as mistake:
            failed("the answer to an append to an internal topic", mistake)


def partition_for(key: str, partition_count: int) -> int:
    """Java's `Utils.abs(key.hashCode()) % count`: it decides who coordinates, so brokers of both kinds must agree."""
    code = _core.java_hash(key.encode("utf-16-be", "surrogatepass"))
    # The absolute value of -2**31 is more than Java's int can hold.
    return 0 if code == -(1 << 31) else abs(code) % partition_count
