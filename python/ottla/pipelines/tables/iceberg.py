"""Apache Iceberg: files, offsets, epoch and new columns in one commit to a catalog in SQLite beside the data.

Offsets and epoch are properties of the table: those of a snapshot vanish when old snapshots are expired. Iceberg's
client repeats a commit that somebody else has overtaken, which would count their rows and ours; here it may not.
"""

import base64
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.transforms import HourTransform, IdentityTransform

from ottla.client import TopicPartition
from ottla.pipelines.tables.table import Conflict, DataFile, Position, uncommitted

NAME = "ottla.records"
EPOCH, OFFSETS, SCHEMA = "ottla.epoch", "ottla.offsets", "ottla.schema"
PROPERTIES = {"commit.retry.num-retries": "0"}


class Iceberg:
    """See the module, and `Table`. The catalog is `catalog.db`, the table `ottla.records` in it."""

    has_topic_column = True
    staged_prefix = ""

    def __init__(self, location: Path) -> None:
        self.location = location.resolve()
        self._uri = f"file://{self.location}"
        self.catalog = SqlCatalog("ottla", uri=f"sqlite:///{self.location}/catalog.db", warehouse=self._uri)
        self.catalog.create_namespace_if_not_exists("ottla")
        try:
            self._table = self.catalog.load_table(NAME)
        except NoSuchTableError:
            self._table = None

    def _property(self, name: str, default: str) -> str:
        return default if self._table is None else self._table.properties.get(name, default)

    def position(self, partitions: Iterable[TopicPartition]) -> Position:
        """See `Table`."""
        offsets = json.loads(self._property(OFFSETS, "{}"))
        found = {each: offsets.get(each.topic, {}).get(str(each.partition)) for each in partitions}
        known = {each: offset for each, offset in found.items() if offset is not None}
        return Position(int(self._property(EPOCH, "0")), known)

    def schema(self) -> pa.Schema | None:
        """See `Table`."""
        text = self._property(SCHEMA, "")
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))) if text else None

    def recover(self) -> int:
        """See `Table`."""
        left = uncommitted(self.location, int(self._property(EPOCH, "0")))
        for path in left:
            path.unlink()
        return len(left)

    def commit(self, position: Position, files: Sequence[DataFile], schema: pa.Schema) -> None:
        """See `Table`."""
        if self._table is None:
            self._table = self._create(schema)
        if (epoch := int(self._property(EPOCH, "0"))) != position.epoch - 1:
            raise Conflict(f"{self.location} is at batch {epoch} already: let only one process load it")
        offsets = json.loads(self._property(OFFSETS, "{}"))
        for partition, offset in position.offsets.items():
            offsets.setdefault(partition.topic, {})[str(partition.partition)] = offset
        properties = {
            EPOCH: str(position.epoch),
            OFFSETS: json.dumps(offsets),
            SCHEMA: base64.b64encode(schema.serialize().to_pybytes()).decode(),
        }
        try:
            with self._table.transaction() as transaction:
                with transaction.update_schema() as update:
                    update.union_by_name(schema)
                transaction.set_properties(properties)
                paths = [f"{self._uri}/{file.path}" for file in files]
                # The check reads all manifests, and names of files have their batch and a random part in them.
                transaction.add_files(paths, check_duplicate_files=False)
        except CommitFailedException as problem:
            raise Conflict(f"{self.location}: {problem}; let only one process load it") from None

    def _create(self, schema: pa.Schema) -> Table:
        time = "_timestamp" if "_timestamp" in schema.names else "timestamp"
        table = self.catalog.create_table(NAME, schema, location=self._uri, properties=PROPERTIES)
        with table.update_spec() as update:
            update.add_field("topic", IdentityTransform(), "topic_folder")
            update.add_field(time, HourTransform(), "hour_folder")
        return table
