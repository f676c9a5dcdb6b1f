"""Delta Lake: files, offsets and epoch in one commit of the table's log.

Each partition's next offset is the version of a Delta transaction, `ottla:<topic>/<partition>`. Those live in the
log's checkpoints for ever, whatever else is committed to the table (OPTIMIZE, DELETE) or cleaned from its history,
and Delta refuses a commit if somebody else has moved one of them meanwhile. New columns are added by a commit of their
own, just before: they are empty until there are files with them.
"""

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from ottla.client import TopicPartition
from ottla.pipelines.tables.arrow import plain
from ottla.pipelines.tables.table import Conflict, DataFile, Position, uncommitted

FOLDERS = pa.schema([("topic", pa.string()), ("date", pa.date32()), ("hour", pa.int32())])
EPOCH = "ottla:epoch"


class Delta:
    """See the module, and `Table`."""

    has_topic_column = False
    staged_prefix = ""

    def __init__(self, location: Path) -> None:
        self.location = location
        self._table = DeltaTable(location) if DeltaTable.is_deltatable(str(location)) else None

    def position(self, partitions: Iterable[TopicPartition]) -> Position:
        """See `Table`."""
        if self._table is None:
            return Position()
        offsets = {}
        for partition in partitions:
            if (offset := self._table.transaction_version(_name(partition))) is not None:
                offsets[partition] = offset
        return Position(self._epoch(), offsets)

    def _epoch(self) -> int:
        return 0 if self._table is None else self._table.transaction_version(EPOCH) or 0

    def schema(self) -> pa.Schema | None:
        """See `Table`."""
        if self._table is None:
            return None
        whole = plain(pa.schema(self._table.schema().to_arrow()))
        return pa.schema([each for each in whole if each.name not in FOLDERS.names])

    def recover(self) -> int:
        """See `Table`."""
        left = uncommitted(self.location, self._epoch())
        for path in left:
            path.unlink()
        return len(left)

    def commit(self, position: Position, files: Sequence[DataFile], schema: pa.Schema) -> None:
        """See `Table`."""
        known = self.schema()
        if self._table is None:
            whole = Schema.from_arrow(pa.schema([*schema, *FOLDERS]))
            self._table = DeltaTable.create(self.location, schema=whole, partition_by=FOLDERS.names, mode="ignore")
        elif known is not None and (new := [each for each in schema if each.name not in known.names]):
            self._table.alter.add_columns(Schema.from_arrow(pa.schema(new)).fields)
        if self._epoch() != position.epoch - 1:
            raise Conflict(f"{self.location} is at batch {self._epoch()} already: let only one process load it")
        transactions = [Transaction(EPOCH, position.epoch)]
        transactions += [Transaction(_name(partition), offset) for partition, offset in position.offsets.items()]
        try:
            self._table.create_write_transaction(
                [_added(file) for file in files],
                mode="append",
                schema=self._table.schema(),
                partition_by=FOLDERS.names,
                commit_properties=CommitProperties(app_transactions=transactions),
            )
        except CommitFailedError as problem:
            raise Conflict(f"{self.location}: {problem} Let only one process load it") from None
        self._table.update_incremental()


def _name(partition: TopicPartition) -> str:
    return f"ottla:{partition.topic}/{partition.partition}"


def _added(file: DataFile) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values={"topic": file.topic, "date": file.date, "hour": str(file.hour)},
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=json.dumps({"numRecords": file.rows}),
    )
