"""Reads partitions for a Fetch.

Where records begin, and which aborted transactions are among them, is looked up in the page cache. What would have to
be read from the disk for that, an I/O thread reads: the Fetch is read again with what the thread found.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla._core import FetchRow
from ottla.broker.fetch.result import FetchResult, failed
from ottla.errors import (
    KafkaError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    StorageError,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
)
from ottla.replication import leading
from ottla.replication.in_sync import now_ms
from ottla.wire.k01_fetch import ZSTD_SINCE

if TYPE_CHECKING:
    from ottla._core import PartitionToRead
    from ottla.broker.fetch.context import Context
    from ottla.replication.partition import Partition

log = logging.getLogger("ottla.replicas")

_ABSENT = {error.code: FetchRow(error.code) for error in (NotLeaderOrFollower, UnknownTopicOrPartition)}


class Reading:
    """One reading of the partitions `asked`. `then` gets the result: in `start` already, unless there are many
    partitions or an I/O thread has to read.

    A follower's first reading for a request says what it has (`Partition.followed`). That is noted when all is read, so
    that its answer tells the high watermarks from before. With `is_again` it was noted already.
    """

    __slots__ = (
        "_asked",
        "_context",
        "_followed",
        "_found",
        "_is_incomplete",
        "_left",
        "_notes_followers",
        "_result",
        "_then",
        "_unfinished",
    )

    def __init__(
        self,
        context: Context,
        asked: Sequence[PartitionToRead],
        then: Callable[[FetchResult], object],
        *,
        is_again: bool = False,
    ) -> None:
        self._context = context
        self._asked = asked
        self._then = then
        #: The rows that threads have read, by place in `asked`.
        self._found: dict[int, FetchRow | KafkaError] = {}
        self._notes_followers = context.is_follower and not is_again
        #: The logs of a follower, as its request tells of them: the partition, its place in `asked`, and the leader
        #: epoch and where the log ended when it was read.
        self._followed: list[tuple[Partition, int, int, int]] = []

    def start(self) -> None:
        self._result = FetchResult()
        self._left = self._context.bytes_max
        self._is_incomplete = False
        self._followed.clear()
        #: The pass over the partitions, and the threads that read for it.
        self._unfinished = 1
        count = len(self._asked)
        self._context.in_slices(count, self._read, self._finished)

    def _finished(self) -> None:
        self._unfinished -= 1
        if self._unfinished:
            return
        if self._is_incomplete:
            # Partitions for which the first pass expected no room may have some now.
            self.start()
        else:
            self._result.is_due |= self._left == 0
            if self._followed:
                self._context.in_slices(len(self._followed), self._note, lambda: self._then(self._result))
            else:
                self._then(self._result)

    def _note(self, start: int, stop: int) -> None:
        """Notes what the follower has of the partitions that it was told no error of, from one to before another."""
        context, now = self._context, now_ms()
        for partition, place, leader_epoch, end_offset in self._followed[start:stop]:
            if partition.leader_epoch != leader_epoch:
                # Others were served since it was read. What a follower had is forgotten at every new epoch.
                continue
            one = self._asked[place]
            follower, start_offset = context.fetch.replica_id, one.log_start_offset
            if not leading.followed(partition, follower, one.offset, start_offset, end_offset, now):
                # As Kafka answers: a broker that was just taken off the partition has not heard of it yet.
                log.info("broker %d fetches from %s, which is not assigned to it", follower, partition)
                self._result.rows[place] = _without_records(partition)

    def _wait(self, place: int, token: int) -> None:
        """A thread reads for the partition at `place`, and reports under `token`."""

        def done(row: FetchRow | None, error: BaseException | None) -> None:
            self._found[place] = row if row is not None else _as_kafka_error(error)
            self._finished()

        self._is_incomplete = True
        self._unfinished += 1
        self._context.rooms.server.expect(token, done)

    def _read(self, start: int, stop: int) -> None:
        """Reads the partitions from place `start` to before `stop`."""
        context, result, found, left = self._context, self._result, self._found, self._left
        version, read, next_token = context.version, context.fetch.read, context.rooms.server.token
        partitions, rights = context.rooms.replicas.partitions, context.rights
        rows, size, notes_followers = result.rows, result.size, self._notes_followers
        throttles = context.throttles
        follower = context.fetch.replica_id if context.is_follower else None
        rack, reads_followers = context.rack, context.reads_followers
        asked = self._asked if not start and stop == len(self._asked) else self._asked[start:stop]
        for place, one in enumerate(asked, start):
            partition = partitions.get(one.key)
            if partition is None or (rights is not None and not context.may_read(one.key[0])):
                rows.append(self._unread(one))
                result.is_due = True
                continue
            error = partition.leader_error(one.leader_epoch, reads_followers)
            if not error and version < ZSTD_SINCE and partition.compression_type == "zstd":
                error = UnsupportedCompressionType.code
            if error:
                rows.append(failed(version, error))
                result.is_due = True
                continue
            if rack and (replica := context.elsewhere(partition, one.offset)) is not None:
                # Nothing is read, and nobody waits: the client is to go there at once.
                rows.append(_without_records(partition, replica))
                result.is_due = True
                continue
            end_offset = partition.log.end_offset if notes_followers else 0
            try:
                if one.last_fetched_epoch >= 0 and (row := _diverging(partition, one)) is not None:
                    rows.append(row)
                    result.is_due = True
                    continue
                known = found.get(place) if found else None
                if known is None:
                    # The first records may exceed every limit, or a consumer could never pass a large batch (KIP-74).
                    token = next_token()
                    # Of what has to wait it is only looked whether it is there.
                    waits = throttles is not None and context.is_throttled(partition)
                    fetched = read(partition.log, one, 0 if waits else left, size == 0 and not waits, token)
                    if fetched is None:
                        self._wait(place, token)
                        # As much as it may have: no more places are looked for than there is room for their records.
                        room = min(one.bytes_max, left)
                        size += max(1, room)
                        left -= room
                        continue
                    row = fetched
                else:
                    row = _row_or_error(known)
            except KafkaError as refused:
                if isinstance(refused, StorageError):
                    context.rooms.replicas.storage_error(partition, refused)
                rows.append(failed(version, refused.code))
                result.is_due = True
                continue
            if notes_followers:
                self._followed.append((partition, place, partition.leader_epoch, end_offset))
            if length := row.length:
                size += length
                left = max(0, left - length)
                result.filled += 1
                result.is_due |= row.goes_on
                if throttles is not None and throttles.leader.is_throttled(partition.topic, partition.index):
                    result.throttled += length
                if follower is not None and partition.adds(follower):
                    result.moved += length
            rows.append(row)
        result.size, self._left = size, left

    def _unread(self, asked: PartitionToRead) -> FetchRow:
        """The row of a partition that is not there, or whose topic the client may not read: then it is not told
        whether there is such a partition.
        """
        context = self._context
        topic, index = asked.key
        if not context.may_read(topic):
            return failed(context.version, TopicAuthorizationFailed.code)
        return _ABSENT[context.rooms.metadata.error_where_absent(topic, index)]


def _diverging(partition: Partition, asked: PartitionToRead) -> FetchRow | None:
    """The row for a reader whose log parts from this one, with the epoch and the offset where it ends to be this one;
    None if all that the reader has is here too.

    Raises OffsetOutOfRange for an epoch that the log knows nothing of.
    """
    log, last = partition.log, asked.last_fetched_epoch
    epoch, end_offset = log.epoch_end_offset(last)
    if epoch < 0 or end_offset < 0:
        raise OffsetOutOfRange(f"{partition}: epoch {last} of the last fetched record is unknown here")
    if epoch >= last and end_offset >= asked.offset:
        return None
    return FetchRow(
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.start_offset,
        diverging_epoch=(epoch, end_offset),
    )


def _without_records(partition: Partition, preferred_read_replica: int = -1) -> FetchRow:
    log = partition.log
    return FetchRow(
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.start_offset,
        preferred_read_replica=preferred_read_replica,
    )


def _row_or_error(known: FetchRow | KafkaError) -> FetchRow:
    """The row that a thread has read; raises what the thread met."""
    if isinstance(known, KafkaError):
        raise known
    return known


def _as_kafka_error(error: BaseException | None) -> KafkaError:
    return error if isinstance(error, KafkaError) else StorageError(str(error))
