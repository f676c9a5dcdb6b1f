"""A scan as a lazy frame of polars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    Batches: TypeAlias = Callable[[Sequence[str] | None], Iterator[pa.RecordBatch]]
    """Reads from the beginning, with all columns or those that are named."""


def lazy(schema: pa.Schema, batches: Batches) -> pl.LazyFrame:
    """Polars says which columns a query uses, how many rows it needs, and which of them it wants."""
    try:
        import polars as pl
        from polars.io.plugins import register_io_source
    except ModuleNotFoundError:
        raise ModuleNotFoundError("this needs the package polars, which is not installed", name="polars") from None

    def frames(
        names: list[str] | None, predicate: pl.Expr | None, rows_max: int | None, batch_rows: int | None
    ) -> Iterator[pl.DataFrame]:
        left = rows_max
        # Of no column at all, rows are counted.
        for batch in batches(None if names is None else names or schema.names[:1]):
            frame = pl.DataFrame(batch)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame if names is None else frame.select(names)
            if left == 0:
                return

    return register_io_source(frames, schema=pl.DataFrame(schema.empty_table()).schema)
