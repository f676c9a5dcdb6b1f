"""Work on many partitions, done a part at a time so that the loop's other tasks have their turns in between.

A partition costs the controller some 10 us each time that it is decided on, told of or read, and a broker has ten
thousand: in one go nobody would be answered for a tenth of a second. What another event would change waits: events are
handled one at a time, whatever gives way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import trio

PARTITIONS_PER_TURN: Final = 500

T = TypeVar("T")


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """The items; others have their turn after every `PARTITIONS_PER_TURN` of them."""
    for number, item in enumerate(items, 1):
        yield item
        if number % PARTITIONS_PER_TURN == 0:
            await trio.lowlevel.checkpoint()


def pieces(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items in pieces of at most so many, each for a call that gives way itself."""
    for start in range(0, len(items), PARTITIONS_PER_TURN):
        yield items[start : start + PARTITIONS_PER_TURN]
