"""Fetch (key 1): reads whole record batches; waits until `min_bytes` are there or `max_wait_ms` are over.

Records leave by sendfile: nothing here touches their bytes. Where they begin is looked up in the page cache; what would
have to be read for that from the disk, an I/O thread reads. A fetch that finds too little parks with the partitions it
asked for; when one of them moves on, only that one is looked at again.
Versions 0-3 want message sets of formats v0 and v1: what is newer is converted (`old_fetch.py`). 4: isolation level.
5: log start offset. 7: sessions (KIP-227, `incremental_fetch.py`). 9: leader epoch (KIP-320). 10: zstd. 11: rack
(KIP-392). 12: flexible; who says the epoch of its last record is told where its log parts from this one (KIP-595).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker import incremental_fetch, old_fetch
from ottla.broker.quotas.measured import fetch_bytes_max, throttle_fetch
from ottla.errors import (
    InvalidRequest,
    KafkaError,
    NotLeaderOrFollower,
    StorageError,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
)
from ottla.replication.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, Asked
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla._core import ConvertedRecords, FetchRequest, ReadInfo, Request
    from ottla.broker.broker import Broker

VERSIONS = range(13)

#: place in the request, error code, high watermark, last stable offset, log start offset, aborted transactions,
#: preferred replica, what to send, diverging epoch
Row: TypeAlias = (
    "tuple[int, int, int, int, int, list[tuple[int, int]] | None, int, ReadInfo | ConvertedRecords | None, "
    "tuple[int, int] | None]"
)

#: Gets every partition's row, the bytes they hold, and whether any of them is answered at once: an error, or a
#: diverging epoch.
Then: TypeAlias = "Callable[[list[Row], int, bool], None]"

READ_COMMITTED = 1


def handle(broker: Broker, request: Request) -> None:
    fetch = request.fetch()
    if fetch.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
        return incremental_fetch.handle(broker, request, fetch, _read, limits(broker, request, fetch)[0])
    if fetch.session_id != NO_SESSION:
        broker.fetch_sessions.remove(fetch.session_id)  # who asks for everything has done with it

    def then(rows: list[Row], read: int, is_due: bool) -> None:
        if len(rows) == 1 and not rows[0][1]:
            partition = broker.replicas.partitions[fetch.partitions[0][:2]]
            if partition.is_leader and partition.lease is None:
                # The next plain ones need not be asked about.
                broker.leases.grant(partition)
        missing = limits(broker, request, fetch)[0] - read
        if missing <= 0 or fetch.max_wait_ms <= 0 or is_due or not rows:
            return _answer(broker, request, fetch, rows)
        return _Parked(broker, request, fetch, missing).park(rows)

    return _read(broker, request, fetch, fetch.partitions, then)


def _answer(broker: Broker, request: Request, fetch: FetchRequest, rows: list[Row], may_wait: bool = True) -> None:
    session_id = NO_SESSION
    if broker.quotas is not None and (throttle_ms := throttle_fetch(broker.quotas, request, fetch, rows)):
        return request.reply_fetch([], throttle_ms=throttle_ms)
    if request.api_version < old_fetch.BATCHES_SINCE:

        def wait(rows: list[Row]) -> None:
            _Parked(broker, request, fetch, limits(broker, request, fetch)[0]).park(rows)

        return old_fetch.answer(broker, request, fetch, rows, wait if may_wait else None)
    if fetch.session_epoch == INITIAL_EPOCH:
        session_id = incremental_fetch.begin(broker, fetch, rows)
    return request.reply_fetch(rows, session_id=session_id)


def _read(broker: Broker, request: Request, fetch: FetchRequest, asked: Sequence[Asked], then: Then) -> None:
    """Calls `then` now, or when an I/O thread has looked up what is not in the page cache."""
    cold = _Cold(broker, request, fetch, asked, then)
    rows, read, is_due = _read_cached(broker, request, fetch, asked, cold)
    if not cold.missing:
        then(rows, read, is_due)


class _Cold:
    """Places in logs that a fetch waits for. When all are known it is read again, with them."""

    __slots__ = ("_again", "_broker", "found", "missing")

    def __init__(
        self, broker: Broker, request: Request, fetch: FetchRequest, asked: Sequence[Asked], then: Then
    ) -> None:
        self._broker = broker
        self._again = (request, fetch, asked, then)
        #: by the partition's place in the request
        self.found: dict[int, ReadInfo | KafkaError] = {}
        self.missing = 0

    def wait(self, index: int) -> None:
        """The thread reports under the token that was the next one."""

        def done(info: ReadInfo | None, error: BaseException | None) -> None:
            self.found[index] = info if info is not None else _as_kafka_error(error)
            self.missing -= 1
            if not self.missing:
                self._read_again()

        self.missing += 1
        self._broker.server.expect(done)

    def _read_again(self) -> None:
        request, fetch, asked, then = self._again
        rows, read, is_due = _read_cached(self._broker, request, fetch, asked, self)
        # Places of which the first look expected no room may be missing now.
        if not self.missing:
            then(rows, read, is_due)


def _as_kafka_error(error: BaseException | None) -> KafkaError:
    return error if isinstance(error, KafkaError) else StorageError(str(error))


def _read_cached(
    broker: Broker, request: Request, fetch: FetchRequest, asked: Sequence[Asked], cold: _Cold
) -> tuple[list[Row], int, bool]:
    """What `Then` gets; without meaning if something is missing."""
    partitions = broker.replicas.partitions
    left = limits(broker, request, fetch)[1]
    is_committed = fetch.isolation_level == READ_COMMITTED
    is_replica = fetch.replica_id >= 0
    version = request.api_version
    if version < old_fetch.BATCHES_SINCE:
        left = min(left, old_fetch.BYTES_MAX)
    server, found = broker.server, cold.found
    rows: list[Row] = []
    read = 0
    failed = False
    for index, (topic, number, offset, bytes_max, epoch, last_epoch, _) in enumerate(asked):
        partition = partitions.get((topic, number))
        if partition is None:
            rows.append(_failed(index, UnknownTopicOrPartition.code))
            failed = True
            continue
        error = partition.leader_error(epoch) or (_unreadable(version, partition) if version < 10 else 0)
        if error:
            rows.append(_failed(index, _known_to(version, error)))
            failed = True
            continue
        log = partition.log
        high_watermark = log.high_watermark
        stable = partition.last_stable_offset
        bound = log.end_offset if is_replica else stable if is_committed else high_watermark
        try:
            if last_epoch >= 0 and (diverging := partition.diverging_epoch(last_epoch, offset)) is not None:
                rows.append((index, 0, high_watermark, stable, log.start_offset, None, -1, None, diverging))
                failed = True
                continue
            # The first records may exceed every limit, or a consumer could never pass a large batch (KIP-74).
            known = found.get(index)
            if known is None:
                info = log.read_cached(offset, min(bytes_max, left), bound, read == 0, server.next_token)
                if info is None:
                    cold.wait(index)
                    # As much as it may have: no more places are looked for than there is room for their records.
                    size = min(bytes_max, left)
                    read += max(1, size)
                    left -= size
                    continue
            elif isinstance(known, KafkaError):
                raise known
            else:
                info = known
            aborted = log.aborted_transactions(offset, info) if is_committed else None
        except KafkaError as refused:
            if isinstance(refused, StorageError):
                broker.replicas.storage_error(partition, refused)
            rows.append(_failed(index, _known_to(version, refused.code)))
            failed = True
            continue
        except OverflowError:  # a limit below zero
            rows.append(_failed(index, InvalidRequest.code))
            failed = True
            continue
        size = info.length
        read += size
        left = max(0, left - size)
        rows.append((index, 0, high_watermark, stable, log.start_offset, aborted, -1, info, None))
    # Where no more bytes may be added there is nothing to wait for.
    return rows, read, failed or left == 0


def limits(broker: Broker, request: Request, fetch: FetchRequest) -> tuple[int, int]:
    """The fewest bytes that a Fetch waits for, and the most that its answer may have. Nobody waits for more than an
    answer may have.
    """
    bytes_max = min(fetch.max_bytes, broker.fetch_bytes_max)
    if broker.quotas is not None:
        bytes_max = min(bytes_max, fetch_bytes_max(broker.quotas, request, fetch))
    return min(fetch.min_bytes, bytes_max), bytes_max


def _failed(index: int, error: int) -> Row:
    return (index, error, -1, -1, -1, None, -1, None, None)


def _known_to(version: int, error: int) -> int:
    """Clients before version 6 have not heard of failed directories; what makes them ask elsewhere is another error."""
    return NotLeaderOrFollower.code if version < 6 and error == StorageError.code else error


def _unreadable(version: int, partition: Partition) -> int:
    """Whether clients of this Fetch version cannot read what the partition holds."""
    return UnsupportedCompressionType.code if partition.compression_type == "zstd" else 0


class _Parked:
    """A fetch that waits for more bytes."""

    __slots__ = ("_broker", "_fetch", "_missing", "_request", "_seen", "done")
    purgatory = "Fetch"

    def __init__(self, broker: Broker, request: Request, fetch: FetchRequest, missing: int) -> None:
        self._broker = broker
        self._request = request
        self._fetch = fetch
        self._missing = missing
        #: for each partition asked for: fetch offset, most bytes, and the bytes it was seen to have
        self._seen: dict[Partition, tuple[int, int, int]] = {}
        self.done = False

    def park(self, rows: list[Row]) -> None:
        partitions = self._broker.replicas.partitions
        for (topic, number, offset, bytes_max, _, _, _), row in zip(self._fetch.partitions, rows, strict=True):
            partition = partitions[topic, number]
            self._seen[partition] = (offset, bytes_max, row[7].length if row[7] is not None else 0)
            partition.fetches[self] = None
        self._broker.deadlines.add(self._fetch.max_wait_ms, self)

    def advanced(self, partition: Partition) -> None:
        if self.done:
            return
        if partition.is_leader:
            offset, bytes_max, seen = self._seen[partition]
            bound = (
                partition.last_stable_offset
                if self._fetch.isolation_level == READ_COMMITTED
                else partition.log.high_watermark
            )
            if self._fetch.min_bytes > 1:
                try:
                    info = partition.log.read_cached(offset, bytes_max, bound, True)
                except KafkaError:
                    info = None
                if info is None:
                    self._missing = 0  # the answer will say what it is
                    now = seen
                else:
                    now = info.length
                self._missing -= now - seen
                self._seen[partition] = (offset, bytes_max, now)
                if self._missing > 0:
                    return
            elif bound <= offset <= partition.log.end_offset:
                return
        self.expire()

    def expire(self) -> None:
        """Answers with what there is."""
        self.done = True
        for partition in self._seen:
            partition.fetches.pop(self, None)
        broker, request, fetch = self._broker, self._request, self._fetch

        def then(rows: list[Row], _read: int, _is_due: bool) -> None:
            _answer(broker, request, fetch, rows, may_wait=False)

        _read(broker, request, fetch, fetch.partitions, then)
