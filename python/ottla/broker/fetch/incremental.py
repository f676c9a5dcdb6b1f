"""Fetch in a session (KIP-227): what a request leaves out is known from those before it, and the answer names only what
the client does not know. `session.py` has the rules; here they meet requests and logs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.broker.fetch.delayed_fetch import DelayedFetch
from ottla.broker.fetch.lending import lend
from ottla.broker.fetch.read import Reading
from ottla.broker.fetch.session import NO_SESSION, CachedPartition, FetchSession, next_epoch
from ottla.errors import FetchSessionIdNotFound, InvalidFetchSessionEpoch
from ottla.replication.in_sync import now_ms
from ottla.slices import are_few

if TYPE_CHECKING:
    from ottla._core import FetchRow, PartitionToRead
    from ottla.broker.fetch.context import Context
    from ottla.broker.fetch.result import FetchResult
    from ottla.replication.partition import Partition


def begin(
    context: Context, asked: Sequence[PartitionToRead], result: FetchResult, then: Callable[[int], object]
) -> None:
    """Makes a session of `asked`, whose client is told `result`; `then` gets its id, or 0 if there is no room."""
    rooms = context.rooms
    session = rooms.fetch_sessions.create(len(asked), context.follower, now_ms())
    if session is None:
        then(NO_SESSION)
        return
    session.reader = context.reader
    partitions, rows = rooms.replicas.partitions, result.rows

    def add(start: int, stop: int) -> None:
        for one, row in zip(asked[start:stop], rows[start:stop], strict=True):
            entry = CachedPartition(one, row.high_watermark, row.log_start_offset)
            if not session.add(entry):
                return  # it gave way already
            if context.has_all(one, row):
                _rest(context, session, entry, row, partitions.get(one.key))

    def begun() -> None:
        then(session.id)
        lend(context, session)

    context.in_slices(len(asked), add, begun)


def serve(context: Context) -> None:
    request, fetch = context.request, context.fetch
    sessions = context.rooms.fetch_sessions
    session = sessions.get(fetch.session_id)
    if session is None:
        return request.reply_fetch([], error_code=FetchSessionIdNotFound.code)
    if session.epoch != fetch.session_epoch:
        return request.reply_fetch([], error_code=InvalidFetchSessionEpoch.code)
    session.unanswered += 1
    if session.parked is not None:
        # A client that goes on without waiting for its answer gets that first.
        session.parked.expire()
    session.read_by(context.reader)
    count, entries = len(fetch), session.entries
    if count == 1 == len(entries) and context.call.quotas is None:
        (asked,) = fetch.partitions
        if asked.key in entries and not fetch.forgotten:
            return _serve_one(context, session, asked)
    session.epoch = next_epoch(session.epoch)
    if are_few(count):
        session.update(fetch.partitions)
        return _serve(context, session)
    return context.in_slices(
        count,
        lambda start, stop: session.update(fetch.piece(start, stop)),
        lambda: _serve(context, session),
    )


def _serve(context: Context, session: FetchSession) -> None:
    """Serves a request whose partitions the session knows."""
    request, fetch, sessions = context.request, context.fetch, context.rooms.fetch_sessions
    if forgotten := fetch.forgotten:
        session.drop(forgotten)
    if not session.entries:
        sessions.remove(session.id)
        return request.reply_fetch([])
    if not sessions.touch(session, now_ms()):
        return request.reply_fetch([], error_code=FetchSessionIdNotFound.code)
    return IncrementalFetch(context, session, []).start()


def _rest(
    context: Context, session: FetchSession, entry: CachedPartition, row: FetchRow, partition: Partition | None
) -> None:
    """The client knows all that `row` says. The partition rests, unless it moved on since."""
    if partition is None or context.is_behind(entry.asked, row, partition):
        return
    session.rests(entry, partition)
    if partition.is_following and context.is_behind(entry.asked, row, partition):
        # A fetcher moved the high watermark before that was listened to.
        entry.advanced(partition)


def _serve_one(context: Context, session: FetchSession, asked: PartitionToRead) -> None:
    """Serves a request that names the session's only partition."""
    (entry,) = session.entries.values()
    entry.asked = asked
    session.live[entry.key] = entry
    if session.is_stale(now := now_ms()):
        context.rooms.fetch_sessions.touch(session, now)
    session.epoch = next_epoch(session.epoch)
    Reading(context, (asked,), FetchOfOne(context, session, [entry]).took).start()


class IncrementalFetch(DelayedFetch):
    """A Fetch of the live partitions of a session. While it waits the session has it, whose partitions are registered
    for longer than that; they pass on what they hear.
    """

    __slots__ = ("_live", "_session")

    def __init__(self, context: Context, session: FetchSession, live: list[CachedPartition]) -> None:
        super().__init__(context)
        self._session = session
        self._live = live

    def asked(self) -> Sequence[PartitionToRead]:
        self._live = self._session.in_order()
        return [entry.asked for entry in self._live]

    def wait(self, result: FetchResult, missing: int) -> None:
        self._session.parked = self
        super().wait(result, missing)

    def register(self, start: int, stop: int, rows: Sequence[FetchRow]) -> None:
        context = self.context
        for entry, row in zip(self._live[start:stop], rows[start:stop], strict=True):
            partition = self.noted(entry.asked, row)
            if partition is not None:
                entry.watch(partition)
                if context.is_behind(entry.asked, row, partition):
                    self.moved(partition, entry.asked)

    def unregister(self) -> None:
        self._session.parked = None

    def answer(self, result: FetchResult) -> None:
        """Answers with those rows that the client has to be told."""
        context, session, live = self.context, self._session, self._live
        request = context.request
        if throttle_ms := context.throttle_ms(result):
            # The session stays as it is: the next request reads the same.
            session.unanswered -= 1
            return request.reply_fetch([], throttle_ms=throttle_ms, session_id=session.id)
        context.answered(result)
        told: list[FetchRow] = []
        told_of: list[PartitionToRead] = []
        partitions, rows = context.rooms.replicas.partitions, result.rows
        is_alone = len(session.entries) == 1

        def tell(start: int, stop: int) -> None:
            for place in range(start, stop):
                entry, row = live[place], rows[place]
                if entry.takes(row):
                    told.append(row)
                    told_of.append(entry.asked)
                    if not is_alone:
                        session.told(entry)
                if context.has_all(entry.asked, row):
                    _rest(context, session, entry, row, partitions.get(entry.key))

        def answered() -> None:
            request.reply_fetch(told, of=told_of, session_id=session.id)
            session.unanswered -= 1
            lend(context, session)

        return context.in_slices(len(live), tell, answered)


class FetchOfOne(IncrementalFetch):
    """A session's only partition is named, which is what a consumer of one partition does that gets records: answered
    as without a session, unless it had to wait, since the request knows the partition by its place. Nothing rests here;
    what is gone through for each request weighs more than what it does, because little of it is in the processor's
    caches.
    """

    __slots__ = ()

    def answer(self, result: FetchResult) -> None:
        if self.is_again:
            super().answer(result)
            return
        self.context.answered(result)
        (entry,) = self._live
        rows = result.rows if entry.takes(result.rows[0]) else []
        self.context.request.reply_fetch(rows, session_id=self._session.id)
        self._session.unanswered -= 1
        lend(self.context, self._session)
