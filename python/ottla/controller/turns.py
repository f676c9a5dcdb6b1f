"""Work on many partitions, done a part at a time so that the loop's other tasks have their turns in between.

A partition costs the controller some 10 us each time that it is decided on, told of or read, and a broker has ten
thousand: in one go nobody would be answered for a tenth of a second. What another event would change waits: events are
handled one at a time, whatever gives way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import trio

PARTITIONS_PER_TURN: Final = 500
#: Pieces under way at a time: the tree works on the next while the answer to one is read. Not more, since what all have
#: to do may come in one turn of the loop.
PIECES_AT_ONCE: Final = 2

T = TypeVar("T")
R = TypeVar("R")


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """The items; others have their turn after every `PARTITIONS_PER_TURN` of them."""
    for number, item in enumerate(items, 1):
        yield item
        if number % PARTITIONS_PER_TURN == 0:
            await trio.lowlevel.checkpoint()


def pieces(items: Sequence[T], at_most: int = PARTITIONS_PER_TURN) -> Iterator[Sequence[T]]:
    """The items in pieces of at most so many, each for a call that gives way itself."""
    for start in range(0, len(items), at_most):
        yield items[start : start + at_most]


async def pieces_in_turns(items: Sequence[T], at_most: int) -> AsyncIterator[Sequence[T]]:
    """The same pieces; others have their turn after each."""
    for piece in pieces(items, at_most):
        yield piece
        await trio.lowlevel.checkpoint()


async def overlapping(
    work: Callable[[Sequence[T]], Awaitable[R]],
    items: Sequence[T],
    *,
    at_most: int = PARTITIONS_PER_TURN,
    at_once: int = PIECES_AT_ONCE,
) -> list[R]:
    """What `work` returns for each of the pieces (of `at_most` items), in order. `at_once` are under way at a time, so
    they must not depend on each other. An error ends the others, and is raised as it is.
    """
    waiting = deque(enumerate(pieces(items, at_most)))
    results: dict[int, R] = {}
    errors: list[Exception] = []

    async def go_on(scope: trio.CancelScope) -> None:
        while waiting:
            number, piece = waiting.popleft()
            try:
                results[number] = await work(piece)
            except Exception as error:
                # Not through the nursery, which would wrap it in a group.
                errors.append(error)
                scope.cancel()
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for _ in range(min(at_once, len(waiting))):
            nursery.start_soon(go_on, nursery.cancel_scope)
    if errors:
        raise errors[0]
    return [results[number] for number in sorted(results)]
