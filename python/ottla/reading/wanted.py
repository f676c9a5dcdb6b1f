"""Conditions that leave out some of what a read means: by topic, partition, offset and time. No I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.kafka import TopicPartition

OFFSET_MAX = (1 << 63) - 1
NUMBERS = ("partition", "offset")


@dataclass(slots=True)
class Wanted:
    """The topics, partitions, offsets and times that conditions leave. Without conditions: everything."""

    topics: frozenset[str] | None = None
    bounds: dict[str, tuple[int, int]] = field(default_factory=lambda: dict.fromkeys(NUMBERS, (0, OFFSET_MAX)))
    among: dict[str, frozenset[int]] = field(default_factory=dict)
    since_ms: int | None = None

    def partitions(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of which anything is wanted."""
        low, high = self.bounds["partition"]
        among = self.among.get("partition")
        return [
            each
            for each in partitions
            if (self.topics is None or each.topic in self.topics)
            and low <= each.partition <= high
            and (among is None or each.partition in among)
        ]

    def narrow(
        self, spans: Mapping[TopicPartition, tuple[int, int]], since: Mapping[TopicPartition, int | None]
    ) -> dict[TopicPartition, tuple[int, int]]:
        """The first and end offsets of each partition that the conditions leave; partitions without any are not in it.
        `since` has the offsets of the lowest time, None where there is no such record.
        """
        low, high = self.bounds["offset"]
        among = self.among.get("offset")
        if among is not None:
            low, high = (max(low, min(among)), min(high, max(among))) if among else (1, 0)
        found = {}
        for partition in self.partitions(spans):
            start, end = spans[partition]
            first = since.get(partition, start)
            start, end = max(start, low, end if first is None else first), min(end, high + 1)
            if start < end:
                found[partition] = start, end
        return found
