"""Iterators that threads do not share by mistake."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class OneAtATime(Generic[T]):
    """An iterator for one thread at a time: two that take from it at once would each get some of the records. A thread
    may go on where another one has stopped.
    """

    __slots__ = ("_inner", "_what")

    def __init__(self, inner: Iterator[T], what: str) -> None:
        """`inner` is a generator. `what` begins the error, e.g. "records of orders-0"."""
        self._inner = inner
        self._what = what

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        """The next one.

        Raises:
            RuntimeError: another thread waits for it, too.
        """
        try:
            return next(self._inner)
        except ValueError as error:
            if str(error) != "generator already executing":
                raise
            raise RuntimeError(
                f"{self._what}: two threads use one iterator at once; give each thread an iterator of its own"
            ) from None

    def close(self) -> None:
        """Ends it; as that of a generator."""
        self._inner.close()  # type: ignore[attr-defined]
