"""JSON values as columns: one object a record, with pyarrow's reader of JSON.

That reader takes a stream of objects, and cares neither for lines nor for where a value ends. Two things make rows of
values: each value begins with `{` and ends with `}`, and there are as many rows as values. An object that is cut off
cannot go on in the next value then, since no `{` may follow a `}` inside an object; so each value has at least one
object, and by the count each has exactly one.

Where a stretch of values cannot be read it is halved, until the value is found that has no object of the schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from ottla.errors import InvalidRecord

if TYPE_CHECKING:
    import pyarrow as pa

OnError: TypeAlias = Literal["error", "null"]

NOTHING = b"{}"
BLANK = b" \t\r\n"
SHOWN_BYTES = 60


def json_columns(
    values: pa.Array, offsets: pa.Array, schema: pa.Schema, on_error: OnError, partition: str
) -> list[pa.Array]:
    """A column for each field of the schema, of as many rows as there are values. Fields that the schema lacks are left
    out, and those that an object lacks are null; so is a whole row without a value.

    Raises:
        InvalidRecord: a value is no JSON object, or not of the schema's types; it names the offset. With `on_error`
            "null" the row's columns are null.
    """
    import pyarrow as pa

    texts = [NOTHING if value is None else value.strip(BLANK) for value in values.to_pylist()]
    parts: list[pa.Table] = []
    todo = [(0, len(texts))]
    while todo:
        start, end = todo.pop()
        try:
            parts.append(parse(texts[start:end], schema))
        except (pa.ArrowException, ValueError) as problem:
            if end - start > 1:
                middle = (start + end) // 2
                todo += [(middle, end), (start, middle)]
                continue
            if on_error == "error":
                raise InvalidRecord(
                    f"{partition}: the value at offset {offsets[start].as_py()} is no JSON object of the schema: "
                    f"{problem}; it begins {texts[start][:SHOWN_BYTES]!r}"
                ) from None
            parts.append(parse([NOTHING], schema))
    table = pa.concat_tables(parts).combine_chunks()
    return [_whole(table[name], field.type) for name, field in zip(schema.names, schema, strict=True)]


def parse(texts: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    """A row for each text.

    Raises:
        ValueError, pyarrow.ArrowException: one is no object with the types of the schema.
    """
    import pyarrow as pa
    from pyarrow import json

    if not all(text[:1] == b"{" and text[-1:] == b"}" for text in texts):
        raise ValueError("it is not between { and }")
    data = b"\n".join(texts)
    data.decode()  # pyarrow does not look
    table = json.read_json(
        pa.BufferReader(data),
        read_options=json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=json.ParseOptions(
            explicit_schema=schema, newlines_in_values=True, unexpected_field_behavior="ignore"
        ),
    )
    if table.num_rows != len(texts):
        raise ValueError("it has several objects")
    return table.select(schema.names)


def _whole(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """One array of a column, which `combine_chunks` leaves in one chunk or none."""
    import pyarrow as pa

    return column.chunk(0) if column.num_chunks else pa.array([], kind)
