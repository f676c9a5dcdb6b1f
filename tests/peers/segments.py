"""The contents of a log directory, read without any code of the project's own or of a client: headers of v2 batches.

offset  0 base_offset i64 | 8 length i32 (of all that follows) | 12 leader_epoch i32 | 16 magic i8 | 17 crc u32
offset 21 attributes i16 | 23 last_offset_delta i32 | 27 base_timestamp i64 | 35 max_timestamp i64
offset 43 producer_id i64 | 51 producer_epoch i16 | 53 base_sequence i32 | 57 record_count i32
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HEADER = struct.Struct(">qiibIhiqqqhii")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Batch(NamedTuple):
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def codec(self) -> str:
        return CODECS[self.attributes & 7]


def batches(partition: Path, *, live: bool = False) -> Iterator[Batch]:
    """Every batch of a partition's folder, in the order of its segments; the last of a live one may be half written."""
    return (batch for batch, _ in stored(partition, live=live))


def stored(partition: Path, *, live: bool = False) -> Iterator[tuple[Batch, bytes]]:
    """The same with all bytes of each batch, its header first."""
    for segment in sorted(partition.glob("*.log")):
        data, position = segment.read_bytes(), 0
        while position + HEADER.size <= len(data):
            batch = Batch(*HEADER.unpack_from(data, position))
            if batch.length == 0:
                break  # preallocated, not written
            start, position = position, position + 12 + batch.length
            if live and position > len(data):
                break
            assert position <= len(data), f"{segment} ends inside the batch at offset {batch.base_offset}"
            yield batch, data[start:position]


def cleaned_offset(data: Path, topic: str, partition: int = 0) -> int:
    """How far a partition is clean, as the checkpoint of its data directory says; 0 before its first cleaning."""
    path = data / "cleaner-offset-checkpoint"
    rows = [line.split() for line in path.read_text().splitlines()[2:]] if path.exists() else []
    return next((int(row[2]) for row in rows if row[:2] == [topic, str(partition)]), 0)
