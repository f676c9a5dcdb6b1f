"""The loop belongs to everybody: what takes long goes on in slices, between which the others have their turns.

A handler of many rows waits for `pace.turn()` between them, or is a generator that `replies.in_pieces` runs. Rows of a
large answer are freed in pieces too (`free`): 400,000 of them in one go take 50 ms.

However many such handlers there are, two of them at most have a slice between two turns of the hub: all others wait in
line (`give_way`). If each had its slice in each pass of the loop, 500 requests would keep everybody else waiting for a
second.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import trio

from ottla.broker import garbage
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla._core import Request

#: What is freed in pieces.
Rows: TypeAlias = "list[Any] | dict[Any, Any] | set[Any]"
Some = TypeVar("Some", bound=Rows)

#: A request with more bytes is decoded in pieces, in a task.
LARGE_BYTES = 16 * 1024
#: How long a task goes on before others have their turn.
SLICE_S = 0.002
#: The same of a task that begins. It has not waited in line: many may begin in one pass of the loop.
FIRST_SLICE_S = 0.0003
#: After ten of the collector's second looks at what is new, it looks at everything.
LOOKS_MAX = 6
#: Rows that are freed in one go, each with at most so many items in each of its lists: less than a millisecond.
FREED_AT_ONCE, INNER_AT_ONCE = 512, 16
#: More partitions than any cluster has. Where each of them has an entry in a dictionary, that takes the loop for 13 ms
#: when it grows; one of 700,000 would take it for 30 ms.
PARTITIONS_MAX = 250_000


class _Line:
    """The tasks of one run whose slice is over. One of them goes on in each pass of the loop, and beside it one that
    finds nobody else on its way.
    """

    def __init__(self) -> None:
        self._waiting: deque[trio.lowlevel.Task] = deque()
        self._is_served = False
        self._has_guest = False

    async def wait(self) -> None:
        """Returns when every other task that can run, and the hub, had their turn."""
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


_line: Final[trio.lowlevel.RunVar[_Line]] = trio.lowlevel.RunVar("the line of those whose slice of time is over")


async def give_way() -> None:
    """Returns when a task whose slice of time is over may go on."""
    try:
        line = _line.get()
    except LookupError:
        line = _Line()
        _line.set(line)
    await line.wait()


class Pace:
    """Gives way when a slice of time is over: `await pace.turn()` between the rows of an async handler."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.monotonic() + FIRST_SLICE_S

    async def turn(self) -> None:
        """Returns at once, or when every other task and the hub had their turn."""
        if time.monotonic() >= self._until:
            if gc.get_count()[2] >= LOOKS_MAX:
                # The rows of a large request are no garbage before it is answered, and then need no collector: to look
                # through all of them again and again would take the loop for 100 ms each time.
                garbage.freeze()
            await give_way()
            self._until = time.monotonic() + SLICE_S


def _count() -> int:
    alone: list[object] = []
    return getrefcount(alone)


#: What `getrefcount` says of a local variable's object that nobody else has. Pythons differ: some count the argument.
ALONE = _count()


async def free(lists: list[Rows]) -> None:
    """Frees the rows of lists in pieces, and the lists of these rows; and the items of dictionaries and sets. A list
    stays as it is if somebody else has it, or a message that it belongs to: a broker may have rows of an answer for
    longer.
    """
    pace = Pace()
    while lists:
        rows = lists.pop()
        if getrefcount(rows) > ALONE:
            continue
        if not isinstance(rows, list):
            while rows:
                _shorten(rows, lists)
                await pace.turn()
            continue
        while rows:
            some = rows[-FREED_AT_ONCE:]
            del rows[-FREED_AT_ONCE:]
            if isinstance(some[0], Message):
                for row in some:
                    lists += _long_lists(row)
                    await pace.turn()
                del row
            del some
            await pace.turn()


def _shorten(rows: dict[Any, Any] | set[Any], lists: list[Rows]) -> None:
    """Frees some items of a dictionary or set. What they have of more than a few items themselves is left for later."""
    if isinstance(rows, set):
        for _ in range(min(len(rows), FREED_AT_ONCE)):
            rows.pop()
        return
    for _ in range(min(len(rows), FREED_AT_ONCE)):
        _, value = rows.popitem()
        if isinstance(value, list | dict) and len(value) > INNER_AT_ONCE:
            lists.append(value)
        elif isinstance(value, Message):
            lists += _long_lists(value)


class Freed:
    """Frees in pieces what a handler makes of many rows: when the handler has ended, however it does, and as far as
    nobody else has it. A local variable of the handler.

        mine = Freed()
        wanted: set[TopicPartition] = mine.add(set())
    """

    __slots__ = ("_lists",)

    def __init__(self) -> None:
        self._lists: list[Rows] = []

    def add(self, rows: Some) -> Some:
        self._lists.append(rows)
        return rows

    def __del__(self) -> None:
        free_soon(self._lists)


def leave(request: Request, lists: list[Rows]) -> None:
    """What the handler of a large request made of it is freed in pieces, when the handler has returned. What one of a
    small request leaves is freed with it.
    """
    if len(request) > LARGE_BYTES:
        free_soon(lists)


def free_soon(lists: list[Rows], then: Callable[[], None] | None = None) -> None:
    """The same in a task, which begins when whoever calls has returned; then `then` is called. Few rows go at once."""
    if sum(map(len, lists)) <= FREED_AT_ONCE and not any(map(_has_lists, lists)):
        lists.clear()
    if lists and trio.lowlevel.in_trio_run():
        trio.lowlevel.spawn_system_task(_free_then, lists, then)
    elif then is not None:
        then()


async def _free_then(lists: list[Rows], then: Callable[[], None] | None) -> None:
    try:
        await free(lists)
    finally:
        if then is not None:
            then()


def _has_lists(rows: Rows) -> bool:
    """Whether a row has something that is freed in pieces itself."""
    if isinstance(rows, dict):
        if any(isinstance(value, list | dict) and len(value) > INNER_AT_ONCE for value in rows.values()):
            return True
        return _has_lists(list(rows.values()))
    return any(_long_lists(row) for row in rows if isinstance(row, Message))


def _long_lists(message: Message) -> list[Rows]:
    """The lists of a message that are not freed with it: those of the rows of its short lists included."""
    found: list[Rows] = []
    for inner in lists_of(message):
        if len(inner) > INNER_AT_ONCE:
            found.append(inner)
        else:
            for row in inner:
                if isinstance(row, Message):
                    found += _long_lists(row)
    return found


def lists_of(message: Message) -> list[Rows]:
    """The lists of a message that are not empty, those of the structures in it included."""
    found: list[Rows] = []
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if type(value) is list and value:
            found.append(value)
        elif isinstance(value, Message):
            found += lists_of(value)
    return found
