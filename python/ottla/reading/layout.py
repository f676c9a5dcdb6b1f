"""How decoded records are laid out: the names and types of columns, and how many rows an Arrow batch has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

CONSTANT = ("topic", "partition")
"""The same in all rows of a partition."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of `schema`, in its order. Each name is one of `CONSTANT`, or `decoded` has the decoder's name."""

    schema: "pa.Schema"
    decoded: Mapping[str, str]
    timestamp_unit: str
    rows_max: int
    bytes_max: int

    @property
    def columns(self) -> Sequence[str]:
        """The columns that are decoded, by the decoder's names."""
        return [self.decoded[name] for name in self.schema.names if name not in CONSTANT]
