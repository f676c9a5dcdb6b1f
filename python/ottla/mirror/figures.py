"""Figures of a flow, for metrics and for its status."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.kafka import TopicPartition


@dataclass(slots=True)
class Figures:
    """The work of a flow so far; `positions` and `ends` are of the source's partitions."""

    records: int = 0
    bytes: int = 0
    batches: int = 0
    unopened: int = 0
    errors: int = 0
    #: How old the newest record of the last commit was when it was committed; None if that is not known.
    latency_s: float | None = None
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def lag(self) -> int:
        """How many offsets of the source's partitions are not copied yet."""
        return sum(self.lags().values())

    def lags(self) -> dict[TopicPartition, int]:
        """The same of each partition of which the end is known."""
        return {each: max(0, end - self.positions.get(each, 0)) for each, end in self.ends.items()}
