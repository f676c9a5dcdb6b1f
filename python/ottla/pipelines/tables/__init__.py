"""Tables of Parquet files in which data and read positions are committed together.

A batch is a list of files, a number (its epoch) and the offsets up to which it has read; `commit` makes all of that
visible at once or nothing of it. Who resumes asks the table where it is, and so cannot be out of step with it.

| module     | format                                                              | positions are in            |
|------------|---------------------------------------------------------------------|-----------------------------|
| `manifest` | plain Parquet in folders `topic=/date=/hour=`, and a manifest of ours | `_offsets/<epoch>.json`   |
| `delta`    | Delta Lake, through `deltalake`                                     | the log's `txn` actions     |
| `iceberg`  | Apache Iceberg, through `pyiceberg`                                 | the table's properties      |
"""

from ottla.pipelines.tables.opening import open_table
from ottla.pipelines.tables.table import Conflict, DataFile, Position, Table, only_loader

__all__ = ["Conflict", "DataFile", "Position", "Table", "only_loader", "open_table"]
