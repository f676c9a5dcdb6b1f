"""Record batches (format v2) and their columns, without a log or a broker. Messages of formats v0 and v1 are read too.

A batch is bytes as a producer sends them, a broker stores them and a consumer fetches them. Several batches one after
the other are a buffer: what a Fetch answer has, or a stretch of a segment file.

>>> batch = encode_batch([(1700000000000, b"key", b"value", [("trace", b"1")])], compression="zstd")
>>> [record.value for record in RecordReader(batch)]
[b'value']

For more than a few thousand records decode columns: `ColumnDecoder` is fed buffers and gives `Columns`, whose memory
pyarrow and numpy use without a copy (`to_arrow`, or `numpy.asarray(columns.offset)`). A timestamp that microseconds
cannot hold, such as nanoseconds where milliseconds belong, is `InvalidTimestamp`, or null with `timestamps="null"`. The
names of the columns:

| column         | Arrow type                                | meaning                                        |
|----------------|-------------------------------------------|------------------------------------------------|
| offset         | int64                                     |                                                |
| timestamp      | timestamp, us (or ms), UTC                | milliseconds of the record, or of its append   |
| timestamp_type | int32                                     | 0 CreateTime, 1 LogAppendTime, -1 format v0    |
| key, value     | binary                                    | null where the record has none                 |
| headers        | list of struct of name utf8, value binary | null where the record has none                 |

Errors are those of `ottla.errors`: `CorruptMessage` for bytes that were damaged on the way (checksum, length),
`InvalidRecord` for what a writer did wrong, and a text with the field and its position in bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ottla._core import (
    BatchBuilder,
    BatchInfo,
    ColumnBuffer,
    ColumnDecoder,
    Columns,
    Record,
    RecordReader,
    crc32c,
    decode_columns,
    encode_batch,
    read_batches,
    stamp,
    validate,
)
from ottla.extras import extra

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

__all__ = [
    "COLUMNS",
    "BatchBuilder",
    "BatchInfo",
    "ColumnBuffer",
    "ColumnDecoder",
    "Columns",
    "Record",
    "RecordReader",
    "arrow_array",
    "arrow_schema",
    "crc32c",
    "decode_buffers",
    "decode_columns",
    "encode_batch",
    "read_batches",
    "stamp",
    "to_arrow",
    "validate",
]

COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
"""The columns that can be decoded, in their usual order."""


def arrow_schema(columns: Sequence[str] = COLUMNS, timestamp_unit: str = "us") -> pa.Schema:
    """The schema of `to_arrow`. `timestamp_unit` is "us" or "ms", as the decoder was told."""
    with extra("arrow"):
        import pyarrow as pa

    types = {
        "offset": pa.int64(),
        "timestamp": pa.timestamp(timestamp_unit, tz="UTC"),
        "timestamp_type": pa.int32(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.list_(pa.struct([("name", pa.utf8()), ("value", pa.binary())])),
    }
    return pa.schema([(name, types[name]) for name in columns])


def to_arrow(columns: Columns, names: Sequence[str] = COLUMNS, timestamp_unit: str = "us") -> pa.RecordBatch:
    """The columns `names` as a record batch that shares their memory.

    Raises:
        KeyError: a column that was not decoded.
        ImportError: pyarrow is not installed.
    """
    with extra("arrow"):
        import pyarrow as pa

    schema = arrow_schema(names, timestamp_unit)
    return pa.RecordBatch.from_arrays([arrow_array(columns, field.name, field.type) for field in schema], schema=schema)


def arrow_array(columns: Columns, name: str, kind: pa.DataType) -> pa.Array:
    """One column as an Arrow array of the type `kind`, whose layout must be that of the table above.

    For a schema of one's own: Spark's has other names, and other names in the headers' struct.
    """
    import pyarrow as pa

    if name != "headers":
        return pa.Array.from_buffers(kind, len(columns), _shared(columns, name), columns.null_count(name))
    fields = [kind.value_type.field(index) for index in range(2)]
    children = [
        pa.Array.from_buffers(field.type, columns.header_count, _shared(columns, child), columns.null_count(child))
        for field, child in zip(fields, ("headers.name", "headers.value"), strict=True)
    ]
    pairs = pa.StructArray.from_arrays(children, fields=fields)
    shared = _shared(columns, name)
    return pa.Array.from_buffers(kind, len(columns), shared, columns.null_count(name), children=[pairs])


def decode_buffers(
    buffers: Iterable[Buffer], decoder: ColumnDecoder, aborted: Sequence[tuple[int, int]] | None = None
) -> Iterator[Columns]:
    """The columns of buffers that follow each other in one partition, chunk by chunk.

    Each buffer ends with a whole batch (what is cut off is left out), and the last chunk may be small. `aborted` has
    producer id and first offset of the aborted transactions in all of them, which are left out.
    """
    for buffer in buffers:
        decoder.feed(buffer, aborted)
        aborted = None  # it holds for those that follow
        while (columns := decoder.next()) is not None:
            yield columns
        if decoder.done:
            break
    if (columns := decoder.finish()) is not None:
        yield columns


def _shared(columns: Columns, name: str) -> list[Any]:
    import pyarrow as pa

    return [None if buffer is None else pa.py_buffer(buffer) for buffer in columns.buffers(name)]
