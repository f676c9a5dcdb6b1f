"""Fetch in a session (KIP-227): what a request leaves out is known from those before it, and the answer names only what
the client does not know. `replication/fetch_session.py` has the rules; here they meet requests and logs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.broker.quotas.measured import throttle_fetch
from ottla.errors import FetchSessionIdNotFound, InvalidFetchSessionEpoch, KafkaError
from ottla.replication.fetch_session import (
    NO_SESSION,
    Asked,
    CachedPartition,
    FetchSession,
    next_epoch,
)

if TYPE_CHECKING:
    from ottla._core import FetchRequest, Request
    from ottla.broker.api.k01_fetch import Row, Then
    from ottla.broker.broker import Broker
    from ottla.replication.partition import Partition

#: Fetch's own.
Read: TypeAlias = "Callable[[Broker, Request, FetchRequest, Sequence[Asked], Then], None]"

READ_COMMITTED = 1


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def begin(broker: Broker, fetch: FetchRequest, rows: list[Row]) -> int:
    """The id of a new session that has told what `rows` say of the partitions of `fetch`; 0 if there is no room."""

    def entries() -> Iterable[CachedPartition]:
        for asked, row in zip(fetch.partitions, rows, strict=True):
            yield CachedPartition(asked, row[2], row[4])

    session = broker.fetch_sessions.create(entries(), len(rows), fetch.replica_id >= 0, _now_ms())
    if session is None:
        return NO_SESSION
    is_committed = fetch.isolation_level == READ_COMMITTED
    for asked, row in zip(fetch.partitions, rows, strict=True):
        if not session.is_follower and _is_known(asked, row, is_committed):
            partition = broker.replicas.partitions.get(asked[:2])
            if partition is not None:
                session.rests(session.entries[asked[:2]], partition)
    return session.id


def _is_known(asked: Asked, row: Row, is_committed: bool) -> bool:
    """Whether there is nothing in a partition that the client does not know once it is told this row.

    (A follower reads to the log end, which moves before anybody is told of it: its partitions stay live.)
    """
    info = row[7]
    return info is not None and not info.length and asked[2] >= (row[3] if is_committed else row[2])


def handle(broker: Broker, request: Request, fetch: FetchRequest, read: Read, bytes_min: int) -> None:
    sessions = broker.fetch_sessions
    session = sessions.get(fetch.session_id)
    if session is None:
        return request.reply_fetch([], error_code=FetchSessionIdNotFound.code)
    if session.epoch != fetch.session_epoch:
        return request.reply_fetch([], error_code=InvalidFetchSessionEpoch.code)
    if session.parked is not None:
        # Whoever goes on without waiting for its answer gets that first.
        session.parked.expire()
    asked = fetch.partitions
    entries = session.entries
    if len(asked) == 1 == len(entries) and asked[0][:2] in entries and not fetch.forgotten and broker.quotas is None:
        return _handle_one(broker, request, fetch, session, read, bytes_min)
    session.update(asked, fetch.forgotten)
    if not session.entries:
        sessions.remove(session.id)
        return request.reply_fetch([])
    if not sessions.touch(session, _now_ms()):
        return request.reply_fetch([], error_code=FetchSessionIdNotFound.code)
    session.epoch = next_epoch(session.epoch)
    live = [*session.live.values()]

    def then(rows: list[Row], size: int, is_due: bool) -> None:
        if size >= bytes_min or fetch.max_wait_ms <= 0 or is_due:
            return _answer(broker, request, fetch, session, live, rows)
        return _Parked(broker, request, fetch, session, read, bytes_min - size).park(live, rows)

    return read(broker, request, fetch, [entry.asked for entry in live], then)


def _handle_one(
    broker: Broker, request: Request, fetch: FetchRequest, session: FetchSession, read: Read, bytes_min: int
) -> None:
    """A session's only partition is named, which is what a consumer of one partition does that gets records: read and
    answered as without a session, since the request knows the partition by its place. Nothing rests here; what is
    gone through for each request weighs more than what it does, because little of it is in the processor's caches.
    """
    asked = fetch.partitions
    (entry,) = session.entries.values()
    entry.asked = asked[0]
    session.live[entry.key] = entry
    if session.is_stale(now_ms := _now_ms()):
        broker.fetch_sessions.touch(session, now_ms)
    session.epoch = next_epoch(session.epoch)

    def then(rows: list[Row], size: int, is_due: bool) -> None:
        if size < bytes_min and fetch.max_wait_ms > 0 and not is_due:
            return _Parked(broker, request, fetch, session, read, bytes_min - size).park([entry], rows)
        ((_, error, high_watermark, _, log_start, _, _, info, diverging),) = rows
        has_more = (info is not None and info.length > 0) or diverging is not None
        must = entry.takes(error, high_watermark, log_start, has_more)
        return request.reply_fetch(rows if must else [], session_id=session.id)

    return read(broker, request, fetch, asked, then)


def _answer(
    broker: Broker,
    request: Request,
    fetch: FetchRequest,
    session: FetchSession,
    live: list[CachedPartition],
    rows: list[Row],
) -> None:
    """Answers with those rows that the client has to be told."""
    quotas = broker.quotas
    if quotas is not None and (throttle_ms := throttle_fetch(quotas, request, fetch, rows)):
        # The session stays as it is: the next request reads the same.
        return request.reply_fetch([], throttle_ms=throttle_ms, session_id=session.id)
    told: list[Any] = []
    is_follower, is_committed = session.is_follower, fetch.isolation_level == READ_COMMITTED
    partitions = broker.replicas.partitions
    for row in rows:
        index, error, high_watermark, stable, log_start, aborted, replica, info, diverging = row
        entry = live[index]
        has_more = (info is not None and info.length > 0) or diverging is not None
        if entry.takes(error, high_watermark, log_start, has_more):
            told.append((entry.key, error, high_watermark, stable, log_start, aborted, replica, info, diverging))
            if len(live) > 1:
                session.told(entry)
        if (
            not (has_more or error or is_follower)
            and entry.asked[2] >= (stable if is_committed else high_watermark)
            and (partition := partitions.get(entry.key)) is not None
        ):
            session.rests(entry, partition)
    return request.reply_fetch(told, session_id=session.id)


class _Parked:
    """A request of a session that waits for more bytes."""

    __slots__ = ("_broker", "_fetch", "_missing", "_read", "_request", "_seen", "_session", "done")
    purgatory = "Fetch"

    def __init__(
        self, broker: Broker, request: Request, fetch: FetchRequest, session: FetchSession, read: Read, missing: int
    ) -> None:
        self._broker = broker
        self._request = request
        self._fetch = fetch
        self._session = session
        self._read = read
        self._missing = missing
        #: the bytes that a live partition was seen to have
        self._seen: dict[Partition, int] = {}
        self.done = False

    def park(self, live: list[CachedPartition], rows: list[Row]) -> None:
        session, partitions = self._session, self._broker.replicas.partitions
        for row in rows:
            entry = live[row[0]]
            partition = partitions[entry.key]
            if self._fetch.min_bytes > 1:
                self._seen[partition] = row[7].length if row[7] is not None else 0
            entry.watch(partition)
        session.parked = self
        self._broker.deadlines.add(self._fetch.max_wait_ms, self)

    def advanced(self, partition: Partition, asked: Asked) -> None:
        if partition.is_leader:
            is_committed = self._fetch.isolation_level == READ_COMMITTED
            bound = partition.last_stable_offset if is_committed else partition.log.high_watermark
            if self._fetch.min_bytes > 1:
                seen = self._seen.get(partition, 0)
                try:
                    info = partition.log.read_cached(asked[2], asked[3], bound, True)
                except KafkaError:
                    info = None
                if info is None:
                    self._missing = 0  # the answer will say what it is
                    now = seen
                else:
                    now = info.length
                self._missing -= now - seen
                self._seen[partition] = now
                if self._missing > 0:
                    return
            elif bound <= asked[2] <= partition.log.end_offset:
                return
        self.expire()

    def expire(self) -> None:
        """Answers with what there is."""
        if self.done:
            return
        self.done = True
        broker, request, fetch, session = self._broker, self._request, self._fetch, self._session
        session.parked = None
        live = [*session.live.values()]

        def then(rows: list[Row], _size: int, _is_due: bool) -> None:
            _answer(broker, request, fetch, session, live, rows)

        self._read(broker, request, fetch, [entry.asked for entry in live], then)
