"""The columns of `ottla.scan`: those of a record, and those that JSON values become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from ottla.extras import extra
from ottla.reading.json_values import OnError, parse
from ottla.reading.layout import Layout

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers")
"""Those that a scan has unless others are asked for."""
ALL = ("topic", *COLUMNS, "timestamp_type")
VALUE = "value"
NAMED = ("partition", "offset")
DECODED = {name: name for name in ("offset", "timestamp", "timestamp_type", "key", "value", "headers")}
BATCH_BYTES_MAX = 8 * 1024 * 1024
"""Keys, values and headers of a batch, but at least one record."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The columns of a scan, in order. With `json`, its fields stand where `value` would."""

    names: tuple[str, ...]
    batch_rows: int
    json: pa.Schema | None = None
    on_error: OnError = "error"

    @classmethod
    def of(cls, names: Sequence[str], batch_rows: int, json: pa.Schema | None, on_error: OnError) -> Self:
        """Checks what a caller asks for.

        Raises:
            ValueError: a column that does not exist or comes twice, no column at all, a number of rows below 1, or a
                schema that JSON cannot be read with.
            ModuleNotFoundError: pyarrow is not installed; it says which extra brings it.
        """
        with extra("arrow"):
            import pyarrow as pa

        if isinstance(names, str):
            raise TypeError(f"columns are several names, such as ({names!r},)")
        names = tuple(names)
        if (wrong := next((name for name in names if name not in ALL), None)) is not None:
            raise ValueError(f"there is no column {wrong!r}; there are {', '.join(ALL)}")
        if not isinstance(batch_rows, int) or batch_rows < 1:
            raise ValueError(f"batch_rows is {batch_rows!r}; it is a number from 1 up")
        if on_error not in ("error", "null"):
            raise ValueError(f"on_error {on_error!r}: 'error' or 'null'")
        if json is not None:
            if not isinstance(json, pa.Schema):
                raise TypeError(f"schema is a pyarrow.Schema, not {json!r}")
            if VALUE not in names:
                raise ValueError("a schema reads the column 'value', and columns leaves it out")
            json = _readable(json)
        rows = cls(names, batch_rows, json, on_error)
        shown = rows.schema.names
        if (twice := next((name for name in shown if shown.count(name) > 1), None)) is not None:
            hint = "" if names.count(twice) > 1 else ", of the record and of its value: leave one out"
            raise ValueError(f"there are two columns {twice!r}{hint}")
        if not shown:
            raise ValueError("a scan has at least one column")
        return rows

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        import pyarrow as pa

        fields: list[pa.Field] = []
        for field in _of_records(self.names):
            fields += list(self.json) if field.name == VALUE and self.json is not None else [field]
        return pa.schema(fields)

    def layout(self) -> Layout:
        """How records are decoded. Errors about JSON name its partition and offset."""
        named = () if self.json is None else tuple(name for name in NAMED if name not in self.names)
        return Layout(_of_records((*self.names, *named)), DECODED, "ms", self.batch_rows, BATCH_BYTES_MAX)

    def only(self, names: Sequence[str]) -> Self:
        """Those columns that are in `names`: of the others nothing is decoded."""
        import pyarrow as pa

        json = None if self.json is None else pa.schema([field for field in self.json if field.name in names])
        has_json = json is not None and len(json) > 0
        kept = [name for name in self.names if (has_json if name == VALUE and json is not None else name in names)]
        return replace(self, names=tuple(kept), json=json if has_json else None)


def _readable(schema: pa.Schema) -> pa.Schema:
    """The schema with columns that may be null, as rows without a value have them."""
    import pyarrow as pa

    if not len(schema):
        raise ValueError("the schema has no fields")
    schema = pa.schema([field.with_nullable(True) for field in schema])
    try:
        parse([b"{}"], schema)
    except (pa.ArrowException, ValueError) as problem:
        raise ValueError(f"JSON cannot be read with this schema: {problem}") from None
    return schema


def _of_records(names: Sequence[str]) -> pa.Schema:
    """Names and types of columns of records."""
    import pyarrow as pa

    types = {
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("ms", tz="UTC"),
        "timestamp_type": pa.int32(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    }
    return pa.schema([(name, types[name]) for name in names])
