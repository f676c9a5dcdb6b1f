"""A stretch of one partition, and where it is found: the unit of reading once ends are known."""

from dataclasses import dataclass

from ottla.kafka import TopicPartition


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets `start` to before `end` of one partition. `size_bytes` is an estimate and never 0.

    `source` says where a reader finds it: host and port of the leader, or the folder of the partition.
    """

    partition: TopicPartition
    start: int
    end: int
    size_bytes: int
    source: tuple[str, int] | str

    @property
    def offsets(self) -> int:
        """How many offsets; there may be fewer records."""
        return self.end - self.start
