"""The columns, in the names, types and order of Spark's Kafka source.

| column        | type      | meaning                                                                       |
|---------------|-----------|-------------------------------------------------------------------------------|
| key, value    | binary    | null where the record has none                                                |
| topic         | string    |                                                                               |
| partition     | int       |                                                                               |
| offset        | long      |                                                                               |
| timestamp     | timestamp | milliseconds of the record; null only with timestamps=null                    |
| timestampType | int       | 0 CreateTime (the producer's), 1 LogAppendTime (the broker's)                 |
| headers       | array     | only with includeHeaders=true: key and value; null where the record has none  |
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.reading.layout import Layout

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

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

# Spark's throughput is flat between ten and fifty thousand rows a batch, and falls where a batch leaves the caches.
ROWS_MAX = 20_000
BYTES_MAX = 8 * 1024 * 1024

# The decoder's names.
DECODED = {
    "key": "key",
    "value": "value",
    "offset": "offset",
    "timestamp": "timestamp",
    "timestampType": "timestamp_type",
    HEADERS: "headers",
}


def names(include_headers: bool, chosen: str | None = None) -> tuple[str, ...]:
    """All columns, or those of the option `columns`, which has names with commas.

    Raises:
        ValueError: there is no such column, or one is named twice.
    """
    known = _known(include_headers)
    if chosen is None:
        return tuple(known)
    wanted = [name.strip() for name in chosen.split(",")]
    spelled = {name.lower(): name for name in known}
    if (wrong := next((name for name in wanted if name.lower() not in spelled), None)) is not None:
        hint = " (headers needs includeHeaders=true)" if wrong.lower() == HEADERS else ""
        raise ValueError(f"columns: there is no column '{wrong}'{hint}; there are {', '.join(known)}")
    if len({name.lower() for name in wanted}) < len(wanted):
        raise ValueError(f"columns: one is named twice: '{chosen}'")
    return tuple(spelled[name.lower()] for name in wanted)


def struct(chosen: Sequence[str]) -> "StructType":
    """The schema of these columns. Types are given as objects: what a word such as `timestamp` means, the session's
    setting spark.sql.timestampType says.
    """
    from pyspark.sql import types

    header = [types.StructField("key", types.StringType()), types.StructField("value", types.BinaryType())]
    kinds = {
        "key": types.BinaryType(),
        "value": types.BinaryType(),
        "topic": types.StringType(),
        "partition": types.IntegerType(),
        "offset": types.LongType(),
        "timestamp": types.TimestampType(),
        "timestampType": types.IntegerType(),
        HEADERS: types.ArrayType(types.StructType(header)),
    }
    return types.StructType([types.StructField(name, kinds[name]) for name in chosen])


def _known(include_headers: bool) -> dict[str, str]:
    return {**COLUMNS, HEADERS: HEADERS_TYPE} if include_headers else COLUMNS


def check(schema: Any, include_headers: bool) -> tuple[str, ...]:
    """The names of a schema that the user gave: any of the columns in any order, with these types.

    `schema` is a `pyspark.sql.types.StructType`. A user's schema is how columns are left out: Spark does not tell
    Python sources which columns a query uses.

    Raises:
        ValueError: an unknown column, one twice, or one with another type.
    """
    known = _known(include_headers)
    found: list[str] = []
    for field in schema.fields:
        if field.name == HEADERS and not include_headers:
            raise ValueError("the column headers needs the option includeHeaders=true")
        if field.name not in known:
            raise ValueError(f"there is no column '{field.name}'; there are {', '.join(known)}")
        if (given := field.dataType.simpleString()) != known[field.name]:
            hint = (
                "; where spark.sql.timestampType is TIMESTAMP_NTZ, a schema in words says timestamp_ltz"
                if given == "timestamp_ntz"
                else ""
            )
            raise ValueError(f"the column {field.name} is of type {known[field.name]}, not {given}{hint}")
        if field.name in found:
            raise ValueError(f"the column {field.name} is asked for twice")
        found.append(field.name)
    return tuple(found)


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


def layout(names: Sequence[str]) -> Layout:
    """How records are decoded into these columns."""
    return Layout(arrow(names), DECODED, "us", ROWS_MAX, BYTES_MAX)
