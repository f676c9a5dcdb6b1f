"""Work on many partitions, in pieces between which other requests are served."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.broker.pace import give_way
from ottla.broker.quotas.measured import busy

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import FetchContext
    from ottla.broker.fetch.context import Context

#: At most ten milliseconds of the loop: a follower's take longest. A request of no more partitions is served at once.
PIECE: Final = 500


def over(context: Context, count: int, part: Callable[[int, int], object], then: Callable[[], object]) -> None:
    """Calls `part(start, stop)` for all of `count`, and `then` after the last: now, or if there are many in a task that
    pauses after each piece. An error in the task closes the request's connection.
    """
    if count <= PIECE:
        part(0, count)
        then()
        return

    async def run(broker: FetchContext, request: Request) -> None:
        for start in range(0, count, PIECE):
            with busy(broker.quotas, request):
                part(start, min(start + PIECE, count))
            await give_way()
        then()

    context.broker.in_background(run, context.request)
