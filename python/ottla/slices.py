"""Time slices: work gives the loop back between two of them, and everybody else is served meanwhile.

Work on few rows is done at once. Work on many rows goes on in a task, which awaits `Slices.row()` between rows.
Requests, replication, controller and groups all do so: nothing in a broker gives the loop back in another way.

A slice ends after `ROWS` rows, or earlier where its rows take longer than `SLICE_S` together. However many tasks there
are, two of those that serve requests have a slice in one pass of the loop: the others wait in line. If each had one in
each pass, 500 requests would keep everybody else waiting for a second. The broker's own work, which no client can
multiply, has a line to itself, in which requests between brokers go on as well: neither a controller nor what it tells
waits for clients.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, Final, Protocol, TypeVar

import trio

from ottla import garbage

T = TypeVar("T")

#: Rows that are done in one go: at 2 to 5 us each, about a millisecond.
ROWS: Final = 256
#: A request with more bytes is decoded in a task.
LARGE_BYTES: Final = 16 * 1024
#: How long a slice takes at most, in seconds, but for the row at its end.
SLICE_S: Final = 0.002
#: The same of a task's first slice. The task has not waited in line: many tasks may begin in one pass of the loop.
FIRST_SLICE_S: Final = 0.0003
#: After ten of the collector's second looks at new objects, it looks at everything.
LOOKS_MAX: Final = 6


def are_few(rows: int, size_bytes: int = 0) -> bool:
    """True if so many rows, of a request of so many bytes, are done at once."""
    return rows <= ROWS and size_bytes <= LARGE_BYTES


class Slices:
    """The slices of one task: `await slices.row()` between its rows. `own`: the broker's own work, not a client's."""

    __slots__ = ("_own", "_rows_left", "_until")

    def __init__(self, *, own: bool = False) -> None:
        self._own = own
        self._rows_left = ROWS
        self._until = time.monotonic() + FIRST_SLICE_S

    async def row(self, count: int = 1) -> None:
        """Counts a row that was done, or `count` of them. Returns at once, or in the next slice."""
        if self.is_over(count):
            await self.end()

    def is_over(self, count: int = 1) -> bool:
        """Counts a row that was done, or `count` of them. Returns whether the slice is to end now."""
        self._rows_left -= count
        return self._rows_left <= 0 or time.monotonic() >= self._until

    async def end(self) -> None:
        """Ends this slice. Returns when the next one begins: all other tasks that can run, and the hub, were served."""
        if gc.get_count()[2] >= LOOKS_MAX:
            # The rows of a large request are no garbage before it is answered, and then need no collector: looking
            # through all of them again and again would take the loop for 100 ms each time.
            garbage.freeze()
        await _line(self._own).wait()
        self._rows_left = ROWS
        self._until = time.monotonic() + SLICE_S


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """The items of the broker's own work, with an end of a slice between two of them where it is due."""
    slices = Slices(own=True)
    for item in items:
        yield item
        if slices.is_over():
            await slices.end()


class Tasks(Protocol):
    """Runs what serves one request in a task. An error there costs the request's connection."""

    def in_background(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None: ...


def serve(tasks: Tasks, rows: int, work: Iterable[int | None], *, own: bool = False) -> None:
    """Does the work for a request of so many rows, at once or in a task. `work` yields after each row, or the number of
    rows that it has done since; what it raises costs the request's connection. `own`: as of `Slices`.
    """
    if are_few(rows):
        for _ in work:
            pass
        return

    async def run() -> None:
        slices = Slices(own=own)
        for count in work:
            await slices.row(1 if count is None else count)

    tasks.in_background(run)


class _Line:
    """The tasks of one run whose slice is over. One of them goes on in each pass of the loop, and beside it one that
    finds nobody else on its way.
    """

    def __init__(self) -> None:
        self._waiting: deque[trio.lowlevel.Task] = deque()
        self._is_served = False
        self._has_guest = False

    async def wait(self) -> None:
        """Returns when every other task that can run, and the hub, was served."""
        if self._has_guest:
            await self._wait_in_line()
            return
        self._has_guest = True
        try:
            await trio.lowlevel.checkpoint()
        finally:
            self._has_guest = False

    async def _wait_in_line(self) -> None:
        task = trio.lowlevel.current_task()

        def leave(_: object) -> trio.lowlevel.Abort:
            self._waiting.remove(task)
            return trio.lowlevel.Abort.SUCCEEDED

        self._waiting.append(task)
        if not self._is_served:
            self._is_served = True
            trio.lowlevel.spawn_system_task(self._serve)
        await trio.lowlevel.wait_task_rescheduled(leave)

    async def _serve(self) -> None:
        try:
            while self._waiting:
                trio.lowlevel.reschedule(self._waiting.popleft())
                await trio.lowlevel.checkpoint()
        finally:
            self._is_served = False


_requests: Final[trio.lowlevel.RunVar[_Line]] = trio.lowlevel.RunVar("requests whose slice is over")
_own_work: Final[trio.lowlevel.RunVar[_Line]] = trio.lowlevel.RunVar("own work whose slice is over")


def _line(own: bool) -> _Line:
    variable = _own_work if own else _requests
    try:
        return variable.get()
    except LookupError:
        line = _Line()
        variable.set(line)
        return line
