"""Results of a stream: a Parquet file per micro-batch, named by its number, so that a repeated batch changes nothing.

A file appears whole, by link(2), and never a second time. That makes the table exactly-once for any reader of its
folder: Spark repeats a batch after a crash with the same number and the same input.
"""

import json
import os
from pathlib import Path

import pyarrow as pa
from pyarrow import dataset, parquet

from ottla.pipelines.frame.config import PipelineError
from ottla.pipelines.tables.durable import sync

WRITER = "_query.json"


def query_id(checkpoint: Path) -> str:
    """The id of the streaming query whose checkpoint this is: the same in all its runs."""
    found: str = json.loads((checkpoint / "metadata").read_text())["id"]
    return found


class Results:
    """The folder `location`. It belongs to one streaming query, the one whose checkpoint is in `checkpoint`.

    Raises:
        PipelineError: at its first batch, if the table is another query's: batch numbers would mean something else.
    """

    def __init__(self, location: Path, checkpoint: Path) -> None:
        self.location = location
        self._checkpoint = checkpoint
        self._is_checked = False
        location.mkdir(parents=True, exist_ok=True)
        for left in location.glob("_*.new"):
            left.unlink()

    def has(self, batch: int) -> bool:
        """True if the batch is there already."""
        self._check()
        return self._path(batch).exists()

    def commit(self, batch: int, rows: pa.Table) -> None:
        """Adds a batch's rows; nothing if it is there already."""
        self._check()
        new = self.location / f"_{os.getpid()}.new"
        parquet.write_table(rows, new)
        sync(new)
        if not self._path(batch).exists():
            os.link(new, self._path(batch))
            sync(self.location)
        new.unlink()

    def read(self, before: int | None = None) -> pa.Table | None:
        """The rows of all batches, or of those `before` one; None if there are none."""
        paths = sorted(self.location.glob("batch-*.parquet"))
        if before is not None:
            paths = [path for path in paths if path.name < self._path(before).name]
        return dataset.dataset(paths).to_table() if paths else None

    def _path(self, batch: int) -> Path:
        return self.location / f"batch-{batch:010}.parquet"

    def _check(self) -> None:
        if self._is_checked:
            return
        query = query_id(self._checkpoint)
        mark = self.location / WRITER
        if mark.exists():
            if (written := json.loads(mark.read_text())["id"]) != query:
                raise PipelineError(
                    f"the table {self.location} was written with another checkpoint (query {written}) than "
                    f"{self._checkpoint} (query {query}): give it its own, or remove both to begin anew"
                )
        else:
            new = self.location / f"_{os.getpid()}.new"
            new.write_text(json.dumps({"id": query}))
            sync(new)
            new.replace(mark)
            sync(self.location)
        self._is_checked = True
