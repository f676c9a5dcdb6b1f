"""Reading data directories: the files themselves, beside a running broker or without one.

What `ottla.reading.brokers` says of topics that are deleted meanwhile holds here too.

What counts as written is what the broker has acknowledged to readers: the high watermark in its checkpoint file,
which Ottla writes at most 200 ms after it moved (Kafka: 5 s). `upTo=logEnd` reads to the end of the files instead.
"""

import logging
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.client import TopicPartition
from ottla.log.committed import aborted_transactions, last_stable_offset
from ottla.reading.bounds import Beginning, DataLoss, settle, settle_start, times_ms
from ottla.reading.columns import Columns
from ottla.reading.damage import Damage, DamagedBatch, Skipped
from ottla.reading.limits import Limit, Timestamp
from ottla.reading.options import Advice, ReadOptions
from ottla.reading.ranges import Range
from ottla.reading.segments import Segment, batches, end_offset, offset_at, read_checkpoint, segments
from ottla.reading.wanted import Wanted

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"


@dataclass(frozen=True, slots=True)
class Found:
    """The partitions of a directory that are meant, as of now."""

    folders: dict[TopicPartition, Path]
    listed: dict[TopicPartition, list[Segment]]
    earliest: dict[TopicPartition, int]
    latest: dict[TopicPartition, int]

    def at(
        self, limit: Limit, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, int | None]:
        """The offsets of the times of a limit; None where no record is late enough."""
        times = times_ms(limit, self.folders if partitions is None else partitions)
        return {
            partition: _at(self.listed[partition], time, self.latest[partition]) for partition, time in times.items()
        }

    def ranges(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> list[Range]:
        """First and end offsets as tasks read them: with their folders and sizes."""
        return [
            Range(partition, start, end, _size(self.listed[partition], start, end), str(self.folders[partition]))
            for partition, (start, end) in spans.items()
            if end > start
        ]


def resolve(options: ReadOptions, wanted: Wanted) -> list[Range]:
    """The ranges that a batch is to read of what is wanted, with the offsets that hold now.

    Raises:
        FileNotFoundError: the directory or a topic in it does not exist.
        ValueError, DataLoss: the options do not fit what the topics have.
    """
    found = _look(options)
    spans = settle(options, found.earliest, found.latest, found.at(options.starting), found.at(options.ending))
    spans = wanted.narrow(spans, {})
    if wanted.since_ms is not None:
        spans = wanted.narrow(spans, found.at(Timestamp(wanted.since_ms), spans))
    return found.ranges(spans)


def starting(options: ReadOptions) -> Beginning:
    """Where a new stream begins, as of now. Raises what `resolve` does."""
    found = _look(options)
    return settle_start(options, found.earliest, found.latest, found.at(options.starting))


def latest(options: ReadOptions, known: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Where the partitions end now, whatever is `known` from earlier."""
    return _look(options, begun=True).latest


def earliest(options: ReadOptions, wanted: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Where these partitions begin now; those that do not exist are left out."""
    found = _look(options, begun=True).earliest if wanted else {}
    return {partition: found[partition] for partition in wanted if partition in found}


def ranges(options: ReadOptions, spans: Mapping[TopicPartition, tuple[int, int]]) -> list[Range]:
    """These offsets, first and end of each partition, as tasks read them."""
    folders = _folders(options, begun=True)
    listed = _listed(folders, options)
    if gone := {each: span for each, span in spans.items() if each not in listed}:
        names = ", ".join(map(str, sorted(gone)))
        if options.fail_on_data_loss:
            raise FileNotFoundError(f"{_named(options)} has no {names} any more")
        log.warning("%s has no %s any more, offsets %s are left out", _named(options), names, list(gone.values()))
    return Found(folders, listed, {}, {}).ranges({each: span for each, span in spans.items() if each in listed})


def _look(options: ReadOptions, *, begun: bool = False) -> Found:
    """The partitions that are meant and exist. `begun` says that some have been read."""
    folders = _folders(options, begun=begun)
    listed = _listed(folders, options)
    folders = {partition: folders[partition] for partition in listed}
    starts = _checkpointed(folders, LOG_STARTS)
    first = {
        partition: max(starts[partition], each[0].base_offset if each else 0) for partition, each in listed.items()
    }
    last = {partition: max(first[partition], end_offset(each)) for partition, each in listed.items()}
    if not options.up_to_log_end:
        marks = _checkpointed(folders, HIGH_WATERMARKS)
        last = {partition: max(first[partition], min(end, marks[partition])) for partition, end in last.items()}
    if options.read_committed:
        last = {
            partition: max(first[partition], _stable(folders[partition], listed[partition], end))
            for partition, end in last.items()
        }
    return Found(folders, listed, first, last)


def _listed(folders: Mapping[TopicPartition, Path], options: ReadOptions) -> dict[TopicPartition, list[Segment]]:
    """The segments of partitions; those of a pattern that are deleted meanwhile are left out."""
    found: dict[TopicPartition, list[Segment]] = {}
    for partition, folder in folders.items():
        try:
            found[partition] = segments(folder)
        except FileNotFoundError:
            if options.topics.pattern is None and options.fail_on_data_loss:
                raise
    return found


def _checkpointed(folders: Mapping[TopicPartition, Path], name: str) -> dict[TopicPartition, int]:
    """The offsets of partitions in a checkpoint file of their own data directories; 0 where there is none."""
    files = {root: read_checkpoint(root / name) for root in {folder.parent for folder in folders.values()}}
    return {partition: files[folder.parent].get(partition, 0) for partition, folder in folders.items()}


def _named(options: ReadOptions) -> str:
    return ", ".join(options.paths)


def _folders(options: ReadOptions, *, begun: bool) -> dict[TopicPartition, Path]:
    """The folders of the partitions that are meant and exist. `begun` says that some have been read."""
    topics = options.topics
    found: dict[TopicPartition, Path] = {}
    for partition, folder in _all_folders(options.paths):
        if partition in topics.partitions if topics.partitions is not None else topics.matches(partition.topic):
            if partition in found:
                raise ValueError(f"{partition} is in {found[partition].parent} and in {folder.parent}")
            found[partition] = folder
    named: set[object] = set(topics.partitions or topics.names or ())
    missing = named - (set(found) if topics.partitions is not None else {each.topic for each in found})
    if missing and not (begun and not options.fail_on_data_loss):
        raise FileNotFoundError(f"{_named(options)} has no {', '.join(sorted(map(str, missing)))}")
    return found


def _all_folders(paths: Sequence[str]) -> Iterator[tuple[TopicPartition, Path]]:
    for root in map(Path, paths):
        if not root.is_dir():
            raise FileNotFoundError(f"there is no directory {root}")
        for folder in root.iterdir():
            topic, dash, number = folder.name.rpartition("-")
            if dash and number.isdecimal() and folder.is_dir():
                yield TopicPartition(topic, int(number)), folder


def _stable(folder: Path, listed: list[Segment], end: int) -> int:
    """Where readers of committed records stop, of what ends at `end`."""
    return last_stable_offset(folder, listed[0].base_offset, end, partial(batches, listed)) if listed else end


def _at(listed: list[Segment], timestamp_ms: int, latest: int) -> int | None:
    offset = offset_at(listed, timestamp_ms)
    return offset if offset is not None and offset < latest else None


def _size(listed: list[Segment], start: int, end: int) -> int:
    """About how many bytes lie between two offsets, by the indexes."""
    size = 0
    for number, segment in enumerate(listed):
        following = listed[number + 1].base_offset if number + 1 < len(listed) else end + 1
        if following <= start or segment.base_offset >= end:
            continue
        first = segment.position_of(start) if segment.base_offset < start else 0
        # Without an index the position is 0.
        last = (segment.position_of(end) if end < following else 0) or segment.size_bytes
        size += max(0, last - first)
    return max(1, size)


def read(options: ReadOptions, ranges: Sequence[Range], names: Sequence[str]) -> Iterator["pa.RecordBatch"]:
    """The records of these ranges, one range after the other."""
    skipped = Skipped(options.corrupt_report) if options.skip_corrupt else None
    for each in ranges:
        yield from _read_range(options, each, names, skipped)


def _read_range(
    options: ReadOptions, part: Range, names: Sequence[str], skipped: Skipped | None
) -> Iterator["pa.RecordBatch"]:
    assert isinstance(part.source, str)
    folder = Path(part.source)
    columns = Columns.of(options, part, names, skipped)
    vanished = None
    while not columns.done:
        at = columns.next_offset
        try:
            listed = segments(folder)
        except FileNotFoundError:
            _cut(options, part, columns, "is gone")
            continue
        current = [segment for segment in listed if segment.base_offset <= at][-1:]
        following = [segment for segment in listed if segment.base_offset > at]
        if not current and following:
            _lost(options, part, at, following[0].base_offset)
            columns.skip_to(following[0].base_offset)
            continue
        if not current or current[0].path == vanished:
            _cut(options, part, columns, f"ends before offset {at}")
            continue
        try:
            aborted = None
            if options.read_committed:
                # At each segment anew: compaction takes both the batches and what is said of them.
                found = aborted_transactions(folder, at, part.end)
                aborted = [(each.producer_id, each.first_offset) for each in found]
            rest = yield from _read_segment(columns, current[0], at, aborted)
        except FileNotFoundError:
            # Deleted between the listing and the reading: list again.
            vanished = current[0].path
            continue
        if columns.done:
            break
        if rest is not None and (following or skipped is not None):
            end = following[0].base_offset if following else part.end
            _unreadable(columns, part, rest, end, skipped, options.advice)
        elif following:
            # What a segment lacks at its end, compaction took away.
            columns.skip_to(max(columns.next_offset, following[0].base_offset))
        elif columns.next_offset == at:
            _cut(options, part, columns, f"ends at offset {at}")
    yield from columns.rest()


def _read_segment(
    columns: Columns, segment: Segment, offset: int, aborted: list[tuple[int, int]] | None
) -> Generator["pa.RecordBatch", None, str | None]:
    """Yields the rows of a segment from an offset on. Returns the place in it after which no batch can be found, or
    None if it was read to its end.
    """
    position = segment.position_of(offset)
    for stretch in segment.stretches(position):
        yield from columns.decode(stretch.data, aborted, str(segment.path), stretch.position)
        aborted = None  # it holds for those that follow
        stretch.used = columns.position
        position = stretch.position + stretch.used
        if columns.done:
            return None
    return None if position >= segment.size_bytes else f"{segment.path} at byte {position}"


def _unreadable(columns: Columns, part: Range, place: str, end: int, skipped: Skipped | None, advice: Advice) -> None:
    """The rest of a segment, up to the offset `end`, in which no batch can be found."""
    topic, partition = part.partition
    place = f"{place}, and all after it in this file"
    found = Damage(topic, partition, columns.next_offset, end - 1, None, place)
    problem = "its length is not that of a batch"
    if skipped is None:
        raise DamagedBatch(f"{found}: {problem}{advice.damage}")
    skipped.note(found, problem)
    columns.skip_to(max(columns.next_offset, end))


def _lost(options: ReadOptions, part: Range, wanted: int, first: int) -> None:
    """Raises or warns: the offsets to be read next were deleted by age or size after the query was planned."""
    if options.fail_on_data_loss:
        raise DataLoss(
            f"{part.partition} begins at offset {first} by now, and {wanted} is to be read next"
            f"{options.advice.data_loss}"
        )
    log.warning("%s begins at offset %d by now: %d to %d are left out", part.partition, first, wanted, first)


def _cut(options: ReadOptions, part: Range, columns: Columns, what: str) -> None:
    """The partition is gone or has less than when the query was planned: its topic was deleted, and maybe made anew."""
    if options.fail_on_data_loss:
        raise DataLoss(
            f"{part.partition} {what}, but {part.end} was there when the query was planned{options.advice.data_loss}"
        )
    log.warning("%s %s: offsets %d to %d are left out", part.partition, what, columns.next_offset, part.end)
    columns.skip_to(part.end)
