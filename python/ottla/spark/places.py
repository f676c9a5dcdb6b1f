"""Where records are: in brokers or in a data directory. Both answer the same questions."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.client import TopicPartition
from ottla.reading.bounds import Beginning
from ottla.spark.filters import Wanted
from ottla.spark.options import ReadOptions
from ottla.spark.planning import Range

if TYPE_CHECKING:
    import pyarrow as pa


class Place(Protocol):
    """`ottla.reading.brokers` or `ottla.reading.directory`; what each function promises and raises stands there."""

    def resolve(self, options: ReadOptions, wanted: Wanted) -> list[Range]:
        """The ranges that a batch is to read of what is wanted."""

    def starting(self, options: ReadOptions) -> Beginning:
        """Where a new stream begins."""

    def latest(self, options: ReadOptions, known: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where the partitions end."""

    def earliest(self, options: ReadOptions, wanted: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Where partitions begin that exist."""

    def ranges(self, options: ReadOptions, spans: Mapping[TopicPartition, tuple[int, int]]) -> list[Range]:
        """Offsets with what a task needs to find them."""

    def read(self, options: ReadOptions, ranges: Sequence[Range], names: Sequence[str]) -> Iterator["pa.RecordBatch"]:
        """The records, inside a task."""


def place(options: ReadOptions) -> Place:
    """Where these options read. Imported only now: both need what is not needed to load the source."""
    if options.paths:
        from ottla.reading import directory

        return directory
    from ottla.reading import brokers

    return brokers
