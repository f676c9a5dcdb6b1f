"""The columns, in the names, types and order of Spark's Kafka source.

| column        | type      | meaning                                                                       |
|---------------|-----------|-------------------------------------------------------------------------------|
| key, value    | binary    | null where the record has none                                                |
| topic         | string    |                                                                               |
| partition     | int       |                                                                               |
| offset        | long      |                                                                               |
| timestamp     | timestamp | milliseconds of the record                                                    |
| timestampType | int       | 0 CreateTime (the producer's), 1 LogAppendTime (the broker's)                 |
| headers       | array     | only with includeHeaders=true: key and value; null where the record has none  |
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
HEADERS = "headers"
HEADERS_TYPE = "array<struct<key:string,value:binary>>"


def ddl(include_headers: bool) -> str:
    """The whole schema in Spark's DDL."""
    columns = {**COLUMNS, HEADERS: HEADERS_TYPE} if include_headers else COLUMNS
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def check(schema: Any, include_headers: bool) -> tuple[str, ...]:
    """The names of a schema that the user gave: any of the columns in any order, with these types.

    `schema` is a `pyspark.sql.types.StructType`. A user's schema is how columns are left out: Spark does not tell
    Python sources which columns a query uses.

    Raises:
        ValueError: an unknown column, one twice, or one with another type.
    """
    known = {**COLUMNS, HEADERS: HEADERS_TYPE} if include_headers else COLUMNS
    names = []
    for field in schema.fields:
        if field.name == HEADERS and not include_headers:
            raise ValueError("the column headers needs the option includeHeaders=true")
        if field.name not in known:
            raise ValueError(f"there is no column '{field.name}'; there are {', '.join(known)}")
        if (given := field.dataType.simpleString()) != known[field.name]:
            raise ValueError(f"the column {field.name} is of type {known[field.name]}, not {given}")
        if field.name in names:
            raise ValueError(f"the column {field.name} is asked for twice")
        names.append(field.name)
    return tuple(names)


def arrow(names: Sequence[str]) -> "pa.Schema":
    """The Arrow schema that Spark demands of record batches with these columns, exactly."""
    import pyarrow as pa

    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        HEADERS: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    }
    return pa.schema([(name, types[name]) for name in names])
