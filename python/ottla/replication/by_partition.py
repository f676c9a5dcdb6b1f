"""What a broker has of each partition, with what it has of one topic, or in one directory, found without a look at all:
a request may change the settings of thousands of topics, or make them.

These are dictionaries that know a little more. They are changed by `d[key] = value`, `del d[key]` and
`d.pop(key, None)` alone.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from ottla.kafka import PartitionKey

if TYPE_CHECKING:
    from ottla.replication.data_directory import DataDirectory

T = TypeVar("T")


class ByPartition(dict[PartitionKey, T]):
    """Something of each partition."""

    def __init__(self) -> None:
        super().__init__()
        self._of_topics: dict[str, set[int]] = {}

    def of_topic(self, topic: str) -> list[T]:
        """What there is of a topic's partitions."""
        return [self[topic, index] for index in self._of_topics.get(topic, ())]

    def __setitem__(self, key: PartitionKey, value: T) -> None:
        super().__setitem__(key, value)
        topic, index = key
        self._of_topics.setdefault(topic, set()).add(index)

    def __delitem__(self, key: PartitionKey) -> None:
        super().__delitem__(key)
        topic, index = key
        indexes = self._of_topics[topic]
        indexes.remove(index)
        if not indexes:
            del self._of_topics[topic]

    def pop(self, key: PartitionKey, default: T | None = None) -> T | None:  # type: ignore[override]  # one form of it
        value = self.get(key, default)
        if key in self:
            del self[key]
        return value


class Homes(dict[PartitionKey, "DataDirectory"]):
    """The directory of each partition's log."""

    def __init__(self) -> None:
        super().__init__()
        #: How many logs are in each directory.
        self.counts: Counter[DataDirectory] = Counter()

    def __setitem__(self, key: PartitionKey, home: DataDirectory) -> None:
        self.pop(key, None)
        super().__setitem__(key, home)
        self.counts[home] += 1

    def __delitem__(self, key: PartitionKey) -> None:
        self.counts[self[key]] -= 1
        super().__delitem__(key)

    def pop(self, key: PartitionKey, default: None = None) -> DataDirectory | None:  # type: ignore[override]  # the same
        home = self.get(key)
        if home is not None:
            del self[key]
        return home
