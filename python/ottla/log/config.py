"""`LogConfig`: what a log is told about sizes, ages and formats, checked when it is made."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Literal

from ottla import _core

NO_LIMIT = 2**63 - 1

#: The least and the largest value of each number, as Kafka's topic settings have them.
_INT_MAX = 2**31 - 1
_RANGES: dict[str, tuple[float, float]] = {
    "segment_bytes": (14, _INT_MAX),
    "segment_ms": (1, NO_LIMIT),
    "segment_jitter_ms": (0, NO_LIMIT),
    "segment_index_bytes": (4, _INT_MAX),
    "index_interval_bytes": (0, _INT_MAX),
    "flush_messages": (1, NO_LIMIT),
    "flush_ms": (0, NO_LIMIT),
    "retention_bytes": (-1, NO_LIMIT),
    "retention_ms": (-1, NO_LIMIT),
    "max_message_bytes": (0, _INT_MAX),
    "message_format": (0, 2),
    "message_timestamp_difference_max_ms": (0, NO_LIMIT),
    "file_delete_delay_ms": (0, NO_LIMIT),
    "max_compaction_lag_ms": (1, NO_LIMIT),
    "min_compaction_lag_ms": (0, NO_LIMIT),
    "min_cleanable_dirty_ratio": (0.0, 1.0),
    "delete_retention_ms": (0, NO_LIMIT),
    "producer_id_expiration_ms": (1, NO_LIMIT),
}
_POLICIES = ("delete", "compact")
_COMPRESSIONS = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
_TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


@dataclass(frozen=True, kw_only=True)
class LogConfig:
    """The settings of one log: Kafka's topic settings by their names, with `_` for `.`, and Kafka 2.7's defaults.

    Sizes are bytes, times are milliseconds. Raises ValueError for a value that Kafka would refuse.

    >>> LogConfig(segment_bytes=1_000_000).segment_bytes
    1000000
    >>> LogConfig(segment_bytes=1)
    Traceback (most recent call last):
    ValueError: segment_bytes is 1; it must be from 14 to 2147483647
    """

    segment_bytes: int = 1 << 30
    """A segment that an append would make larger than this is closed, and the next one started."""
    segment_ms: int = 604_800_000
    """A segment is closed when its first record is so old (7 days)."""
    segment_jitter_ms: int = 0
    """At most so much less than `segment_ms`, at random for each segment: logs do not all roll at once."""
    segment_index_bytes: int = 10_485_760
    """The largest size of an offset or time index."""
    index_interval_bytes: int = 4096
    """An index entry is written for at least so many bytes of records."""
    flush_messages: int = NO_LIMIT
    """The log is flushed to the disk after so many records."""
    flush_ms: int = NO_LIMIT
    """The log is flushed to the disk when its oldest unflushed record is so old; brokers do that, a `Log` does not."""
    retention_bytes: int = -1
    """Old segments are deleted while the log is larger than this; -1 for no limit."""
    retention_ms: int = 604_800_000
    """Segments are deleted when their newest record is so old; -1 for no limit."""
    max_message_bytes: int = 1_048_588
    """The largest record batch."""
    message_format: int = 2
    """The format that is stored: 2 for record batches; 0 or 1 for the message sets of Kafka before 0.11."""
    compression_type: Literal["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"] = "producer"
    """What batches are compressed with; `producer` keeps what they came with."""
    message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = "CreateTime"
    """Whether records keep their own times or get that of their append."""
    message_timestamp_difference_max_ms: int = NO_LIMIT
    """A record whose time is further from now than this is refused."""
    file_delete_delay_ms: int = 60_000
    """Files of deleted segments are kept for so long."""
    cleanup_policy: str = "delete"
    """`delete`, `compact`, or both with a comma: what becomes of old records."""
    max_compaction_lag_ms: int = NO_LIMIT
    """A record is compacted at the latest when it is so old."""
    min_compaction_lag_ms: int = 0
    """A record is not compacted before it is so old."""
    min_cleanable_dirty_ratio: float = 0.5
    """A log is compacted when so large a share of it was written since the last time."""
    delete_retention_ms: int = 86_400_000
    """Tombstones stay for so long, so that readers see them."""
    producer_id_expiration_ms: int = 604_800_000
    """The state of a producer that has not written for so long is forgotten."""

    def __post_init__(self) -> None:
        for name, (least, largest) in _RANGES.items():
            value = getattr(self, name)
            kinds = (int, float) if isinstance(least, float) else (int,)
            if isinstance(value, bool) or not isinstance(value, kinds):
                raise TypeError(f"{name} is {value!r}; it must be a number")
            if not least <= value <= largest:
                raise ValueError(f"{name} is {value}; it must be from {least} to {largest}")
        _check_choice("compression_type", self.compression_type, _COMPRESSIONS)
        _check_choice("message_timestamp_type", self.message_timestamp_type, _TIMESTAMP_TYPES)
        for policy in self.cleanup_policy.split(","):
            _check_choice("cleanup_policy", policy.strip(), _POLICIES)

    @cached_property
    def native(self) -> _core.LogConfig:
        """The same for the native log."""
        return _core.LogConfig(**asdict(self))

    def __repr__(self) -> str:
        other = (field.name for field in fields(self) if getattr(self, field.name) != field.default)
        return f"LogConfig({', '.join(f'{name}={getattr(self, name)!r}' for name in other)})"


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(choices)}")
