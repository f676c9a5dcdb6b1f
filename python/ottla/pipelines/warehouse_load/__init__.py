"""Topics into a warehouse: each record once, in Parquet by topic, date and hour, resumed from the table itself.

Activity is produced to be looked at later: reports, models, audits. Loading it by hand fails in two ways: a job that
dies between writing files and noting how far it came loads twice or loses, and a producer that adds a field breaks the
table. Here files and offsets are committed together (`ottla.pipelines.tables`), and who is killed starts again where
the table is; JSON values become columns, and new fields new columns (`json_columns`).

Records pass from the broker, or from its log files, through Rust into Arrow and into Parquet inside Spark's tasks; the
JVM only hands out the work. `date` and `hour` are those of the record's time, UTC.

What is guaranteed: each record below the offsets that the table names is in the table once; none above. If records
were deleted before they were loaded, the load stops and says so. It does not guarantee an order within an hour.
"""

from ottla.pipelines.warehouse_load.load import EXAMPLE, Config, Loaded, run

__all__ = ["EXAMPLE", "Config", "Loaded", "run"]
