"""Many partitions, read from the tree or written to it in batches, of which a few are under way at a time.

A partition costs the controller some 10 us each time that it is decided on, told of or read, and a broker has ten
thousand: in one go nobody would be answered for a tenth of a second. So the controller gives the loop back between
partitions (`ottla.slices`). Events are handled one at a time: what another event would change waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, TypeVar

import trio

from ottla.slices import Slices

PARTITIONS_AT_ONCE: Final = 500
#: Batches under way at a time: the tree works on the next while the answer to one is read. Not more, since the answers
#: to all of them may come in one pass of the loop.
BATCHES_AT_ONCE: Final = 2

T = TypeVar("T")
R = TypeVar("R")


def batches(items: Sequence[T], at_most: int = PARTITIONS_AT_ONCE) -> Iterator[Sequence[T]]:
    """The items, at most so many at a time."""
    for start in range(0, len(items), at_most):
        yield items[start : start + at_most]


async def overlapping(
    work: Callable[[Sequence[T]], Awaitable[R]],
    items: Sequence[T],
    *,
    at_most: int = PARTITIONS_AT_ONCE,
    at_once: int = BATCHES_AT_ONCE,
) -> list[R]:
    """Returns the results of `work` for each of the batches (of `at_most` items), in order. `at_once` of them are under
    way at a time, so they must not depend on each other. An error ends the others, and is raised as it is.
    """
    waiting = deque(enumerate(batches(items, at_most)))
    results: dict[int, R] = {}
    errors: list[Exception] = []

    async def go_on(scope: trio.CancelScope) -> None:
        slices = Slices(own=True)
        while waiting:
            number, batch = waiting.popleft()
            try:
                results[number] = await work(batch)
            except Exception as error:
                # Not through the nursery, which would wrap it in a group.
                errors.append(error)
                scope.cancel()
            await slices.row(len(batch))

    async with trio.open_nursery() as nursery:
        for _ in range(min(at_once, len(waiting))):
            nursery.start_soon(go_on, nursery.cancel_scope)
    if errors:
        raise errors[0]
    return [results[number] for number in sorted(results)]
