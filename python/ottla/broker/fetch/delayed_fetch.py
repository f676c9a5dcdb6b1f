"""A Fetch from its first reading to its answer (Kafka's DelayedFetch), with a session and without one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ottla.broker.fetch.read import Reading
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla._core import FetchRow, PartitionToRead
    from ottla.broker.fetch.context import Context
    from ottla.broker.fetch.result import FetchResult
    from ottla.replication.partition import Partition


class DelayedFetch(ABC):
    """Reads, and answers if there is enough. Otherwise it waits until its partitions have as many bytes more as are
    missing, until something happens that the client must be told, or until its deadline; then it reads once more, and
    answers whatever that finds.
    """

    __slots__ = ("_missing", "_seen", "context", "done", "is_again")
    purgatory = "Fetch"

    def __init__(self, context: Context) -> None:
        self.context = context
        #: It has waited: what it reads now is answered.
        self.is_again = False
        #: It waits no more.
        self.done = False

    @abstractmethod
    def asked(self) -> Sequence[PartitionToRead]:
        """The partitions to read now."""

    @abstractmethod
    def answer(self, result: FetchResult) -> None:
        """Answers with what was read."""

    @abstractmethod
    def register(self, start: int, stop: int, rows: Sequence[FetchRow]) -> None:
        """Has the partitions from place `start` to before `stop`, of which `rows` were read, tell when they move."""

    @abstractmethod
    def unregister(self) -> None:
        """Nobody has to tell any more."""

    def start(self) -> None:
        Reading(self.context, self.asked(), self.took, is_again=self.is_again).start()

    def took(self, result: FetchResult) -> None:
        """Goes on with what was read."""
        missing = self.context.bytes_min - result.size
        if missing <= 0 or result.is_due or not self.may_wait:
            return self.answer(result)
        return self.wait(result, missing)

    @property
    def may_wait(self) -> bool:
        return not self.is_again and self.context.fetch.max_wait_ms > 0

    def wait(self, result: FetchResult, missing: int) -> None:
        """Waits until there are `missing` bytes more than in `result`."""
        self._missing = missing
        #: The bytes that a partition was seen to have.
        self._seen: dict[Partition, int] = {}
        context, rows = self.context, result.rows
        wait_ms = context.wait_ms
        if context.follower is not None:
            wait_ms = context.rooms.replicas.awaited.park(context.follower, self, wait_ms)
        context.rooms.deadlines.add(wait_ms, self)
        context.in_slices(len(rows), lambda start, stop: self.register(start, stop, rows), lambda: None)

    def noted(self, asked: PartitionToRead, row: FetchRow) -> Partition | None:
        """The partition, whose bytes are known from now on. None if there is nothing more to wait for."""
        if self.done:
            return None
        partition = self.context.rooms.replicas.partitions.get(asked.key)
        if partition is None:
            self.expire()
        elif self.context.bytes_min > 1:
            self._seen[partition] = row.length
        return partition

    def moved(self, partition: Partition, asked: PartitionToRead) -> None:
        """A partition's high watermark, last stable offset, log start or role is another one; to a follower, its log's
        end.
        """
        if self.done:
            return
        if not partition.leader_error(asked.leader_epoch, self.context.reads_followers):
            if self.context.is_throttled(partition):
                # It has to wait, so it is no reason to answer. Else every append would be one, with nothing to send.
                return
            bound = self.context.bound(partition)
            if self.context.bytes_min > 1:
                seen = self._seen.get(partition, 0)
                try:
                    read = partition.log.read_cached(asked.offset, asked.bytes_max, bound, True)
                except KafkaError:
                    read = None
                if read is None or read.goes_on:
                    self._missing = 0  # the answer will say what it is, or the bytes grow no more
                else:
                    self._missing -= read.length - seen
                    self._seen[partition] = read.length
                if self._missing > 0:
                    return
            elif bound <= asked.offset <= partition.log.end_offset:
                return
        self.expire()

    def expire(self) -> None:
        """Ends the wait: answers with what there is."""
        if self.done:
            return
        self.done = self.is_again = True
        self.unregister()
        if self.context.follower is not None:
            self.context.rooms.replicas.awaited.unpark(self.context.follower, self)
        with self.context.call.resumed():
            self.start()
