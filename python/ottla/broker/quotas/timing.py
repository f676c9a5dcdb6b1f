"""How long requests keep this broker busy: in their handlers, in tasks that these start, and when they go on after
waiting.
"""

from __future__ import annotations

import types
from collections.abc import Coroutine, Generator, Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any


class Timer:
    """How long one request kept this broker busy so far. Another request may be served meanwhile, which has its own: an
    append serves the Fetches that wait for it."""

    __slots__ = ("_begin_ns", "_spent_ns")

    def __init__(self) -> None:
        self._spent_ns = 0
        self._begin_ns: int | None = None

    @property
    def is_running(self) -> bool:
        return self._begin_ns is not None

    @property
    def spent_s(self) -> float:
        running_ns = 0 if self._begin_ns is None else perf_counter_ns() - self._begin_ns
        return (self._spent_ns + running_ns) / 1e9

    def begin(self) -> None:
        self._begin_ns = perf_counter_ns()

    def end(self) -> None:
        if self._begin_ns is not None:
            self._spent_ns += perf_counter_ns() - self._begin_ns
            self._begin_ns = None


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
