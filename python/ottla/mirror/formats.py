"""The records of a mirror's own topics, as MirrorMaker 2 writes them (its classes Heartbeat, OffsetSync, Checkpoint).

| topic                       | in     | key                        | value                             |
|-----------------------------|--------|----------------------------|-----------------------------------|
| heartbeats                  | target | source alias, target alias | version 0, time in ms             |
| mm2-offset-syncs.T.internal | source | topic, partition           | offsets in source and target      |
| S.checkpoints.internal      | target | group, topic, partition    | version 0, both offsets, metadata |

The topic of a checkpoint is the target's. Strings are an int16 length and UTF-8, numbers big-endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self

from ottla.errors import CorruptMessage
from ottla.kafka import TopicPartition

VERSION: Final = 0


class _Reader:
    """The fields of one key or value, in order."""

    def __init__(self, what: str, data: bytes | None) -> None:
        self._what = what
        self._data = data or b""
        self._at = 0

    def number(self, kind: str) -> int:
        (value,) = struct.unpack(f">{kind}", self._take(struct.calcsize(f">{kind}")))
        return int(value)

    def text(self) -> str:
        length = self.number("h")
        try:
            return self._take(max(length, 0)).decode()
        except UnicodeDecodeError as error:
            raise CorruptMessage(f"{self._what}: {error}") from None

    def version(self) -> None:
        version = self.number("h")
        if version != VERSION:
            raise CorruptMessage(f"{self._what}: version {version} is not known")

    def _take(self, length: int) -> bytes:
        part = self._data[self._at : self._at + length]
        if len(part) < length:
            raise CorruptMessage(f"{self._what}: it ends after {len(self._data)} bytes")
        self._at += length
        return part


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">h", len(data)) + data


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """That a mirror from one cluster to another was alive at a time, in milliseconds since 1970."""

    source: str
    target: str
    timestamp_ms: int

    def key(self) -> bytes:
        return _text(self.source) + _text(self.target)

    def value(self) -> bytes:
        return struct.pack(">hq", VERSION, self.timestamp_ms)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """Raises CorruptMessage."""
        names, time = _Reader("the key of a heartbeat", key), _Reader("a heartbeat", value)
        time.version()
        return cls(names.text(), names.text(), time.number("q"))


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """That the record at one offset of a source partition is at another in its mirror."""

    partition: TopicPartition
    upstream: int
    downstream: int

    def key(self) -> bytes:
        return _text(self.partition.topic) + struct.pack(">i", self.partition.partition)

    def value(self) -> bytes:
        return struct.pack(">qq", self.upstream, self.downstream)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """Raises CorruptMessage."""
        name, offsets = _Reader("the key of an offset sync", key), _Reader("an offset sync", value)
        return cls(TopicPartition(name.text(), name.number("i")), offsets.number("q"), offsets.number("q"))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a group of the source goes on in the target. `partition` is the target's."""

    group: str
    partition: TopicPartition
    upstream: int
    downstream: int
    metadata: str = ""

    def key(self) -> bytes:
        return _text(self.group) + _text(self.partition.topic) + struct.pack(">i", self.partition.partition)

    def value(self) -> bytes:
        return struct.pack(">hqq", VERSION, self.upstream, self.downstream) + _text(self.metadata)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """Raises CorruptMessage."""
        names, offsets = _Reader("the key of a checkpoint", key), _Reader("a checkpoint", value)
        offsets.version()
        return cls(
            names.text(),
            TopicPartition(names.text(), names.number("i")),
            offsets.number("q"),
            offsets.number("q"),
            offsets.text(),
        )
