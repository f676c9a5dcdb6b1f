"""ListOffsets (key 2): the first offset, the next one, or the first at or after a time.

A time is looked up by an I/O thread, since that may read much from the disk.
Version 0 lists where segments start (`_before`). 2: isolation level. 4: leader
epochs (KIP-320). 5: OFFSET_NOT_AVAILABLE (KIP-207), which earlier versions see as LEADER_NOT_AVAILABLE.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from ottla._core import Reader, find_times
from ottla.broker.call import count_of
from ottla.errors import (
    InvalidRequest,
    KafkaError,
    LeaderNotAvailable,
    OffsetNotAvailable,
    StorageError,
    TopicAuthorizationFailed,
    UnsupportedForMessageFormat,
)
from ottla.errors import error as kafka_error
from ottla.kafka import CONSUMER, DEBUGGING, EARLIEST, LATEST, NO_EPOCH, READ_COMMITTED
from ottla.replication.partition import Partition
from ottla.wire.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla._core import Log, TimestampMatch
    from ottla.broker.call import Call
    from ottla.broker.rooms import LogRooms

    ListOffsets: TypeAlias = "Call[ListOffsetsRequest, ListOffsetsResponse]"

#: The first record that is young enough, None without one, or an error code.
Found: TypeAlias = "TimestampMatch | int | None"
Times: TypeAlias = "dict[Log, Found]"


def handle(call: ListOffsets, rooms: LogRooms) -> None:
    _begin(call, rooms, call.message, {})


def _begin(call: ListOffsets, rooms: LogRooms, asked: ListOffsetsRequest, times: Times) -> None:
    rows = count_of(topic.partitions for topic in asked.topics)
    call.in_slices(rows, _answer(call, rooms, asked, times))


def _answer(call: ListOffsets, rooms: LogRooms, asked: ListOffsetsRequest, times: Times) -> Iterator[None]:
    """Answers, or has the times looked up that are not known yet, and comes back. Each row is of its own moment."""
    version = call.version
    unknown: dict[Log, int] = {}
    # Numbers instead of names and partitions: a large request has 400,000 of them.
    numbers: dict[str, int] = {}
    named: set[int] = set()
    twice: set[int] = set()
    for topic in asked.topics:
        yield
        number = numbers.setdefault(topic.name, len(numbers)) << 32
        for wanted in topic.partitions:
            yield
            key = number + wanted.partition_index
            if key in named:
                twice.add(key)
            named.add(key)
    call.leave([named])
    del named
    topics = []
    rights = call.rights
    for topic in asked.topics:
        rows = []
        is_hidden = rights is not None and not rights.may(Operation.DESCRIBE, Resource.TOPIC, topic.name)
        number = numbers[topic.name] << 32
        for wanted in topic.partitions:
            yield
            row = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
            try:
                if is_hidden:
                    raise TopicAuthorizationFailed
                if version > 0 and number + wanted.partition_index in twice:
                    raise InvalidRequest("the partition is named twice")
                partition = rooms.replicas.partitions.get((topic.name, wanted.partition_index))
                if partition is None:
                    row.error_code = rooms.metadata.error_where_absent(topic.name, wanted.partition_index)
                    rows.append(row)
                    continue
                if version == 0:
                    row.old_style_offsets = _before(partition, asked, wanted)
                    rows.append(row)
                    continue
                row.offset, row.timestamp, epoch = _find(partition, asked, wanted, times, unknown)
                if version >= 4:
                    row.leader_epoch = epoch
            except OffsetNotAvailable as error:
                row.error_code = error.code if version >= 5 else LeaderNotAvailable.code
            except KafkaError as error:
                row.error_code = error.code
            rows.append(row)
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
    call.leave([numbers, twice])
    if not unknown:
        call.reply(ListOffsetsResponse(topics=topics))
        return

    def found(results: list[Found] | None, _error: BaseException | None) -> None:
        known = [StorageError.code] * len(unknown) if results is None else results
        _begin(call, rooms, asked, {**times, **dict(zip(unknown, known, strict=True))})

    rooms.server.submit(partial(find_times, rooms.server.hub.completions, wanted=[*unknown.items()]), found)


def _find(
    partition: Partition,
    asked: ListOffsetsRequest,
    wanted: ListOffsetsPartition,
    times: Times,
    unknown: dict[Log, int],
) -> tuple[int, int, int]:
    """Offset, timestamp (-1 where none was asked for) and leader epoch; all -1 if there is no record at or after the
    time. What `times` does not have is added to `unknown`.
    """
    error = partition.leader_error(wanted.current_leader_epoch)
    if error and not (asked.replica_id == DEBUGGING and wanted.current_leader_epoch == NO_EPOCH):
        raise kafka_error(error, str(partition))
    log = partition.log
    is_client = asked.replica_id == CONSUMER
    if is_client:
        end = log.bound(Reader.COMMITTED if asked.isolation_level == READ_COMMITTED else Reader.CONSUMER)
    else:
        end = log.bound(Reader.REPLICA)
    # A new leader does not know yet how far the former one had come: an answer from the end could go backwards.
    is_behind = is_client and log.high_watermark < partition.leader_epoch_start
    if wanted.timestamp == LATEST:
        if is_behind:
            raise OffsetNotAvailable(str(partition))
        return end, -1, partition.leader_epoch
    if wanted.timestamp == EARLIEST:
        return log.start_offset, -1, log.epoch_of(log.start_offset)
    if partition.record_format == 0:
        raise UnsupportedForMessageFormat(f"{partition} stores records without timestamps (message.format.version)")
    if log not in times:
        unknown[log] = wanted.timestamp
        return -1, -1, -1
    found = times[log]
    if isinstance(found, int):
        raise kafka_error(found, str(partition))
    if found is not None and found.offset < end:
        return found.offset, found.timestamp_ms, found.leader_epoch
    if is_behind:
        raise OffsetNotAvailable(str(partition))
    return -1, -1, -1


def _before(partition: Partition, asked: ListOffsetsRequest, wanted: ListOffsetsPartition) -> list[int]:
    """Version 0: the newest first, at most `max_num_offsets`; a consumer sees nothing past the high watermark."""
    error = partition.leader_error(NO_EPOCH)
    if error and asked.replica_id != DEBUGGING:
        raise kafka_error(error, str(partition))
    offsets = partition.log.offsets_before(wanted.timestamp, max(0, wanted.max_num_offsets))
    high_watermark = partition.log.high_watermark
    if asked.replica_id == CONSUMER and any(offset > high_watermark for offset in offsets):
        return [high_watermark, *(offset for offset in offsets if offset <= high_watermark)]
    return offsets
