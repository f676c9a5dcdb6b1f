"""From limits to offsets, once it is known where the partitions begin and end. No I/O; brokers and directories share
it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ottla.errors import OffsetOutOfRange
from ottla.kafka import EARLIEST, LATEST, TopicPartition
from ottla.reading.limits import Everywhere, Limit, Offsets, Timestamp, Timestamps
from ottla.reading.options import ReadOptions


class DataLoss(OffsetOutOfRange):
    """Offsets that were asked for are not there (any more)."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a new stream begins. `at_end` has the partitions that begin where they ended at that moment, and `moves`
    those that may begin later when they are asked again, although they have lost nothing.
    """

    offsets: Mapping[TopicPartition, int]
    at_end: frozenset[TopicPartition]
    moves: frozenset[TopicPartition]


def times_ms(limit: Limit, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """The times to be looked up for a limit; none if it is not about times.

    Raises:
        ValueError: it names other partitions than those that are read.
    """
    if isinstance(limit, Everywhere | Offsets):
        return {}
    if isinstance(limit, Timestamp):
        return dict.fromkeys(partitions, limit.timestamp_ms)
    _same(limit.of_ms, partitions)
    return dict(limit.of_ms)


def settle(
    options: ReadOptions,
    earliest: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    starts_at: Mapping[TopicPartition, int | None],
    ends_at: Mapping[TopicPartition, int | None],
) -> dict[TopicPartition, tuple[int, int]]:
    """First and end offset of each partition; it is empty where the end is not after the first.

    `starts_at` and `ends_at` have the answers to `times_ms` of the two limits; None where no record is late enough.

    Raises:
        ValueError: a limit names other partitions, or a time is later than all records of a partition.
        DataLoss: a limit is outside of what the partition has.
    """
    starts = settle_start(options, earliest, latest, starts_at).offsets
    if isinstance(options.ending, Offsets):
        _same(options.ending.of, earliest)
    found: dict[TopicPartition, tuple[int, int]] = {}
    for partition, start in starts.items():
        first, last = earliest[partition], latest[partition]
        end = _offset(options.ending, partition, first, ends_at)
        end = last if end in (None, LATEST) else end
        if (given := _backwards(options.starting, options.ending, partition)) is not None:
            what = "offset" if isinstance(options.starting, Offsets) else "timestamp"
            raise ValueError(
                f"the specified start {what} {given[0]} is greater than the end {what} {given[1]} for {partition}"
            )
        found[partition] = start, _inside(options, partition, "ending", end, first, last)
    return found


def settle_start(
    options: ReadOptions,
    earliest: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    starts_at: Mapping[TopicPartition, int | None],
) -> Beginning:
    """First offset of each partition, where a new stream begins too; arguments and errors are those of `settle`."""
    if isinstance(options.starting, Offsets):
        _same(options.starting.of, earliest)
    found: dict[TopicPartition, int] = {}
    at_end: set[TopicPartition] = set()
    for partition in sorted(earliest):
        first, last = earliest[partition], latest[partition]
        start = _offset(options.starting, partition, first, starts_at)
        if start is None:
            if not options.latest_if_no_timestamp:
                raise ValueError(
                    f"no record of {partition} is at or after the starting time{options.advice.no_later_record}"
                )
            start = LATEST
        if start == LATEST:
            at_end.add(partition)
            start = last
        found[partition] = _inside(options, partition, "starting", start, first, last)
    by_time = options.latest_if_no_timestamp and isinstance(options.starting, Timestamp | Timestamps)
    return Beginning(found, frozenset(at_end), frozenset(found) if by_time else frozenset(at_end))


def _offset(limit: Limit, partition: TopicPartition, first: int, at: Mapping[TopicPartition, int | None]) -> int | None:
    """The offset that a limit means, or `LATEST`; None where no record is late enough."""
    if isinstance(limit, Everywhere):
        offset = limit.offset
    elif isinstance(limit, Offsets):
        offset = limit.of[partition]
    else:
        return at[partition]
    return first if offset == EARLIEST else offset


def _backwards(starting: Limit, ending: Limit, partition: TopicPartition) -> tuple[int, int] | None:
    """The two offsets or times of a partition, if they are named and the end is before the start."""
    match starting, ending:
        case (Offsets(starts), Offsets(ends)) | (Timestamps(starts), Timestamps(ends)):
            start, end = starts[partition], ends[partition]
            return (start, end) if start > end >= 0 else None
        case _:
            return None


def _inside(options: ReadOptions, partition: TopicPartition, side: str, offset: int, first: int, last: int) -> int:
    """An offset between the first and the last one; others are data loss."""
    inside = min(max(offset, first), last)
    if inside != offset and options.fail_on_data_loss:
        raise DataLoss(
            f"the {side} offset of {partition} is {offset}, but it has offsets {first} to {last}"
            f"{options.advice.data_loss}"
        )
    return inside


def _same(named: Collection[TopicPartition], partitions: Collection[TopicPartition]) -> None:
    if set(named) != set(partitions):
        given, needed = (", ".join(map(str, sorted(each))) for each in (named, partitions))
        raise ValueError(
            f"starting and ending offsets must name exactly the partitions that are read: {needed}; not {given}"
        )
