"""JSON values into columns, with a schema that grows.

Arrow's own parser does it, a block of records at a time. Where it cannot (a value that is no JSON object, one that
does not fit its column), that block is done again record by record, which is slower and loses nothing:

- a field that does not fit the type of its column goes to `_misfits`, as JSON text;
- a value that is no JSON object goes to `_value`, as it is;
- a field named like a column of ours gets an underline behind its name.

A column's type is decided when it is first seen, and kept. Objects and lists become structs and lists if all of a
block are alike, else JSON text.
"""

from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

MISFITS, VALUE = "_misfits", "_value"
ODDITIES = (pa.field(MISFITS, pa.string()), pa.field(VALUE, pa.binary()))
OWN = ("topic", "date", "hour", "_key", "_partition", "_offset", "_timestamp", MISFITS, VALUE)


def columns(values: pa.BinaryArray, known: pa.Schema) -> pa.RecordBatch:
    """The fields of JSON values, a row for each value, also for null ones. `known` are columns that have a type by now.

    The columns of `known` come first, then new ones, then `_misfits` and `_value`.
    """
    present = values.drop_null()
    renamed = {name + "_": name for name in OWN}
    explicit = pa.schema(
        [pa.field(renamed.get(each.name, each.name), each.type) for each in known if each.name not in OWN]
    )
    batch = _fast(present, explicit) if len(present) else None
    if batch is None:
        batch = _slow(present, explicit)
    else:
        nothing = [pa.nulls(batch.num_rows, each.type) for each in ODDITIES]
        batch = pa.RecordBatch.from_arrays([*batch.columns, *nothing], schema=pa.schema([*batch.schema, *ODDITIES]))
    if len(present) < len(values):
        is_present = values.is_valid()
        rows = pc.subtract(pc.cumulative_sum(pc.cast(is_present, pa.int64())), 1)
        batch = batch.take(pc.if_else(is_present, rows, pa.scalar(None, pa.int64())))
    names = [name + "_" if name in OWN[:-2] else name for name in batch.schema.names]
    return batch.rename_columns(names)


def _fast(values: pa.BinaryArray, known: pa.Schema) -> pa.RecordBatch | None:
    """By Arrow's parser; None if it cannot, or if rows could have been shifted against each other."""
    if pc.any(pc.match_substring(values, b"\n")).as_py():
        return None
    lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values), b"\n")[0]
    data = lines.as_buffer()
    for _ in range(2):
        try:
            table = arrow_json.read_json(
                pa.BufferReader(data),
                read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
                parse_options=arrow_json.ParseOptions(explicit_schema=known, unexpected_field_behavior="infer"),
            )
        except pa.ArrowInvalid:
            return None
        if table.num_rows != len(values) or any(name in (MISFITS, VALUE) for name in table.schema.names):
            return None
        for each in known:
            if table.schema.field(each.name).type != each.type:
                return None  # a struct with fields that the table does not have
        doubtful = [each for each in table.schema if _is_text(each.type)]
        if not doubtful:
            kept = [each.name for each in table.schema if not pa.types.is_null(each.type)]
            return table.select(kept).combine_chunks().to_batches(len(values))[0] if kept else None
        # Text that looks like a time stays text: the next block's may not look like one.
        known = pa.schema([*known, *(pa.field(each.name, pa.string()) for each in doubtful)])
    return None


def _is_text(kind: pa.DataType) -> bool:
    """True if a new column of this inferred type had better be text."""
    if pa.types.is_temporal(kind):
        return True
    nested = [kind.field(index).type for index in range(kind.num_fields)]
    return any(pa.types.is_null(each) or _is_text(each) for each in nested)


def _slow(values: pa.BinaryArray, known: pa.Schema) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = []
    whole: list[bytes | None] = []
    for value in values.to_pylist():
        try:
            found = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError):
            found = None
        rows.append(found if isinstance(found, dict) else {})
        whole.append(None if isinstance(found, dict) else value)
    misfits: list[dict[str, Any]] = [{} for _ in rows]
    names = list(dict.fromkeys([*known.names, *(name for row in rows for name in row)]))
    fields, arrays = [], []
    for name in names:
        column = [row.get(name) for row in rows]
        kind = known.field(name).type if name in known.names else _type(column)
        if kind is None:
            continue
        cells = []
        for row, cell in enumerate(column):
            fitting, fits = (None, False) if name in (MISFITS, VALUE) else _fit(cell, kind)
            cells.append(fitting)
            if not fits and name in rows[row]:
                misfits[row][name] = cell
        if name not in (MISFITS, VALUE):
            fields.append(pa.field(name, kind))
            arrays.append(pa.array(cells, kind))
    arrays.append(pa.array([msgspec.json.encode(each).decode() if each else None for each in misfits], pa.string()))
    arrays.append(pa.array(whole, pa.binary()))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*fields, *ODDITIES]))


def _type(column: list[Any]) -> pa.DataType | None:
    """The type of a new column, None if there is nothing in it."""
    kinds = {type(cell) for cell in column if cell is not None}
    if not kinds:
        return None
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int} and all(cell is None or -(1 << 63) <= cell < 1 << 63 for cell in column):
        return pa.int64()
    if kinds <= {int, float}:
        return pa.float64()
    return pa.string()


def _fit(cell: Any, kind: pa.DataType) -> tuple[Any, bool]:
    """A value as its column holds it, and whether it does."""
    if cell is None:
        return None, True
    if kind == pa.string():
        return (cell if isinstance(cell, str) else msgspec.json.encode(cell).decode()), True
    if isinstance(cell, bool) is not (kind == pa.bool_()):
        return None, False
    try:
        held = pa.scalar(cell, kind).as_py()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return None, False
    return (cell, True) if _same(held, cell) else (None, False)


def _same(held: Any, cell: Any) -> bool:
    """True if `held` has all that is in `cell`; a struct has null for what its object does not have."""
    if isinstance(cell, dict):
        return (
            isinstance(held, dict)
            and cell.keys() <= held.keys()
            and all(_same(held[name], cell.get(name)) for name in held)
        )
    if isinstance(cell, list):
        return isinstance(held, list) and len(held) == len(cell) and all(map(_same, held, cell))
    return bool(held == cell)
