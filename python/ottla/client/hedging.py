"""The first answer of several brokers that know the same: one that does not answer is not waited for alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import trio

from ottla.errors import RemoteProtocolError

T = TypeVar("T")


async def first_of(attempts: Iterable[Callable[[], Awaitable[T]]], *, after_ms: float) -> T:
    """Gives what the first attempt gives that succeeds. Each begins when the one before has failed, or has gone on for
    `after_ms`; when one has succeeded, the others are cancelled.

    Raises:
        OSError, RemoteProtocolError: the last of them, all attempts failed so. Other errors of an attempt, at once.
    """
    given: list[T] = []
    passing: list[Exception] = []
    final: list[Exception] = []
    async with trio.open_nursery() as nursery:

        async def run(attempt: Callable[[], Awaitable[T]], over: trio.Event) -> None:
            try:
                given.append(await attempt())
            except (OSError, RemoteProtocolError) as problem:
                passing.append(problem)
            # The nursery would wrap it in a group.
            except Exception as problem:
                final.append(problem)
            if given or final:
                nursery.cancel_scope.cancel()
            over.set()

        for attempt in attempts:
            over = trio.Event()
            nursery.start_soon(run, attempt, over)
            with trio.move_on_after(after_ms / 1000):
                await over.wait()
    if given:
        return given[0]
    raise (final or passing)[-1]
