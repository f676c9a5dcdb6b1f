"""A partition's folder as files, read beside a broker that goes on writing it: nothing is locked, opened for writing
or recovered.

`ottla.log.Log` is the whole log; opening it reads the unflushed end again. A Spark task needs less: which segments
there are, about where in a file an offset is, and the bytes from there. Indexes are taken as hints. A live writer
preallocates them with zeros and a crash may leave anything behind the last flush, so a position counts only if a batch
with a fitting offset is there; otherwise the file is read from its start.

| file                          | contents                                                                       |
|-------------------------------|--------------------------------------------------------------------------------|
| BASE.log                      | record batches, back to back; BASE is the first offset in 20 digits            |
| BASE.index                    | entries of 8 bytes: offset - BASE, position                                    |
| BASE.timeindex                | entries of 12 bytes: greatest timestamp so far, offset - BASE of that record   |
| replication-offset-checkpoint | in the data directory: version 0, count, then lines "topic partition offset"   |
"""

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ottla import _core
from ottla.client import TopicPartition
from ottla.errors import KafkaError

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
LOG_OVERHEAD_BYTES = 12
HEADER_BYTES = 61
BASE_OFFSET = slice(0, 8)
BATCH_LENGTH = slice(8, 12)
MAGIC, MAGIC_V2 = 16, 2
READ_BYTES = 1024 * 1024
LOG, SWAP, CLEANED = ".log", ".log.swap", ".cleaned"


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment's files, as they were when the folder was listed. One that is about to take its place (`.swap`) has
    no indexes here.
    """

    base_offset: int
    path: Path
    size_bytes: int

    def position_of(self, offset: int) -> int:
        """A position at or before the batch with this offset."""
        at = _last(self.path.with_suffix(".index"), OFFSET_ENTRY, lambda entry: entry[0] <= offset - self.base_offset)
        if at is None:
            return 0
        position = int(at[1])
        with self.path.open("rb", buffering=0) as file:
            header = os.pread(file.fileno(), HEADER_BYTES, position)
        base = int.from_bytes(header[BASE_OFFSET], "big", signed=True)
        is_batch = len(header) == HEADER_BYTES and header[MAGIC] == MAGIC_V2
        return position if is_batch and self.base_offset <= base <= offset else 0

    def offset_before(self, timestamp_ms: int) -> int:
        """An offset up to which, itself included, all records are older; one before the first if that is not known."""
        at = _last(self.path.with_suffix(".timeindex"), TIME_ENTRY, lambda entry: entry[0] < timestamp_ms)
        return self.base_offset + (-1 if at is None else int(at[1]))

    def stretches(self, position: int) -> Iterator["Stretch"]:
        """The file's bytes from a position on, which must be the start of a batch, in stretches of whole batches.

        A batch that is cut off at the end of the file is left out. All stretches share their memory: use one before
        the next.
        """
        buffer = bytearray(READ_BYTES)
        with self.path.open("rb", buffering=0) as file:
            while count := os.preadv(file.fileno(), [buffer], position):
                stretch = Stretch(memoryview(buffer)[:count], position)
                yield stretch
                if stretch.used:
                    position += stretch.used
                    continue
                # Not even one whole batch: the rest of a file, or a batch larger than the buffer.
                length = LOG_OVERHEAD_BYTES + int.from_bytes(buffer[BATCH_LENGTH], "big", signed=True)
                if count < LOG_OVERHEAD_BYTES or not count < length <= self.size_bytes - position:
                    return
                buffer = bytearray(length)


@dataclass(slots=True)
class Stretch:
    """Some bytes of a segment. Whoever reads them says in `used` how many, up to the end of the last whole batch."""

    data: memoryview
    position: int
    used: int = 0


def segments(folder: Path) -> list[Segment]:
    """The segments of a partition, in order; those being deleted are left out.

    A compaction may be putting a segment in the place of others: from when it is there as `.swap` it counts, and they
    do not, whether they are still there or not. (One that has a `.cleaned` at or before it is part of a split that may
    yet be undone.)
    """
    names = _names(folder)
    # While files are renamed a listing may have both names or neither: what it says counts once it says it twice.
    while (again := _names(folder)) != names:
        names = again
    unfinished = min((_base(name) for name in names if name.endswith(CLEANED)), default=None)
    found = [segment for name in names if name.endswith(LOG) and (segment := _segment(folder, name)) is not None]
    for name in names:
        if name.endswith(SWAP) and (unfinished is None or _base(name) < unfinished):
            new = _segment(folder, name)
            if new is None:
                return segments(folder)  # it took its place meanwhile
            end = end_offset([new])
            covered = range(new.base_offset, max(end, new.base_offset + 1))
            found = [*(old for old in found if old.base_offset not in covered), new]
    return sorted(found, key=lambda segment: segment.base_offset)


def _names(folder: Path) -> list[str]:
    """The names of the folder's files that say what its segments are, in the order of their offsets."""
    found = (entry.name for entry in os.scandir(folder))
    return sorted(name for name in found if name.endswith((LOG, SWAP, CLEANED)) and name.split(".", 1)[0].isdecimal())


def _base(name: str) -> int:
    return int(name.split(".", 1)[0])


def _segment(folder: Path, name: str) -> Segment | None:
    path = folder / name
    try:
        return Segment(_base(name), path, path.stat().st_size)
    except FileNotFoundError:
        return None


def end_offset(listed: list[Segment]) -> int:
    """The offset after the last whole and undamaged batch of a partition's segments."""
    if not listed:
        return 0
    last = listed[-1]
    end = last.base_offset
    for stretch in last.stretches(last.position_of(1 << 62)):
        try:
            batches = _core.read_batches(stretch.data)
        except KafkaError:
            break
        for batch in batches:
            end = batch.last_offset + 1
            stretch.used = batch.position + batch.size_bytes
    return end


def batches(listed: list[Segment], offset: int) -> Iterator[_core.BatchInfo]:
    """The headers of the batches, from the one with this offset on; up to the first that is damaged."""
    for number, segment in enumerate(listed):
        if number + 1 < len(listed) and listed[number + 1].base_offset <= offset:
            continue
        for stretch in segment.stretches(segment.position_of(offset)):
            try:
                found = _core.read_batches(stretch.data, check_crc=False)
            except KafkaError:
                return
            for batch in found:
                stretch.used = batch.position + batch.size_bytes
                if batch.last_offset >= offset:
                    yield batch


def offset_at(listed: list[Segment], timestamp_ms: int) -> int | None:
    """The first offset whose record is at or after a time; None if all are older."""
    for segment in listed:
        start = segment.offset_before(timestamp_ms) + 1
        for stretch in segment.stretches(segment.position_of(start)):
            for batch in _core.read_batches(stretch.data, check_crc=False):
                stretch.used = batch.position + batch.size_bytes
                if batch.max_timestamp_ms < timestamp_ms or batch.last_offset < start or batch.is_control:
                    continue
                for record in _core.RecordReader(stretch.data[batch.position : stretch.used]):
                    if record.timestamp_ms >= timestamp_ms:
                        return record.offset
    return None


def read_checkpoint(path: Path) -> dict[TopicPartition, int]:
    """The offsets of a checkpoint file; none if there is no file, or an empty one, as Kafka creates it.

    Raises:
        ValueError: it is not a checkpoint of version 0.
    """
    try:
        lines = path.read_text().split("\n")
    except FileNotFoundError:
        return {}
    if lines == [""]:
        return {}
    if len(lines) < 2 or lines[0] != "0" or not lines[1].isdecimal():
        raise ValueError(f"{path} is not a checkpoint of version 0")
    offsets = {}
    for line in lines[2 : 2 + int(lines[1])]:
        topic, _, rest = line.partition(" ")
        partition, _, offset = rest.partition(" ")
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets


def _last(path: Path, entry: struct.Struct, fits: Callable[[tuple[int, ...]], bool]) -> tuple[int, ...] | None:
    """The last entry of an index that fits, where entries ascend and those that fit come first; zeros are no entries.
    None without one, or without the file. Reads a few entries: the indexes of a large log do not fit into a moment.
    """
    try:
        file = path.open("rb", buffering=0)
    except FileNotFoundError:
        return None
    found = None
    with file:
        low, high = 0, os.fstat(file.fileno()).st_size // entry.size
        while low < high:
            middle = (low + high) // 2
            data = os.pread(file.fileno(), entry.size, middle * entry.size)
            # A broker that closes a segment cuts its indexes off behind the last entry.
            values = entry.unpack(data) if len(data) == entry.size else (0,)
            if values[0] > 0 and fits(values):
                low, found = middle + 1, values
            else:
                high = middle
    return found
