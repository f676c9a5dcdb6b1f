"""A Fetch that names everything it wants: without a session, or the first of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker.fetch import incremental, old
from ottla.broker.fetch.delayed_fetch import DelayedFetch
from ottla.broker.fetch.session import INITIAL_EPOCH, NO_SESSION
from ottla.slices import are_few
from ottla.wire.k01_fetch import BATCHES_SINCE

if TYPE_CHECKING:
    from ottla._core import FetchRow, PartitionToRead
    from ottla.broker.fetch.context import Context
    from ottla.broker.fetch.result import FetchResult
    from ottla.replication.partition import Partition


def serve(context: Context) -> None:
    fetch = context.fetch
    if fetch.session_id != NO_SESSION:
        # A client that asks for everything has done with its session.
        context.rooms.fetch_sessions.remove(fetch.session_id)
    count = len(fetch)
    if are_few(count):
        return FullFetch(context, fetch.partitions).start()
    asked: list[PartitionToRead] = []
    return context.in_slices(
        count,
        lambda start, stop: asked.extend(fetch.piece(start, stop)),
        lambda: FullFetch(context, asked).start(),
    )


class FullFetch(DelayedFetch):
    """The Fetch itself is registered with its partitions while it waits."""

    __slots__ = ("_asked", "_parked")

    def __init__(self, context: Context, asked: Sequence[PartitionToRead]) -> None:
        super().__init__(context)
        self._asked = asked
        #: The partitions that this is registered with, and what is asked of them.
        self._parked: dict[Partition, PartitionToRead] = {}

    def asked(self) -> Sequence[PartitionToRead]:
        return self._asked

    def took(self, result: FetchResult) -> None:
        rows = result.rows
        if not rows:
            return self.answer(result)
        if not self.is_again and are_few(len(rows)):
            # The next plain ones need not be asked about.
            self._grant(rows)
        return super().took(result)

    def _grant(self, rows: Sequence[FetchRow]) -> None:
        context = self.context
        rooms, rights = context.rooms, context.rights
        for asked, row in zip(self._asked, rows, strict=True):
            partition = None if row.error_code else rooms.replicas.partitions.get(asked.key)
            if partition is None or not partition.is_leader:
                continue
            if partition.lease is None:
                rooms.leases.grant(partition)
            if rights is not None and partition.lease is not None and not context.is_follower:
                rights.tell_reader(partition.lease, context.request)

    def answer(self, result: FetchResult) -> None:
        context, request = self.context, self.context.request
        if throttle_ms := context.throttle_ms(result):
            return request.reply_fetch([], throttle_ms=throttle_ms)
        context.answered(result)
        if context.version < BATCHES_SINCE:
            return old.answer(self, self._asked, result)
        if context.fetch.session_epoch == INITIAL_EPOCH:
            return incremental.begin(
                context, self._asked, result, lambda session_id: request.reply_fetch(result.rows, session_id=session_id)
            )
        return request.reply_fetch(result.rows)

    def register(self, start: int, stop: int, rows: Sequence[FetchRow]) -> None:
        context = self.context
        for one, row in zip(self._asked[start:stop], rows[start:stop], strict=True):
            partition = self.noted(one, row)
            if partition is not None:
                self._parked[partition] = one
                partition.park(self, is_follower=context.is_follower)
                if context.is_behind(one, row, partition):
                    self.moved(partition, one)

    def unregister(self) -> None:
        for partition in self._parked:
            partition.waiting_fetches.unpark(self)

    def advanced(self, partition: Partition) -> None:
        """As a `Waiter` of a partition."""
        asked = self._parked.get(partition)
        if asked is not None:
            self.moved(partition, asked)
