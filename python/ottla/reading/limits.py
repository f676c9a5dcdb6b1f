"""Where a read starts and ends, before brokers or files are asked."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.kafka import TopicPartition


@dataclass(frozen=True, slots=True)
class Everywhere:
    """The same offset for all partitions; `EARLIEST` and `LATEST` are allowed."""

    offset: int


@dataclass(frozen=True, slots=True)
class Offsets:
    """An offset for each partition; `EARLIEST` and `LATEST` are allowed."""

    of: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Timestamp:
    """The first record at or after this time, in all partitions."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Timestamps:
    """The first record at or after a time, for each partition."""

    of_ms: Mapping[TopicPartition, int]


Limit = Everywhere | Offsets | Timestamp | Timestamps
