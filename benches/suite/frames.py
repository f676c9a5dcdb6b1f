"""Requests that are encoded before a run, and what a consumer has to find after it."""

from __future__ import annotations

import random
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from ottla._core import crc32c, encode_batch, encode_fetch_request, encode_produce_request
from ottla.wire.headers import request_frame

PRODUCE, FETCH = (0, 7), (1, 11)
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Frame:
    """One Produce request: where it is, and what is in it."""

    path: Path
    partition: int
    records: int
    value_bytes: int
    checksum: int
    """The sum of the values' CRC-32Cs."""


def values(size_bytes: int, count: int, seed: int = 0) -> list[bytes]:
    """Random capital letters, as in Java's perf tool: the same ones in every run."""
    source = random.Random(seed)
    return [bytes(source.choices(LETTERS, k=size_bytes)) for _ in range(count)]


def batch_of(contents: list[bytes], compression: str = "none") -> bytes:
    now_ms = time.time_ns() // 1_000_000
    return encode_batch([(now_ms, None, value, ()) for value in contents], compression=compression)


def produce_frame(
    folder: Path,
    topic: str,
    value_bytes: int,
    records: int = 1,
    *,
    partition: int = 0,
    acks: int = 1,
    compression: str = "none",
) -> Frame:
    """A Produce request of one batch, in a file."""
    contents = values(value_bytes, records, seed=partition)
    batch = batch_of(contents, compression)
    body = encode_produce_request(PRODUCE[1], None, acks, 30_000, [(topic, partition, batch)])
    path = folder / f"produce-{topic}-{partition}-{acks}"
    path.write_bytes(request_frame(*PRODUCE, 1, "bench", body))
    return Frame(path, partition, records, value_bytes * records, sum(map(crc32c, contents)))


def fetch_frame(folder: Path, topic: str, bytes_max: int, partitions: int = 1, offset: int = 0) -> Path:
    """A Fetch request for each partition from an offset on."""
    asked = [(topic, index, offset, bytes_max, -1, -1, -1) for index in range(partitions)]
    body = encode_fetch_request(FETCH[1], asked, max_wait_ms=500, min_bytes=1, max_bytes=bytes_max)
    path = folder / f"fetch-{topic}"
    path.write_bytes(request_frame(*FETCH, 1, "bench", body))
    return path


def echo_frame(folder: Path) -> Path:
    """64 bytes that look like a small request, for servers that answer anything."""
    path = folder / "echo"
    path.write_bytes(struct.pack(">ihhih", 64, 3, 1, 7, 5) + b"bench".ljust(54, b"\0"))
    return path
