"""An iterator for one thread at a time (rust/py/one_at_a_time.rs)."""

from collections.abc import Iterator
from typing import Generic, Self, TypeVar, final

_Item = TypeVar("_Item")

@final
class OneAtATime(Generic[_Item]):
    """An iterator for one thread at a time: two that take from it at once would each get some of the items. A thread
    may go on where another one has stopped. `inner` is a generator; `what` begins the error, e.g. "records of t-0".
    """

    def __new__(cls, inner: Iterator[_Item], what: str) -> Self: ...
    def __iter__(self) -> Self: ...
    # RuntimeError: another thread waits for it, too
    def __next__(self) -> _Item: ...
    # ends it, as that of a generator
    def close(self) -> None: ...
