"""Fetches that wait for more bytes, with a session and without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla._core import FetchRow, PartitionToRead
    from ottla.broker.fetch.context import Context
    from ottla.broker.fetch.session import CachedPartition, FetchSession
    from ottla.replication.partition import Partition


class WaitingFetch:
    """A Fetch that waits until its partitions have `missing` bytes more, until something happens that it must be told,
    or until its deadline: then `again` reads and answers.

    Without a session it is registered itself with its partitions. In a session the session's partitions are
    registered, for longer than this request waits; they pass on what they hear.
    """

    __slots__ = ("_again", "_asked", "_context", "_missing", "_seen", "_session", "done")
    purgatory = "Fetch"

    def __init__(
        self, context: Context, missing: int, again: Callable[[], object], session: FetchSession | None = None
    ) -> None:
        self._context = context
        self._missing = missing
        self._again = again
        self._session = session
        #: What is asked of the partitions that this is registered with.
        self._asked: dict[Partition, PartitionToRead] = {}
        #: The bytes that a partition was seen to have.
        self._seen: dict[Partition, int] = {}
        self.done = False

    def park(self, asked: Sequence[PartitionToRead], rows: Sequence[FetchRow]) -> None:
        """Waits for partitions of which `rows` were read."""
        context = self._context

        def register(start: int, stop: int) -> None:
            for one, row in zip(asked[start:stop], rows[start:stop], strict=True):
                partition = self._noted(one, row)
                if partition is not None:
                    self._asked[partition] = one
                    partition.park(self, is_follower=context.is_follower)
                    if context.is_behind(one, row, partition):
                        self.moved(partition, one)

        self._park(len(asked), register)

    def park_in_session(self, live: Sequence[CachedPartition], rows: Sequence[FetchRow]) -> None:
        """The same for live partitions of the session."""
        assert self._session is not None
        context = self._context
        self._session.parked = self

        def register(start: int, stop: int) -> None:
            for entry, row in zip(live[start:stop], rows[start:stop], strict=True):
                partition = self._noted(entry.asked, row)
                if partition is not None:
                    entry.watch(partition)
                    if context.is_behind(entry.asked, row, partition):
                        self.moved(partition, entry.asked)

        self._park(len(live), register)

    def _park(self, count: int, register: Callable[[int, int], None]) -> None:
        context = self._context
        wait_ms = context.wait_ms
        if context.follower is not None:
            wait_ms = context.rooms.replicas.awaited.park(context.follower, self, wait_ms)
        context.rooms.deadlines.add(wait_ms, self)
        context.in_slices(count, register, lambda: None)

    def _noted(self, asked: PartitionToRead, row: FetchRow) -> Partition | None:
        """The partition, whose bytes are known from now on. None if there is nothing more to wait for."""
        if self.done:
            return None
        partition = self._context.rooms.replicas.partitions.get(asked.key)
        if partition is None:
            self.expire()
        elif self._context.bytes_min > 1:
            self._seen[partition] = row.length
        return partition

    def advanced(self, partition: Partition) -> None:
        """As a `Waiter` without a session."""
        asked = self._asked.get(partition)
        if asked is not None:
            self.moved(partition, asked)

    def moved(self, partition: Partition, asked: PartitionToRead) -> None:
        """A partition's high watermark, last stable offset, log start or role is another one; to a follower, its log's
        end.
        """
        if self.done:
            return
        if not partition.leader_error(asked.leader_epoch, self._context.reads_followers):
            if self._context.is_throttled(partition):
                # It has to wait, so it is no reason to answer. Else every append would be one, with nothing to send.
                return
            bound = self._context.bound(partition)
            if self._context.bytes_min > 1:
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
        """Answers with what there is."""
        if self.done:
            return
        self.done = True
        if self._session is not None:
            self._session.parked = None
        for partition in self._asked:
            partition.unpark(self)
        if self._context.follower is not None:
            self._context.rooms.replicas.awaited.unpark(self._context.follower, self)
        with self._context.call.resumed():
            self._again()
