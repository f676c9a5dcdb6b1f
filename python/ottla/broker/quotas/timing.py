"""How long requests keep this broker busy: in their handlers, in tasks that these start, and when they go on after
waiting.
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any

AsyncHandler = Callable[..., Coroutine[Any, Any, None]]


class Timers:
    """The timers of one broker's requests."""

    __slots__ = ("running",)

    def __init__(self) -> None:
        #: The timer that runs. Tasks that are started meanwhile belong to its request.
        self.running: Timer | None = None


class Timer:
    """How long one request kept this broker busy so far."""

    __slots__ = ("_begin_ns", "_outer", "_spent_ns", "_timers")

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._spent_ns = 0
        self._begin_ns: int | None = None
        #: What ran when this began: an append may serve a Fetch that waits for it.
        self._outer: Timer | None = None

    @property
    def is_running(self) -> bool:
        return self._begin_ns is not None

    @property
    def spent_s(self) -> float:
        running_ns = 0 if self._begin_ns is None else perf_counter_ns() - self._begin_ns
        return (self._spent_ns + running_ns) / 1e9

    def begin(self) -> None:
        self._outer, self._timers.running = self._timers.running, self
        self._begin_ns = perf_counter_ns()

    def end(self) -> None:
        if self._begin_ns is not None:
            self._spent_ns += perf_counter_ns() - self._begin_ns
            self._begin_ns = None
            self._timers.running, self._outer = self._outer, None


@contextmanager
def resumed(timer: Timer) -> Iterator[None]:
    """The timer runs on in the block: something has happened that the request waited for."""
    if timer.is_running:
        yield
        return
    timer.begin()
    try:
        yield
    finally:
        timer.end()


@types.coroutine
def timed(timer: Timer, coroutine: Coroutine[Any, Any, None]) -> Generator[Any, Any, None]:
    """Awaits a coroutine; the timer runs while it does, not while it waits."""
    value: Any = None
    raised: BaseException | None = None
    while True:
        timer.begin()
        try:
            wanted = coroutine.send(value) if raised is None else coroutine.throw(raised)
        except StopIteration:
            return
        finally:
            timer.end()
        value = raised = None
        try:
            value = yield wanted
        except BaseException as error:
            raised = error


def also_timed(timer: Timer, handle: Callable[..., Awaitable[None]]) -> AsyncHandler:
    """The handler of a request, whose timer runs while the handler does."""

    async def handled(*arguments: Any) -> None:
        await handle(*arguments)

    async def run(*arguments: Any) -> None:
        await timed(timer, handled(*arguments))

    return run
