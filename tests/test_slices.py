"""Work on many rows goes on in slices, between which everybody else is served; and nothing in a broker gives the loop
back in another way.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

import ottla
from ottla import slices
from ottla.slices import ROWS, Slices, are_few, in_slices, serve

#: Its clock stands still: slices end by their rows alone.
STANDS = SimpleNamespace(monotonic=lambda: 0.0)
#: A slice is over at once.
IS_OVER = SimpleNamespace(monotonic=iter(range(10**9)).__next__)

SOURCES = Path(ottla.__file__).parent
#: Where the broker's work is done. (Clients give back a loop that is their program's.)
BROKERS = ("broker", "controller", "coordination", "group", "metrics", "net", "replication", "transaction")
#: Functions that may, as file::function, and why.
OTHERS = {
    "coordination/embedded.py::sync": "there is nothing to wait for, and trio's functions are checkpoints",
    "coordination/server/listener.py::_receive": "a process without a broker, whose bursts are counted",
    "coordination/server/listener.py::_commit_what_changed": "others that have received something share the commit",
}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    return lambda clock: monkeypatch.setattr(slices, "time", clock)


class Passes(trio.abc.Instrument):
    """Counts how often the task that made it went on."""

    def __init__(self) -> None:
        self._task = trio.lowlevel.current_task()
        self.count = 0
        trio.lowlevel.add_instrument(self)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += task is self._task


@pytest.mark.trio
async def test_a_slice_ends_after_so_many_rows(clock: Callable[[object], None]) -> None:
    clock(STANDS)
    passes, mine = Passes(), Slices()
    for _ in range(5 * ROWS):
        await mine.row()
    assert passes.count == 5
    await mine.row(ROWS - 1)
    assert passes.count == 5
    await mine.row()
    assert passes.count == 6, "rows that were done at once count, too"
    assert [number async for number in in_slices(range(3 * ROWS))] == [*range(3 * ROWS)]
    assert passes.count == 9


@pytest.mark.trio
async def test_rows_that_take_long_end_it_earlier(clock: Callable[[object], None]) -> None:
    now_s = 0.0
    clock(SimpleNamespace(monotonic=lambda: now_s))
    passes, mine = Passes(), Slices()
    now_s += slices.FIRST_SLICE_S * 0.99
    await mine.row()
    assert passes.count == 0
    now_s += slices.FIRST_SLICE_S * 0.02
    await mine.row()
    assert passes.count == 1, "the first slice is short"
    for _ in range(10):
        now_s += slices.SLICE_S / 10.5
        await mine.row()
    assert passes.count == 1
    now_s += slices.SLICE_S / 10
    await mine.row()
    assert passes.count == 2


class Served:
    """Serves a request of so many rows."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.done: list[int] = []
        self.tasks = 0

    def in_background(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.tasks += 1
        self._nursery.start_soon(work)

    def work(self, rows: int) -> Iterator[None]:
        for row in range(rows):
            self.done.append(row)
            yield


@pytest.mark.trio
async def test_few_rows_are_done_at_once_and_many_in_a_task(
    nursery: trio.Nursery, clock: Callable[[object], None]
) -> None:
    clock(STANDS)
    few, many = Served(nursery), Served(nursery)
    assert are_few(ROWS)
    assert not are_few(ROWS + 1)
    assert not are_few(1, slices.LARGE_BYTES + 1)
    serve(few, ROWS, few.work(ROWS))
    assert (few.tasks, len(few.done)) == (0, ROWS)
    serve(many, ROWS + 1, many.work(ROWS + 1))
    assert (many.tasks, many.done) == (1, [])
    await wait_all_tasks_blocked()
    assert len(many.done) == ROWS + 1


@pytest.mark.trio
async def test_work_that_does_many_rows_at_once_says_so(nursery: trio.Nursery, clock: Callable[[object], None]) -> None:
    clock(STANDS)
    served, seen = Served(nursery), []

    def work() -> Iterator[int]:
        for part in range(3):
            seen.append(part)
            yield ROWS

    serve(served, 3 * ROWS, work())
    between: list[int] = []
    while len(seen) < 3:
        between.append(len(seen))
        await trio.lowlevel.checkpoint()
    # trio runs the tasks of one pass in any order.
    assert {1, 2} & {*between}


@pytest.mark.trio
async def test_many_that_go_on_leave_room_for_others(clock: Callable[[object], None]) -> None:
    """Two have a slice in each pass of the loop, however many tasks there are."""
    clock(IS_OVER)
    rows, between = 0, []

    async def handler() -> None:
        nonlocal rows
        mine = Slices()
        for _ in range(20):
            await mine.row()
            rows += 1

    async def somebody_else(over: trio.Event) -> None:
        while not over.is_set():
            before = rows
            await trio.lowlevel.checkpoint()
            between.append(rows - before)

    async with trio.open_nursery() as others:
        over = trio.Event()
        others.start_soon(somebody_else, over)
        async with trio.open_nursery() as handlers:
            for _ in range(50):
                handlers.start_soon(handler)
        over.set()
    assert sum(between) == rows == 1000
    # In two passes of the loop: those of one pass run in any order.
    assert max(between) <= 4


@pytest.mark.trio
async def test_the_brokers_own_work_does_not_wait_for_requests(clock: Callable[[object], None]) -> None:
    clock(IS_OVER)
    waited: list[int] = []
    rows = 0

    async def handler() -> None:
        nonlocal rows
        mine = Slices()
        while True:
            await mine.row()
            rows += 1

    async def controller(scope: trio.CancelScope) -> None:
        mine = Slices(own=True)
        for _ in range(20):
            before = rows
            await mine.row()
            waited.append(rows - before)
        scope.cancel()

    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(handler)
        nursery.start_soon(controller, nursery.cancel_scope)
    # Every task that begins has a first slice. After that two requests go on in a pass.
    assert max(waited[5:]) <= 4


@pytest.mark.trio
async def test_one_that_is_cancelled_leaves_the_line(clock: Callable[[object], None]) -> None:
    clock(IS_OVER)
    ended = []

    async def handler(number: int, scope: trio.CancelScope) -> None:
        mine = Slices()
        with scope:
            for _ in range(10):
                await mine.row()
            ended.append(number)

    scopes = [trio.CancelScope() for _ in range(20)]
    async with trio.open_nursery() as nursery:
        for number, scope in enumerate(scopes):
            nursery.start_soon(handler, number, scope)
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        for scope in scopes[::2]:
            scope.cancel()
    assert sorted(ended) == list(range(1, 20, 2))


def checkpoints(source: str) -> Iterator[tuple[str, int]]:
    """The functions of a module that give the loop back themselves, each with the line where."""
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and ast.unparse(node) in (
                "trio.lowlevel.checkpoint()",
                "trio.sleep(0)",
                "checkpoint()",
            ):
                yield function.name, node.lineno


def test_nothing_else_in_a_broker_gives_the_loop_back() -> None:
    found = {
        f"{path.relative_to(SOURCES)}::{function}": f"{path}:{line}"
        for room in BROKERS
        for path in sorted((SOURCES / room).rglob("*.py"))
        for function, line in checkpoints(path.read_text())
    }
    assert found.keys() == OTHERS.keys(), f"use ottla.slices: {found}"


def test_one_that_does_is_found() -> None:
    source = "async def f():\n    for row in rows:\n        await trio.lowlevel.checkpoint()\n"
    assert [*checkpoints(source)] == [("f", 3)]


def test_trios_own_parts_are_used_in_one_file() -> None:
    """`tests/net/test_idle.py` says what it relies on."""
    users = [path for path in sorted(SOURCES.rglob("*.py")) if re.search(r"\btrio\._", path.read_text())]
    assert users == [SOURCES / "net/idle.py"]
