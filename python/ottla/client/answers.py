"""The row of an answer about the one thing that was asked about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ottla.errors import RemoteProtocolError

T = TypeVar("T")


def row_about(what: str, rows: Sequence[T]) -> T:
    """The first row. Raises RemoteProtocolError: the answer has none."""
    if not rows:
        raise RemoteProtocolError(f"the answer says nothing of {what}")
    return rows[0]
