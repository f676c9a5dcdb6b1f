"""The records that a consumer has polled and not given yet: an iterator gives them one by one.

What is in hand counts as not read. So it is given first, its offsets are not committed, and a partition that goes, is
paused or is sought elsewhere is taken out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Generic, Protocol, TypeVar

from ottla.kafka import TopicPartition


class Placed(Protocol):
    """A record that has a place."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...


R = TypeVar("R", bound=Placed)


class Hand(Generic[R]):
    """`records` from `at` on are still to be given."""

    __slots__ = ("at", "records")

    def __init__(self) -> None:
        self.records: list[R] = []
        self.at = 0

    def take(self, records: list[R]) -> None:
        """Has these, and no others."""
        self.records, self.at = records, 0

    def rest(self) -> list[R]:
        """The records that are still to be given."""
        return self.records[self.at :]

    def put_down(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Gives no records of these partitions. Returns the offset of the first of each that had any."""
        rest = self.rest()
        firsts = {(record.topic, record.partition): record.offset for record in reversed(rest)}
        found = {each: firsts[each] for each in partitions if each in firsts}
        if found:
            self.take([each for each in rest if (each.topic, each.partition) not in found])
        return found

    def next_offsets(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The same positions, as they are for what was given."""
        offsets = dict(positions)
        for record in reversed(self.rest()):
            partition = TopicPartition(record.topic, record.partition)
            if partition in offsets:
                offsets[partition] = min(offsets[partition], record.offset)
        return offsets
