"""Which partitions a read means."""

import re
from dataclasses import dataclass

from ottla.kafka import INTERNAL_TOPICS, TopicPartition


@dataclass(frozen=True, slots=True)
class Topics:
    """Which partitions are meant: of exactly one of the three kinds the value is not None."""

    names: tuple[str, ...] | None = None
    pattern: str | None = None
    partitions: frozenset[TopicPartition] | None = None
    unwanted: frozenset[str] = INTERNAL_TOPICS
    """Topics that a pattern never means."""

    def matches(self, topic: str) -> bool:
        """True if the topic is among them; a pattern must match the whole name, as in Java's `matches()`."""
        if self.names is not None:
            return topic in self.names
        if self.pattern is not None:
            return topic not in self.unwanted and re.fullmatch(self.pattern, topic) is not None
        assert self.partitions is not None
        return any(partition.topic == topic for partition in self.partitions)
