"""The content of a log's files as plain rows (dicts), file by file, for people and for programs.

Rows have `file` and, by the file's kind:

| file | rows |
|---|---|
| `.log`, `.checkpoint` (KRaft's snapshots of metadata) | one per batch: position, size_bytes, base_offset, last_offset, records, compression, max_timestamp_ms, leader_epoch, producer_id, producer_epoch, base_sequence, flags, crc; damage if the checksum is another |
| | with records: one per record after its batch: offset, timestamp_ms, key, value, headers; of a transaction's marker: marker (commit or abort), coordinator_epoch |
| `.index` | offset, position |
| `.timeindex` | timestamp_ms, offset |
| `.txnindex` | aborted transactions: producer_id, first_offset, last_offset (the marker's), last_stable_offset |
| `.snapshot` | producer_id, producer_epoch, first_sequence and last_sequence of its last batch, last_offset, last_timestamp_ms, coordinator_epoch, transaction_start |
| a checkpoint | its lines, as `line` |
"""  # noqa: E501

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from ottla import _core
from ottla.errors import KafkaError, counted

Row = dict[str, Any]

MAGIC_AT = 16
"""Where a batch, and a message of the formats before it, says its format."""

BATCHES_MAX = 10_000
"""How many batches are listed at once."""

OFFSET_MAX = (1 << 63) - 1

INDEXES = {
    ".index": ("offset", ("offset", "position"), 8),
    ".timeindex": ("time", ("timestamp_ms", "offset"), 12),
}
"""The kind of an index, the fields of its entries, and how many bytes each has."""

CHECKPOINTS = (
    "leader-epoch-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "partition.metadata",
    "meta.properties",
    "quorum-state",
)


def files(path: str) -> list[str]:
    """What `rows` can show below a file or a folder, in reading order."""
    if not os.path.isdir(path):
        return [path]
    found = []
    for folder, folders, names in os.walk(path):
        folders.sort()
        suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
        found += [os.path.join(folder, name) for name in sorted(names) if name.endswith(suffixes)]
        found += [os.path.join(folder, name) for name in CHECKPOINTS if name in names]
    return found


def rows(path: str, *, records: bool = False) -> Iterator[Row]:
    """The content of one file. What cannot be read is a last row with `position` and `damage`."""
    stem, suffix = os.path.splitext(os.path.basename(path))
    if suffix in (".log", ".checkpoint"):
        yield from _batches(path, records)
        return
    with open(path, "rb") as file:
        data = file.read()
    match suffix:
        case ".index" | ".timeindex":
            if stem.isdecimal() and int(stem) <= OFFSET_MAX:
                yield from _index(path, data, int(stem), suffix)
            else:
                yield {"file": path, "position": 0, "damage": "it is not named by an offset: no index of a log"}
        case ".txnindex":
            yield from _aborted(path, data)
        case ".snapshot":
            yield from _producers(path, data)
        case _:
            for line in data.decode(errors="replace").splitlines():
                yield {"file": path, "line": line}


def _batches(path: str, records: bool) -> Iterator[Row]:
    position = 0
    with open(path, "rb") as file:
        while True:
            batches, damage = _core.scan_segment(path, position, BATCHES_MAX)
            for batch in batches:
                position = batch.position + batch.size_bytes
                file.seek(batch.position)
                data = file.read(batch.size_bytes)
                row = _batch(path, batch)
                if (damage_in_it := _damage(data)) is not None:
                    row["damage"] = damage_in_it
                yield row
                if records and damage_in_it is None:
                    yield from _marker(path, data) if batch.is_control else _records(path, data)
            if damage is not None:
                yield {"file": path, "position": position, "damage": damage}
                return
            if len(batches) < BATCHES_MAX:
                return


def _batch(path: str, batch: _core.BatchInfo) -> Row:
    flags = [
        name
        for name, is_set in (
            ("transactional", batch.is_transactional),
            ("control", batch.is_control),
            ("log-append-time", batch.is_log_append_time),
        )
        if is_set
    ]
    return {
        "file": path,
        "position": batch.position,
        "size_bytes": batch.size_bytes,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "records": batch.record_count,
        "compression": batch.compression,
        "max_timestamp_ms": batch.max_timestamp_ms,
        "leader_epoch": batch.leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "flags": flags,
        "crc": batch.crc,
    }


def _damage(batch: bytes) -> str | None:
    """What is wrong with a batch whose frame is whole: its checksum. Old messages have one each."""
    try:
        if batch[MAGIC_AT] >= 2:
            _core.read_batches(batch)
        else:
            for _ in _core.RecordReader(batch):
                pass
    except KafkaError as error:
        return str(error)
    return None


def _records(path: str, batch: bytes) -> Iterator[Row]:
    try:
        for record in _core.RecordReader(batch, with_control=True):
            yield {
                "file": path,
                "offset": record.offset,
                "timestamp_ms": record.timestamp_ms,
                "key": _text(record.key),
                "value": _text(record.value),
                "headers": [[name, _text(value)] for name, value in record.headers],
            }
    except KafkaError as error:
        yield {"file": path, "damage": str(error)}


def _marker(path: str, batch: bytes) -> Iterator[Row]:
    """A control batch: its record's key is a version and a type, the value a version and the coordinator's epoch."""
    try:
        for record in _core.RecordReader(batch, with_control=True):
            row: Row = {"file": path, "offset": record.offset, "timestamp_ms": record.timestamp_ms}
            if record.key is None or record.value is None or len(record.key) < 4 or len(record.value) < 6:
                yield {"file": path, "damage": f"the record at {record.offset} is no marker"}
                continue
            kind, epoch = int.from_bytes(record.key[2:4], signed=True), int.from_bytes(record.value[2:6], signed=True)
            yield {**row, "marker": {0: "abort", 1: "commit"}.get(kind, str(kind)), "coordinator_epoch": epoch}
    except KafkaError as error:
        yield {"file": path, "damage": str(error)}


def _index(path: str, data: bytes, base_offset: int, suffix: str) -> Iterator[Row]:
    """The entries up to the first that is none: those of an index come in order, from the segment's first offset on."""
    kind, names, entry_bytes = INDEXES[suffix]
    before = (0, 0)
    for number, entry in enumerate(_core.read_index(data, base_offset, kind)):
        row = dict(zip(names, entry, strict=True))
        if row["offset"] < base_offset or any(now < then for now, then in zip(entry, before, strict=True)):
            damage = "it is no entry of an index in order; an index is made anew by `ottla log repair`"
            yield {"file": path, "position": number * entry_bytes, "damage": damage}
            return
        before = entry
        yield {"file": path, **row}
    if rest := len(data) % entry_bytes:
        damage = f"{counted(rest, 'byte is', 'bytes are')} no whole entry of {entry_bytes} bytes"
        yield {"file": path, "position": len(data) - rest, "damage": damage}


def _aborted(path: str, data: bytes) -> Iterator[Row]:
    found, unread = _core.read_transaction_index(data)
    names = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
    for entry in found:
        yield {"file": path, **{name: getattr(entry, name) for name in names}}
    if unread is not None:
        yield {"file": path, "position": unread, "damage": "no entry of a known version"}


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")


def _producers(path: str, data: bytes) -> Iterator[Row]:
    names = (
        "producer_id",
        "producer_epoch",
        "first_sequence",
        "last_sequence",
        "last_offset",
        "last_timestamp_ms",
        "coordinator_epoch",
        "transaction_start",
    )
    try:
        for entry in _core.read_producer_snapshot(data):
            yield {"file": path, **{name: getattr(entry, name) for name in names}}
    except ValueError as error:
        yield {"file": path, "position": 0, "damage": str(error)}
