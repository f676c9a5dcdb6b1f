"""Rows as the sink takes them: the columns of Spark's Kafka sink, and their buffers as the encoder in Rust reads them.

| column    | type                                     |                                                            |
|-----------|------------------------------------------|------------------------------------------------------------|
| value     | string or binary                         | required; null is a record without value                   |
| key       | string or binary                         | chooses the partition, by Kafka's murmur2                  |
| topic     | string                                   | required without the option `topic`, which wins            |
| partition | int                                      | wins over the key; null leaves it to the key               |
| headers   | array<struct<key:string,value:binary>>   |                                                            |
| timestamp | timestamp                                | with includeTimestamp=true; else the time of writing       |

Other columns are ignored, as Spark's sink ignores them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.spark.schema import HEADERS_TYPE

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.spark.sink.options import WriteOptions

TYPES = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": (HEADERS_TYPE,),
    "partition": ("int",),
}
TIMESTAMP_TYPES = ("timestamp",)

_Binary = tuple[memoryview | None, memoryview | None, memoryview | None, int]


def check(schema: Any, options: WriteOptions) -> None:
    """Refuses a schema (a `pyspark.sql.types.StructType`) that Spark's Kafka sink refuses, in its words.

    Raises:
        ValueError: a column is missing or has a wrong type.
    """
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    if options.topic is None and "topic" not in found:
        raise ValueError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    if "value" not in found:
        raise ValueError("Required attribute 'value' not found.")
    types = dict(TYPES)
    if options.include_timestamp:
        types["timestamp"] = TIMESTAMP_TYPES
        if "timestamp" not in found:
            raise ValueError("includeTimestamp=true needs the column timestamp")
    for name, allowed in types.items():
        if name == "topic" and options.topic is not None:
            continue
        if name in found and found[name] not in allowed:
            raise ValueError(
                f"{name} attribute unsupported type {found[name]}. {name} must be a {' or '.join(allowed)}"
            )


def columns(batch: pa.RecordBatch, options: WriteOptions) -> dict[str, Any]:
    """The arguments that `RowEncoder.append` takes of a batch, by name: views of its memory, no copies."""
    names = batch.schema.names

    def of(name: str) -> pa.Array | None:
        return batch.column(names.index(name)) if name in names else None

    taken: dict[str, Any] = {"value": _binary(batch.column(names.index("value")))}
    if (key := of("key")) is not None:
        taken["key"] = _binary(key)
    taken["topic"] = _binary(batch.column(names.index("topic"))) if options.topic is None else options.topic
    if (partition := of("partition")) is not None:
        taken["partition"] = _fixed(partition)
    if (headers := of("headers")) is not None:
        taken["headers"] = _headers(headers)
    if options.include_timestamp:
        import pyarrow as pa

        timestamp = batch.column(names.index("timestamp"))
        if timestamp.type.unit != "us":
            timestamp = timestamp.cast(pa.timestamp("us", tz=timestamp.type.tz))
        taken["timestamp"] = _fixed(timestamp)
    return taken


def counted(batches: Iterable[pa.RecordBatch], options: WriteOptions) -> dict[str, int]:
    """How many rows there are for each topic. Takes all of them."""
    found: Counter[str] = Counter()
    for batch in batches:
        if options.topic is not None:
            found[options.topic] += batch.num_rows
        else:
            for each in batch.column(batch.schema.names.index("topic")).value_counts().to_pylist():
                found[each["values"]] += each["counts"]
    return {topic: count for topic, count in found.items() if count}


def _bytes(buffer: pa.Buffer | None) -> memoryview | None:
    # pyarrow calls its bytes signed.
    return None if buffer is None else memoryview(buffer).cast("B")


def _binary(array: pa.Array) -> _Binary:
    import pyarrow as pa

    if not (pa.types.is_binary(array.type) or pa.types.is_string(array.type)):
        # Spark's spark.sql.execution.arrow.useLargeVarTypes; at most 2 GB of a batch.
        array = array.cast(pa.binary())
    validity, positions, data = (_bytes(buffer) for buffer in array.buffers())
    return validity, positions, data, array.offset


def _fixed(array: pa.Array) -> tuple[memoryview | None, memoryview | None, int]:
    validity, data = (_bytes(buffer) for buffer in array.buffers())
    return validity, data, array.offset


def _headers(array: pa.Array) -> tuple[Any, ...]:
    import pyarrow as pa

    if pa.types.is_large_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    # The lists' positions count in `values`, whichever slice of the lists this is.
    values = array.values
    validity, positions = (_bytes(buffer) for buffer in array.buffers()[:2])
    names, contents = (_binary(values.field(index)) for index in range(2))
    return validity, positions, array.offset, names, contents, len(values)
