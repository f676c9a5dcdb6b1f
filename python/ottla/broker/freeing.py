"""Rows are freed in slices: 400,000 of them in one go take 50 ms."""

from __future__ import annotations

from sys import getrefcount
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import trio

from ottla.slices import Slices
from ottla.wire.schema import Message, holding

if TYPE_CHECKING:
    from collections.abc import Callable


#: The kinds of containers that are freed in slices.
Rows: TypeAlias = "list[Any] | dict[Any, Any] | set[Any]"
Some = TypeVar("Some", bound=Rows)

#: Rows that are freed in one go, each with at most so many items in each of its lists: less than a millisecond.
FREED_AT_ONCE, INNER_AT_ONCE = 512, 16


def _count() -> int:
    alone: list[object] = []
    return getrefcount(alone)


#: The `getrefcount` of a local variable's object that nobody else has. Pythons differ: some count the argument.
ALONE = _count()


async def free(lists: list[Rows], *, own: bool = False) -> None:
    """Frees the rows of lists in slices, and the lists of these rows; and the items of dictionaries and sets. A list
    stays as it is if somebody else has it, or a message that it belongs to: a broker may have rows of an answer for
    longer.
    """
    slices = Slices(own=own)
    while lists:
        rows = lists.pop()
        if getrefcount(rows) > ALONE:
            continue
        if not isinstance(rows, list):
            while rows:
                _shorten(rows, lists)
                await slices.row()
            continue
        while rows:
            some = rows[-FREED_AT_ONCE:]
            del rows[-FREED_AT_ONCE:]
            if isinstance(some[0], Message):
                for row in some:
                    lists += _long_lists(row)
                    await slices.row()
                del row
            del some
            await slices.row()


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
    """Frees in slices what a handler makes of many rows: when the handler has ended, however it does, and as far as
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


def free_soon(lists: list[Rows], then: Callable[[], None] | None = None, *, own: bool = False) -> None:
    """The same in a task, which begins when whoever calls has returned; then `then` is called. Few rows go at once."""
    if sum(map(len, lists)) <= FREED_AT_ONCE and not any(map(_has_lists, lists)):
        lists.clear()
    if lists and trio.lowlevel.in_trio_run():
        trio.lowlevel.spawn_system_task(_free_then, lists, then, own)
    elif then is not None:
        then()


async def _free_then(lists: list[Rows], then: Callable[[], None] | None, own: bool) -> None:
    try:
        await free(lists, own=own)
    finally:
        if then is not None:
            then()


def _has_lists(rows: Rows) -> bool:
    """True if a row has something that is freed in slices itself."""
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
        # The rows of a list are all of one kind.
        elif isinstance(inner, list) and isinstance(inner[0], Message):
            for row in inner:
                found += _long_lists(row)
    return found


def lists_of(message: Message) -> list[Rows]:
    """The lists of a message that are not empty, those of the structures in it included."""
    found: list[Rows] = []
    for name in holding(type(message)):
        value = getattr(message, name)
        if type(value) is list and value:
            found.append(value)
        elif isinstance(value, Message):
            found += lists_of(value)
    return found
