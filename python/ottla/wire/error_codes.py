"""The error codes in an answer, for metrics that count them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from ottla.wire.k03_metadata import MetadataResponsePartition
from ottla.wire.schema import Message, StructSpec, describe

FIELD: Final = "error_code"
#: Kafka counts the topics of a Metadata alone.
NOT_COUNTED: Final = frozenset({MetadataResponsePartition})

Walk = Callable[[Any], Iterator[int]]


def error_codes(message: Message) -> Iterator[int]:
    """Every `error_code` of the message and of the rows in it, 0 too."""
    walk = _walk(type(message))
    return iter(()) if walk is None else walk(message)


@cache
def _walk(cls: type[Message]) -> Walk | None:
    """None for a message that has no error codes."""
    return _of(describe(cls))


def _of(spec: StructSpec) -> Walk | None:
    rows: list[tuple[str, bool, Walk]] = []
    has_code = False
    for field in spec.fields if spec.cls not in NOT_COUNTED else ():
        has_code |= field.name == FIELD
        is_array = isinstance(field.type, tuple) and not isinstance(field.type, StructSpec)
        inner = field.type[1] if is_array else field.type
        if isinstance(inner, StructSpec) and (walk := _of(inner)) is not None:
            rows.append((field.name, is_array, walk))
    if not has_code and not rows:
        return None

    def walk_here(message: Any) -> Iterator[int]:
        if has_code:
            yield message.error_code
        for name, is_array, walk in rows:
            value = getattr(message, name)
            for row in (value or ()) if is_array else () if value is None else (value,):
                yield from walk(row)

    return walk_here
