"""Compares the replicas of a topic, which must hold the same log, read from their folders without any code of this
project's own.

Replicas of a topic that is not compacted hold the same batches byte by byte, where their offsets overlap: old segments
go at different times, so that one log may begin later. A batch is compared by its offsets, its leader epoch and its
CRC, which covers all but offset and epoch. Each CRC is computed anew.

Each replica of a compacted topic is cleaned by its own broker, at its own time. What they have in common is what a
reader of committed records ends up with: the last value of each key, and the end of the log.
"""

import re
import struct
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import crc32c

from tests.faults.checker import Operation, Outcome, Send
from tests.peers.segments import Batch, batches, stored
from tests.support.waiting import eventually

CRC_COVERS_FROM = 21
TRANSACTIONAL, CONTROL = 0x10, 0x20
COMMIT = 1
SHOWN = 5


class Row(NamedTuple):
    """The fields of a batch that are compared."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int


class Last(NamedTuple):
    """The last record of a key; the value of a tombstone is None, as that of a key that is gone."""

    offset: int
    value: bytes | None


def logs_equal(directories: Sequence[Path], *topics: str, compacted: bool = False, replicas: int | None = None) -> None:
    """Fails with the first differences unless all replicas in these log directories are equal, within a few seconds:
    followers fetch the last batch a moment after the leader has it.

    `replicas` is how many of each partition there must be; without it, one in each directory.
    """
    wanted = len(directories) if replicas is None else replicas
    for topic in topics:
        found = eventually(
            f"{wanted} replicas of {topic} are equal",
            lambda topic=topic: not differences(directories, topic, compacted=compacted, replicas=wanted),  # type: ignore[misc]
            facts=lambda topic=topic: differences(directories, topic, compacted=compacted, replicas=wanted),  # type: ignore[misc]
        )
        assert found


def differences(
    directories: Sequence[Path], topic: str, *, compacted: bool = False, replicas: int | None = None
) -> list[str]:
    """The differences between the replicas, in words; empty if they are equal."""
    wanted = len(directories) if replicas is None else replicas
    compare = _by_key if compacted else _by_batch
    folders = partitions(directories, topic)
    if not folders:
        return [f"no replica of {topic} in {', '.join(map(str, directories))}"]
    told: list[str] = []
    for index, copies in sorted(folders.items()):
        if len(copies) != wanted:
            told.append(f"{topic}-{index}: {len(copies)} replicas instead of {wanted}")
        for other in copies[1:]:
            told += [f"{topic}-{index}: {what}" for what in compare(copies[0], other)][:SHOWN]
    return told


def partitions(directories: Sequence[Path], topic: str) -> dict[int, list[Path]]:
    """The folders of each partition's replicas, in the order of the log directories."""
    found: dict[int, list[Path]] = defaultdict(list)
    for directory in directories:
        for folder in directory.iterdir() if directory.exists() else ():
            if match := re.fullmatch(re.escape(topic) + r"-(\d+)", folder.name):
                found[int(match[1])].append(folder)
    return found


def rows(folder: Path) -> list[Row]:
    """The batches of a replica, each with a CRC that is right."""
    found = []
    for batch, data in stored(folder, live=True):
        computed = crc32c.crc32c(data[CRC_COVERS_FROM:])
        assert computed == batch.crc, f"{folder}: the batch at {batch.base_offset} has CRC {batch.crc}, not {computed}"
        found.append(Row(batch.base_offset, batch.base_offset + batch.last_offset_delta, batch.leader_epoch, batch.crc))
    return found


def sent_anew(folder: Path, offsets: Sequence[int]) -> bool:
    """True if a producer itself wrote a record again, at each of these offsets under a higher epoch than before.

    Then a broker has no means to know the record. librdkafka does so when leaders change (librdkafka 4953): it may send
    to the new leader before the old one has refused what is on its way there. The new leader refuses that in its turn,
    since what comes between is missing. All is sent anew under the next epoch, with what was written in the end.
    """
    found = [
        (batch.producer_id, batch.producer_epoch)
        for offset in sorted(offsets)
        for batch in batches(folder, live=True)
        if batch.base_offset <= offset <= batch.base_offset + batch.last_offset_delta
    ]
    producers = {producer for producer, _ in found}
    epochs = [epoch for _, epoch in found]
    return len(found) == len(offsets) and len(producers) == 1 and -1 not in producers and epochs == sorted({*epochs})


def misplaced(directories: Sequence[Path], history: Iterable[Operation], *topics: str) -> list[str]:
    """The fate of each acknowledged record of these topics that is not in every replica at the offset at which it was
    acknowledged: whether it is at another offset, only in some replicas, or lost. One that retention has taken away
    counts as there, and so does one without an offset (`load.offset_of`) that is there at any.
    """
    sent: dict[tuple[str, int], list[Send]] = defaultdict(list)
    for operation in history:
        for step in operation.steps if operation.outcome is Outcome.OK else ():
            if isinstance(step, Send):
                sent[step.partition].append(step)  # type: ignore[index]
    told: list[str] = []
    for topic in topics:
        for index, folders in sorted(partitions(directories, topic).items()):
            replicas = {folder: values(folder) for folder in folders}
            starts = {folder: _log_start(folder) for folder in folders}
            offsets: dict[Path, dict[bytes | None, list[int]]] = {folder: defaultdict(list) for folder in folders}
            for folder, rows_ in replicas.items():
                for offset, value in rows_.items():
                    offsets[folder][value].append(offset)
            for send in sent[topic, index]:
                value, offset = str(send.value).encode(), send.offset
                there = [
                    value in offsets[folder]
                    if offset is None
                    else offset < starts[folder] or rows_.get(offset) == value
                    for folder, rows_ in replicas.items()
                ]
                if not all(there):
                    places = {folder.parent: offsets[folder].get(value, []) for folder in folders}
                    holds = {
                        folder.parent: rows_.get(-1 if offset is None else offset) for folder, rows_ in replicas.items()
                    }
                    what = "is lost: it is in no replica"
                    if any(places.values()):
                        what = "is not in all replicas" if any(there) else "is at another offset"
                    told.append(
                        f"{topic}-{index}: {send.value}, acknowledged at {offset}, {what}; replicas have it at "
                        f"{_by_name(places)} and {_by_name(holds)} at its offset"
                    )
    return told


def _by_name(found: dict[Path, Any]) -> dict[str, Any]:
    return {f"{folder.parent.name}/{folder.name}": what for folder, what in found.items()}


def values(folder: Path) -> dict[int, bytes | None]:
    """The values of all records by offset, those of aborted transactions too; no markers."""
    return {
        offset: value
        for batch, data in stored(folder, live=True)
        if not batch.attributes & CONTROL
        for offset, _, value in _records(data)
    }


def high_watermarks(data: Path, topic: str) -> dict[int, int]:
    """Of the topic's partitions, as a broker has written them down."""
    lines = (data / "replication-offset-checkpoint").read_text().splitlines()[2:]
    rows = (line.rsplit(" ", 2) for line in lines)
    return {int(index): int(offset) for name, index, offset in rows if name == topic}


def _by_batch(one: Path, other: Path) -> Iterator[str]:
    first, second = rows(one), rows(other)
    places = f"{one.parent} and {other.parent}"
    begin = max((log[0].base_offset if log else _log_start(folder)) for log, folder in ((first, one), (second, other)))
    first, second = ([row for row in log if row.base_offset >= begin] for log in (first, second))
    for mine, theirs in zip(first, second, strict=False):
        if mine != theirs:
            yield f"{places}: {mine} and {theirs}"
    if len(first) != len(second):
        extra = max(first, second, key=len)[min(len(first), len(second))]
        yield f"{places}: {len(first)} and {len(second)} batches from {begin} on; only one has {extra}"


def _log_start(folder: Path) -> int:
    """Of a log without batches: its name says where its only segment begins."""
    return min((int(path.stem) for path in folder.glob("*.log")), default=0)


def _by_key(one: Path, other: Path) -> Iterator[str]:
    places = f"{one.parent} and {other.parent}"
    (first, end), (second, other_end) = last_values(one), last_values(other)
    if end != other_end:
        yield f"{places}: they end at {end} and {other_end}"
    for key in sorted(first.keys() | second.keys()):
        mine, theirs = first.get(key), second.get(key)
        if (mine.value if mine else None) != (theirs.value if theirs else None):
            yield f"{places}: {key!r} is {mine} and {theirs}"


def last_values(folder: Path) -> tuple[dict[bytes, Last], int]:
    """The last committed record of each key, and the offset after the last batch.

    A transaction without a marker counts as committed: when the cleaner takes a marker away, what was aborted is gone
    before.
    """
    found: dict[bytes, Last] = {}
    open_: dict[int, list[Callable[[], None]]] = defaultdict(list)
    end = 0
    for batch, data in stored(folder, live=True):
        end = batch.base_offset + batch.last_offset_delta + 1
        if batch.attributes & CONTROL:
            waiting = open_.pop(batch.producer_id, [])
            if _marker(batch, data) == COMMIT:
                for put in waiting:
                    put()
            continue
        for offset, key, value in _records(data):
            assert key is not None, f"{folder}: the record at {offset} has no key, so the topic is not compacted"
            put = _putting(found, key, Last(offset, value))
            if batch.attributes & TRANSACTIONAL:
                open_[batch.producer_id].append(put)
            else:
                put()
    for waiting in open_.values():
        for put in waiting:
            put()
    return found, end


def _putting(found: dict[bytes, Last], key: bytes, last: Last) -> Callable[[], None]:
    """A transaction ends after records that others wrote later: the higher offset wins, whenever it is put."""

    def put() -> None:
        if key not in found or found[key].offset < last.offset:
            found[key] = last

    return put


def _marker(batch: Batch, data: bytes) -> int:
    """The type of a marker: its only record's key holds a version and the type."""
    if batch.record_count == 0:
        return COMMIT  # cleaned, and only its batch is left
    ((_, key, _),) = _records(data)
    assert key is not None
    version_and_type: tuple[int, int] = struct.unpack(">hh", key)
    return version_and_type[1]


def _records(data: bytes) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of a batch, by somebody else's code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from kafka.record.memory_records import MemoryRecords

    batches = MemoryRecords(data)
    while batches.has_next():
        for record in batches.next_batch():
            yield record.offset, record.key, record.value
