"""The warehouse's side: which files a table of `warehouse_load` has, and how far it is loaded."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pyarrow as pa

from ottla.client import TopicPartition
from ottla.pipelines.frame.config import PipelineError
from ottla.pipelines.tables import Position, open_table
from ottla.pipelines.tables.table import Format, folder


class Warehouse(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table that `warehouse_load` writes."""

    location: str
    format: Format = "parquet"

    def look(self, partitions: Iterable[TopicPartition]) -> "Loaded":
        """The table as it is committed now.

        Raises:
            PipelineError: there is no table.
        """
        location = Path(self.location)
        if not location.is_dir():
            raise PipelineError(f"warehouse.location: there is no table {self.location}; warehouse_load makes it")
        table = open_table(self.format, location)
        position, schema = table.position(partitions), table.schema()
        if schema is None:
            raise PipelineError(
                f"warehouse.location: nothing is loaded into {self.location} yet, or not as {self.format}"
            )
        # Files are listed after the position: there are at least those of the records before it.
        return Loaded(position, schema, list(self._files(location)))

    def _files(self, location: Path) -> Iterator[str]:
        if self.format == "parquet":
            from ottla.pipelines.tables.manifest import Manifest

            yield from map(str, Manifest(location).files())
        elif self.format == "delta":
            from deltalake import DeltaTable

            yield from DeltaTable(location).file_uris()
        else:
            from ottla.pipelines.tables.iceberg import NAME, Iceberg

            for task in Iceberg(location).catalog.load_table(NAME).scan().plan_files():
                yield task.file.file_path


@dataclass(frozen=True, slots=True)
class Loaded:
    """A look at a table."""

    position: Position
    schema: pa.Schema
    files: list[str]

    def of(self, topic: str, start_ms: int, end_ms: int) -> list[str]:
        """The files of a topic's records of this time, and of some more. Those that were removed are left out: what was
        in them is missing.
        """
        hour = datetime.fromtimestamp(start_ms // 1000, UTC).replace(minute=0, second=0)
        folders = set()
        while hour.timestamp() * 1000 < end_ms:
            folders.add(folder(topic, f"{hour:%Y-%m-%d}", hour.hour))
            hour += timedelta(hours=1)
        return [
            path
            for path in self.files
            if "/".join(path.split("/")[-4:-1]) in folders and Path(path.removeprefix("file://")).exists()
        ]
