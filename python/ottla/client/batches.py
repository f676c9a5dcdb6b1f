"""Batches of a producer on their way: what a partition has waiting and under way, in which order and sequence.

State without I/O. The rules by which nothing is doubled or overtaken (KIP-98, KIP-360):

- A batch gets its sequence when it is first sent, and keeps it when it is sent again.
- Several batches of a partition may be under way, in the order of their sequences, on one connection. When one comes
  back, no other is sent until all that are under way have their answers; then they are sent again, in order.
- A broker that knows nothing of a producer takes whatever sequence comes first. So several batches are under way only
  where one was acknowledged before: a leader that has just begun may refuse the first, and would take the second.
- A broker that does not know the sequence of the first batch that is not acknowledged has lost what it knew of this
  producer, or never got a batch that was given up. The batch was not appended then, so the partition begins again: at
  sequence 0 of the next epoch. A batch whose answer was lost is first sent again as it was.
"""

import struct
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import trio

from ottla import _core
from ottla.errors import KafkaError
from ottla.kafka import TopicPartition

#: Where a batch of format 2 has its checksum, and its producer's id, epoch and first sequence.
CRC, CHECKED, PRODUCER, RECORD_COUNT = 17, 21, 43, 57
EPOCH_MAX = 0x7FFF
SEQUENCE_MASK = 0x7FFFFFFF
"""After 2**31 - 1 comes 0."""


class Identity(NamedTuple):
    """The producer as brokers know it."""

    producer_id: int
    epoch: int


NOBODY = Identity(-1, -1)


class Delivered(NamedTuple):
    """Where a record is. `offset` is -1 if the broker did not say: with acks=0, or when it had forgotten where the
    first of several attempts went. `timestamp_ms` is the record's own, or the broker's where the topic has its.
    """

    partition: TopicPartition
    offset: int
    timestamp_ms: int


class Batch:
    """Records of one partition on their way. `builder` is there while it is open, `data` afterwards."""

    __slots__ = (
        "append_time_ms",
        "base_offset",
        "born",
        "builder",
        "bytes",
        "data",
        "failure",
        "is_numbered",
        "is_over",
        "number",
        "over",
        "partition",
        "problem",
        "receipts",
        "records",
        "sequence",
    )

    def __init__(self, partition: TopicPartition, builder: _core.BatchBuilder | None, *, is_numbered: bool) -> None:
        self.partition = partition
        self.builder = builder
        self.born = trio.current_time()
        self.records = 0
        self.bytes = 0
        self.data = b""
        self.number = 0
        """Its place among the partition's."""
        self.is_numbered = is_numbered
        """It gets a sequence here; others have one of their own, or none."""
        self.sequence: int | None = None
        self.problem: Exception | None = None
        """Why it could not be delivered when it was last tried."""
        self.receipts = 0
        self.is_over = False
        self.over: trio.Event | None = None
        self.failure: KafkaError | None = None
        self.base_offset = -1
        self.append_time_ms = -1

    def finish(self) -> None:
        """It takes no more records."""
        assert self.builder is not None
        self.data = self.builder.finish()
        self.builder = None

    def end(self, failure: KafkaError | None = None) -> None:
        """It was delivered, or will never be."""
        self.failure = failure
        self.is_over = True
        if self.over is not None:
            self.over.set()


class Receipt:
    """Of a record that a producer has taken: `await receipt.wait()` says where it is."""

    __slots__ = ("_batch", "_index", "_timestamp_ms")

    def __init__(self, batch: Batch, timestamp_ms: int) -> None:
        self._batch = batch
        self._index = batch.records - 1
        self._timestamp_ms = timestamp_ms
        batch.receipts += 1

    @property
    def is_over(self) -> bool:
        """Whether `wait` would return at once."""
        return self._batch.is_over

    async def wait(self) -> Delivered:
        """Waits until the record is acknowledged. Any number of tasks may wait.

        Raises:
            KafkaError: it cannot be delivered.
        """
        batch = self._batch
        if not batch.is_over:
            if batch.over is None:
                batch.over = trio.Event()
            await batch.over.wait()
        if batch.failure is not None:
            # A fresh one for each: one object raised in many tasks would mix their tracebacks.
            raise type(batch.failure)(*batch.failure.args)
        offset = batch.base_offset + self._index if batch.base_offset >= 0 else -1
        return Delivered(
            batch.partition, offset, batch.append_time_ms if batch.append_time_ms >= 0 else self._timestamp_ms
        )


def numbered(data: bytes, identity: Identity, sequence: int) -> bytes:
    """A batch with this producer and first sequence in its header."""
    checked = b"".join((data[CHECKED:PRODUCER], struct.pack(">qhi", *identity, sequence), data[RECORD_COUNT:]))
    return b"".join((data[:CRC], _core.crc32c(checked).to_bytes(4, "big"), checked))


class Queue:
    """The closed batches of one partition. `waiting` are to be sent, `flying` are under way."""

    __slots__ = (
        "_back",
        "_begins_again",
        "_count",
        "_known",
        "flying",
        "identity",
        "place",
        "retry_at",
        "sequence",
        "waiting",
    )

    def __init__(self) -> None:
        self.waiting: deque[Batch] = deque()
        self.flying: list[Batch] = []
        self.place: object = None
        """Where those that fly were sent."""
        self.retry_at = 0.0
        self.identity = NOBODY
        self.sequence = 0
        """Of the next batch that gets one."""
        self._back: list[Batch] = []
        self._begins_again = False
        self._count = 0
        self._known: tuple[object, Identity] | None = None
        """Who has acknowledged a batch of which identity last."""

    def add(self, batch: Batch) -> None:
        batch.number = self._count
        self._count += 1
        self.waiting.append(batch)

    def may_send(self, place: object, identity: Identity, now: float) -> bool:
        """Whether the first that waits may be sent there now."""
        if not self.waiting or self._back or now < self.retry_at:
            return False
        if not self.flying:
            return True
        if not self.waiting[0].is_numbered or self.place != place or self.identity != identity:
            return False
        return self._known == (place, identity)

    def take(self, place: object, identity: Identity) -> Batch:
        """The first that waits is sent there."""
        batch = self.waiting.popleft()
        if batch.is_numbered and batch.sequence is None:
            if self.identity != identity:
                self.identity, self.sequence = identity, 0
            batch.sequence = self.sequence
            batch.data = numbered(batch.data, identity, batch.sequence)
            self.sequence = self.sequence + batch.records & SEQUENCE_MASK
        self.flying.append(batch)
        self.place = place
        return batch

    def is_first(self, batch: Batch) -> bool:
        """Whether everything before a batch that flies is decided."""
        return self.flying[0] is batch and all(each.number > batch.number for each in self._back)

    def decided(self, batch: Batch, *, is_acknowledged: bool = True) -> bool:
        """A batch that flew is acknowledged, or given up. As `returned`."""
        self.flying.remove(batch)
        if is_acknowledged:
            self._known = self.place, self.identity
        return self._landed()

    def returned(self, batch: Batch, *, retry_at: float = 0.0, begins_again: bool = False) -> bool:
        """A batch that flew is to be sent again. Whether the partition begins again now, for which the producer needs
        another identity than the queue's.
        """
        self.flying.remove(batch)
        self._back.append(batch)
        self.retry_at = max(self.retry_at, retry_at)
        self._begins_again |= begins_again
        return self._landed()

    def _landed(self) -> bool:
        if self.flying or not self._back:
            return False
        self.waiting.extendleft(sorted(self._back, key=lambda batch: batch.number, reverse=True))
        self._back.clear()
        begins_again, self._begins_again = self._begins_again, False
        if begins_again:
            for batch in self.waiting:
                batch.sequence = None
        return begins_again

    def __iter__(self) -> Iterator[Batch]:
        """All of them."""
        yield from self.flying
        yield from self._back
        yield from self.waiting
