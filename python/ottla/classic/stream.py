"""`KafkaStream`: messages of the partitions that one thread of a consumer owns, one after the other.

A message counts as consumed when the iterator hands it over. What is fetched and not handed over when a partition goes
to another member is dropped here, under the lock that handing over takes: the other member begins there.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Container, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from ottla import _core
from ottla.classic.errors import ConnectorClosed, ConsumerTimeout, InvalidMessage
from ottla.classic.loop import forks
from ottla.classic.serializing import Decoder
from ottla.errors import CorruptMessage
from ottla.kafka import TopicPartition

K = TypeVar("K")
V = TypeVar("V")


class MessageAndMetadata(Generic[K, V]):
    """A message and where it lies. `key` and `message` decode when they are asked for, and raise what the decoder
    does: the stream itself goes on.
    """

    __slots__ = ("_key_decoder", "_place", "_record", "_value_decoder")

    def __init__(
        self, place: TopicPartition, record: _core.Record, key_decoder: Decoder[K], value_decoder: Decoder[V]
    ) -> None:
        self._place = place
        self._record = record
        self._key_decoder = key_decoder
        self._value_decoder = value_decoder

    @property
    def topic(self) -> str:
        return self._place.topic

    @property
    def partition(self) -> int:
        return self._place.partition

    @property
    def offset(self) -> int:
        return self._record.offset

    @property
    def timestamp_ms(self) -> int:
        """-1 if it has none."""
        return self._record.timestamp_ms

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """What newer producers put beside key and value."""
        return list(self._record.headers)

    @property
    def key(self) -> K | None:
        key = self._record.key
        return None if key is None else self._key_decoder.from_bytes(key)

    @property
    def message(self) -> V | None:
        value = self._record.value
        return None if value is None else self._value_decoder.from_bytes(value)

    def __repr__(self) -> str:
        return f"MessageAndMetadata({self.topic}-{self.partition}@{self.offset})"


class Chunk(NamedTuple):
    """Batches of a partition as they were fetched: read from `start` on, and up to `end`."""

    place: TopicPartition
    start: int
    end: int
    data: memoryview


class KafkaStream(Generic[K, V]):
    """A blocking iterator, for one thread. It ends when the connector is shut down, and raises ConsumerTimeout after
    `consumer.timeout.ms` without a message; it may be read on then.
    """

    def __init__(self, key_decoder: Decoder[K], value_decoder: Decoder[V], timeout_ms: int, chunks_max: int) -> None:
        self._key_decoder = key_decoder
        self._value_decoder = value_decoder
        self._timeout_s = None if timeout_ms < 0 else timeout_ms / 1000
        self._chunks_max = chunks_max
        self._lock = threading.Lock()
        self._ready = threading.Condition(self._lock)
        self._chunks: deque[Chunk] = deque()
        self._chunk: Chunk | None = None
        self._place = TopicPartition("", 0)
        self._records: Iterator[_core.Record] = iter(())
        self._last: _core.Record | None = None
        """What was handed over last, of the chunk."""
        self._consumed: dict[TopicPartition, int] = {}
        self._problem: Exception | None = None
        self._closed = False
        self._forks = forks()
        self.has_room: Callable[[], None] = lambda: None
        """Called on the reading thread when there is room for more."""

    def __iter__(self) -> KafkaStream[K, V]:
        return self

    def __next__(self) -> MessageAndMetadata[K, V]:
        with self._lock:
            try:
                record = self._last = next(self._records)
            except StopIteration:
                pass
            except CorruptMessage as problem:
                raise self._damaged(problem) from None
            else:
                return MessageAndMetadata(self._place, record, self._key_decoder, self._value_decoder)
            record = self._next_of_another()
        self.has_room()
        return MessageAndMetadata(self._place, record, self._key_decoder, self._value_decoder)

    def take(self, most: int) -> list[MessageAndMetadata[K, V]]:
        """The next message and those behind it that are here already, `most` at most. Waits and raises as the iterator;
        empty once the connector is shut down.
        """
        found = list(itertools.islice(self, 1))
        with self._lock:
            while found and len(found) < most:
                try:
                    record = self._last = next(self._records)
                except StopIteration:
                    break
                except CorruptMessage as problem:  # the next call raises it
                    self._damaged(problem)
                    break
                found.append(MessageAndMetadata(self._place, record, self._key_decoder, self._value_decoder))
        return found

    def _next_of_another(self) -> _core.Record:
        """The first message of the next chunk that has any. With the lock, which is given up while it waits."""
        if self._forks != forks():
            raise ConnectorClosed("the stream was made before a fork; make another connector")
        while True:
            self._fold(through=True)
            if not self._ready.wait_for(self._is_ready, self._timeout_s):
                raise ConsumerTimeout(f"no message within {1000 * (self._timeout_s or 0):g} ms")
            if self._closed:
                raise StopIteration
            if not self._chunks:
                problem, self._problem = self._problem, None
                assert problem is not None
                raise problem
            chunk = self._chunk = self._chunks.popleft()
            self._place = chunk.place
            self._records = _core.RecordReader(chunk.data, start_offset=chunk.start)
            try:
                record = self._last = next(self._records)
            except StopIteration:  # markers of transactions, or what was compacted away
                continue
            except CorruptMessage as problem:
                raise self._damaged(problem) from None
            return record

    def _damaged(self, problem: CorruptMessage) -> InvalidMessage:
        if isinstance(problem, InvalidMessage):
            return problem
        assert self._chunk is not None
        offset = self._chunk.start if self._last is None else self._last.offset + 1
        found = InvalidMessage(f"{self._place} from offset {offset} on: {problem}")
        self._records = _Damaged(found)
        return found

    def _is_ready(self) -> bool:
        return bool(self._chunks or self._problem or self._closed)

    def _fold(self, *, through: bool = False) -> None:
        """Remembers how far the chunk was consumed; `through` if to its end, beyond its last message."""
        if self._chunk is None:
            return
        if through:
            self._consumed[self._place] = self._chunk.end
            self._chunk, self._last, self._records = None, None, iter(())
        elif self._last is not None:
            self._consumed[self._place] = self._last.offset + 1

    # What follows is called by the connector's loop.

    @property
    def is_full(self) -> bool:
        return len(self._chunks) >= self._chunks_max

    def put(self, chunk: Chunk) -> None:
        with self._lock:
            self._chunks.append(chunk)
            self._ready.notify()

    def fail(self, problem: Exception) -> None:
        """The reader gets what came before, then this."""
        with self._lock:
            self._problem = problem
            self._ready.notify()

    def start(self, place: TopicPartition, offset: int) -> None:
        """A partition is read here from now on."""
        with self._lock:
            self._consumed[place] = offset

    def consumed(self) -> dict[TopicPartition, int]:
        """The next offset of each partition."""
        with self._lock:
            self._fold()
            return dict(self._consumed)

    def drop(self, places: Container[TopicPartition]) -> dict[TopicPartition, int]:
        """Partitions are not read here any more; gives the next offset of each."""
        with self._lock:
            self._fold()
            if self._chunk is not None and self._place in places:
                self._chunk, self._last, self._records = None, None, iter(())
            self._chunks = deque(chunk for chunk in self._chunks if chunk.place not in places)
            return {place: self._consumed.pop(place) for place in list(self._consumed) if place in places}

    def close(self) -> None:
        """Its reader is told the end, after what it has."""
        with self._lock:
            self._closed = True
            self._ready.notify_all()


class _Damaged(Iterator[_core.Record]):
    """Raises without end: who went on after it would lose messages."""

    def __init__(self, problem: InvalidMessage) -> None:
        self._problem = problem

    def __next__(self) -> _core.Record:
        raise self._problem


AnyStream = KafkaStream[Any, Any]
