"""Reads partitions for a Fetch.

Where records begin, and which aborted transactions are among them, is looked up in the page cache. What would have to
be read from the disk for that, an I/O thread reads: the Fetch is read again with what the thread found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla._core import FetchRow
from ottla.broker.fetch.pieces import PIECE, over
from ottla.broker.fetch.result import FetchResult, failed
from ottla.errors import KafkaError, StorageError, UnknownTopicOrPartition, UnsupportedCompressionType

if TYPE_CHECKING:
    from ottla._core import PartitionToRead
    from ottla.broker.fetch.context import Context
    from ottla.replication.partition import Partition

#: The first version whose clients can read what is compressed with zstd.
ZSTD_SINCE = 10

_UNKNOWN = FetchRow(UnknownTopicOrPartition.code)


class Reading:
    """One reading of the partitions `asked`. `then` gets the result: in `start` already, unless there are many
    partitions or an I/O thread has to read.
    """

    __slots__ = ("_asked", "_context", "_found", "_is_incomplete", "_left", "_result", "_then", "_unfinished")

    def __init__(
        self, context: Context, asked: Sequence[PartitionToRead], then: Callable[[FetchResult], object]
    ) -> None:
        self._context = context
        self._asked = asked
        self._then = then
        #: What threads have read, by place in `asked`.
        self._found: dict[int, FetchRow | KafkaError] = {}

    def start(self) -> None:
        self._result = FetchResult()
        self._left = self._context.bytes_max
        self._is_incomplete = False
        #: The pass over the partitions, and the threads that read for it.
        self._unfinished = 1
        count = len(self._asked)
        if count <= PIECE:
            self._read(0, count)
            self._finished()
        else:
            over(self._context, count, self._read, self._finished)

    def _finished(self) -> None:
        self._unfinished -= 1
        if self._unfinished:
            return
        if self._is_incomplete:
            # Partitions for which the first pass expected no room may have some now.
            self.start()
        else:
            self._result.is_due |= self._left == 0
            self._then(self._result)

    def _wait(self, place: int, token: int) -> None:
        """A thread reads for the partition at `place`, and reports under `token`."""

        def done(row: FetchRow | None, error: BaseException | None) -> None:
            self._found[place] = row if row is not None else _as_kafka_error(error)
            self._finished()

        self._is_incomplete = True
        self._unfinished += 1
        self._context.broker.server.expect(token, done)

    def _read(self, start: int, stop: int) -> None:
        """Reads the partitions from place `start` to before `stop`."""
        context, result, found, left = self._context, self._result, self._found, self._left
        version, read, next_token = context.version, context.fetch.read, context.broker.server.token
        partitions = context.broker.replicas.partitions
        rows, size = result.rows, result.size
        asked = self._asked if not start and stop == len(self._asked) else self._asked[start:stop]
        for place, one in enumerate(asked, start):
            partition = partitions.get(one.key)
            if partition is None:
                rows.append(_UNKNOWN)
                result.is_due = True
                continue
            error = partition.leader_error(one.leader_epoch)
            if not error and version < ZSTD_SINCE and partition.compression_type == "zstd":
                error = UnsupportedCompressionType.code
            if error:
                rows.append(failed(version, error))
                result.is_due = True
                continue
            try:
                if one.last_fetched_epoch >= 0 and (row := _diverging(partition, one)) is not None:
                    rows.append(row)
                    result.is_due = True
                    continue
                known = found.get(place) if found else None
                if known is None:
                    # The first records may exceed every limit, or a consumer could never pass a large batch (KIP-74).
                    token = next_token()
                    fetched = read(partition.log, one, left, size == 0, token)
                    if fetched is None:
                        self._wait(place, token)
                        # As much as it may have: no more places are looked for than there is room for their records.
                        room = min(one.bytes_max, left)
                        size += max(1, room)
                        left -= room
                        continue
                    row = fetched
                elif isinstance(known, KafkaError):
                    raise known
                else:
                    row = known
            except KafkaError as refused:
                if isinstance(refused, StorageError):
                    context.broker.replicas.storage_error(partition, refused)
                rows.append(failed(version, refused.code))
                result.is_due = True
                continue
            if length := row.length:
                size += length
                left = max(0, left - length)
                result.filled += 1
            rows.append(row)
        result.size, self._left = size, left


def _diverging(partition: Partition, asked: PartitionToRead) -> FetchRow | None:
    """The row for a reader whose log parts from this one; None if it does not."""
    diverging = partition.diverging_epoch(asked.last_fetched_epoch, asked.offset)
    if diverging is None:
        return None
    log = partition.log
    return FetchRow(
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.start_offset,
        diverging_epoch=diverging,
    )


def _as_kafka_error(error: BaseException | None) -> KafkaError:
    return error if isinstance(error, KafkaError) else StorageError(str(error))
