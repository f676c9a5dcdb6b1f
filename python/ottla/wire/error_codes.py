"""The error codes in an answer, for metrics that count them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from ottla.wire.k03_metadata import MetadataResponsePartition
from ottla.wire.schema import Message, StructSpec, describe

FIELD: Final = "error_code"
#: Kafka counts the topics of a Metadata alone.
NOT_COUNTED: Final = frozenset({MetadataResponsePartition})

Collect = Callable[[Any, list[int]], None]


def error_codes(message: Message) -> list[int]:
    """Every `error_code` of the message and of the rows in it, 0 too."""
    codes: list[int] = []
    collect = _collector(type(message))
    if collect is not None:
        collect(message, codes)
    return codes


@cache
def _collector(cls: type[Message]) -> Collect | None:
    """None for a message that has no error codes."""
    return _of(describe(cls))


def _of(spec: StructSpec) -> Collect | None:
    rows: list[tuple[str, bool, Collect]] = []
    has_code = False
    for field in spec.fields if spec.cls not in NOT_COUNTED else ():
        has_code |= field.name == FIELD
        is_array = isinstance(field.type, tuple) and not isinstance(field.type, StructSpec)
        inner = field.type[1] if is_array else field.type
        if isinstance(inner, StructSpec) and (collect := _of(inner)) is not None:
            rows.append((field.name, is_array, collect))
    if not has_code and not rows:
        return None

    def collect_here(message: Any, codes: list[int]) -> None:
        if has_code:
            codes.append(message.error_code)
        for name, is_array, collect in rows:
            value = getattr(message, name)
            for row in (value or ()) if is_array else () if value is None else (value,):
                collect(row, codes)

    return collect_here
