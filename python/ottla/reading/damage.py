"""Batches that cannot be read: where they are, and a record of those that were left out.

A batch with a wrong checksum still says, most likely truly, how long it is, which is where the next one begins: its
length is not under the checksum, but if it were wrong no batch would follow there. A length that cannot be true ends a
segment: what comes after cannot be found, and is left out as a whole.
"""

import json
import logging
import struct
from dataclasses import asdict, dataclass
from pathlib import Path

from ottla.client import TopicPartition

log = logging.getLogger(__name__)

# Base offset, length of what follows; partition leader epoch, magic, checksum; attributes, last offset delta.
HEADER = struct.Struct(">qiibIhi")
BASE_OFFSET = struct.Struct(">q")
MAGIC_AT, MAGIC_MAX = 16, 2
OVERHEAD_BYTES = 12
BATCH_BYTES_MIN = 61
RECORD_COUNT = struct.Struct(">i")
RECORD_COUNT_AT = 57


class DamagedBatch(Exception):
    """A batch whose bytes are not what its producer sent."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A batch that cannot be read. `size_bytes` is None if not even that is known, `last_offset` a guess."""

    topic: str
    partition: int
    offset: int
    last_offset: int
    size_bytes: int | None
    place: str

    def __str__(self) -> str:
        return f"the batch with offset {self.offset} of {self.topic}-{self.partition} ({self.place}) is damaged"


def damage(data: memoryview, position: int, partition: TopicPartition, place: str) -> Damage:
    """Describes the damaged batch that begins at a position of the data, by as much of its header as is plausible."""
    whole = len(data) - position >= BATCH_BYTES_MIN
    header = bytes(data[position : position + BATCH_BYTES_MIN]).ljust(BATCH_BYTES_MIN, b"\0")
    base, length, _, _, _, _, delta = HEADER.unpack_from(header)
    size = OVERHEAD_BYTES + length
    plausible = whole and BATCH_BYTES_MIN <= size <= len(data) - position and _follows(data, position + size, base)
    (count,) = RECORD_COUNT.unpack_from(header, RECORD_COUNT_AT)
    # Unless compaction took some, there are as many records as offsets; otherwise trust only the first.
    last = base + delta if plausible and count == delta + 1 else base
    return Damage(partition.topic, partition.partition, base, last, size if plausible else None, place)


def _follows(data: memoryview, position: int, base: int) -> bool:
    """True if a batch may begin at this position: what is there looks like one of higher offset, or is too short to
    tell.
    """
    following = bytes(data[position : position + MAGIC_AT + 1])
    if len(following) <= MAGIC_AT:
        return True
    (base_offset,) = BASE_OFFSET.unpack_from(following)
    return bool(base_offset > base) and following[MAGIC_AT] <= MAGIC_MAX


class Skipped:
    """The damaged batches that one task left out. Each is a warning in the log of the worker, and with a folder also a
    file there, the same when a task is repeated.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = None if folder is None else Path(folder)
        self.batches = 0
        self._last: tuple[str, int, int] | None = None

    def note(self, found: Damage, problem: object) -> None:
        """Counts and reports a batch, once even if it is met again."""
        key = (found.topic, found.partition, found.offset)
        if key == self._last:
            return
        self._last = key
        self.batches += 1
        log.warning("skipped, number %d in this task: %s: %s", self.batches, found, problem)
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            name = f"{found.topic}-{found.partition}-{found.offset:020}.json"
            (self._folder / name).write_text(json.dumps({**asdict(found), "problem": str(problem)}) + "\n")
