"""The common part of the three formats of tables."""

import fcntl
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import pyarrow as pa

from ottla.client import TopicPartition
from ottla.controller.names import check_name
from ottla.errors import InvalidTopic
from ottla.pipelines.frame.config import PipelineError

Format = Literal["parquet", "delta", "iceberg"]
FILE_NAME = re.compile(r"_?ottla-(\d+)-.*\.parquet")


class Conflict(PipelineError):
    """Somebody else committed this batch to the table meanwhile: two loaders must not write the same table."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A complete, synced Parquet file. `path` is relative to the table; `date` is YYYY-MM-DD, `hour` 0 to 23, UTC."""

    path: str
    topic: str
    date: str
    hour: int
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Position:
    """The last committed batch (0: none yet), and the offset to read on from in each partition."""

    epoch: int = 0
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)


class Table(Protocol):
    """One table. Only one process may write to it; a second one gets `Conflict` at its commit."""

    #: True if files hold the column `topic`, rather than the name of their folder alone.
    has_topic_column: bool
    #: The beginning of the names of files that are not committed yet.
    staged_prefix: str

    def position(self, partitions: Iterable[TopicPartition]) -> Position:
        """Where the table is with these partitions; those that it knows nothing of are left out."""

    def schema(self) -> pa.Schema | None:
        """The columns of the files, None before the first batch."""

    def recover(self) -> int:
        """Ends what a killed process left: finishes the last commit, removes the files of one that did not come to
        be. Returns how many were removed. Called once, before the first batch.
        """

    def commit(self, position: Position, files: Sequence[DataFile], schema: pa.Schema) -> None:
        """Adds the files and moves to `position`, at once. `schema` has the columns of the table so far and new ones.

        Raises:
            Conflict: the table is not at `position.epoch - 1` any more.
        """


def uncommitted(location: Path, epoch: int) -> list[Path]:
    """Data files of batches after `epoch`, which a killed process has left."""
    found = []
    for path in location.rglob("*ottla-*.parquet"):
        name = FILE_NAME.fullmatch(path.name)
        if name and int(name[1]) > epoch:
            found.append(path)
    return found


@contextmanager
def only_loader(location: Path) -> Iterator[None]:
    """Keeps a second loader on this machine away for as long as the block lasts: it would remove our unfinished files.

    Raises:
        Conflict: there is one already. What a killed one held is free at once.
    """
    location.mkdir(parents=True, exist_ok=True)
    with (location / "_ottla.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Conflict(f"another process loads {location} just now; let only one do it") from None
        yield


def folder(topic: str, date: str, hour: int) -> str:
    """The folder of a topic's hour, in the form that Hive, Spark and pyarrow read as columns.

    Raises:
        PipelineError: the topic's name, which brokers tell, is none that a topic may have.
    """
    try:
        check_name(topic)
    except InvalidTopic as problem:
        raise PipelineError(f"the brokers named a topic that cannot be: {problem}") from None
    return f"topic={topic}/date={date}/hour={hour:02}"
