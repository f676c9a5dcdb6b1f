"""The work that a broker's loop does in one go, counted: lines of Python, and rows that one call hands to C or Rust.

A machine that is loaded, or slow, counts the same. The clock by which slices end (`ottla.slices`) goes on by `TICK_S`
for each line and each such row meanwhile, so that a slice has as many lines everywhere: 400. What is done in one go on
purpose (`PIECES`) is made as much smaller as the requests of a test are.

Lines of tests and of trio's own do not count.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import nlargest
from pathlib import Path
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

import pytest
import trio

import ottla
import ottla.broker.api.k00_produce
import ottla.broker.api.k13_leave_group
import ottla.broker.api.k27_write_txn_markers
import ottla.broker.call
import ottla.broker.fetch.context
import ottla.broker.freeing
import ottla.broker.metadata_cache
import ottla.controller.writes
import ottla.net.server
import ottla.slices
import ottla.wire.schema
from ottla._core import Hub, Request
from ottla.net.idle import Event, Turns
from tests.support.rows_to_c import noted

TESTS = str(Path(__file__).parents[1])
TRIO = str(Path(trio.__file__).parent)
OTTLA = str(Path(ottla.__file__).parent)
#: The seconds that a line, or a row that C walks over, takes by the clock of the handlers.
TICK_S = 5e-6
#: Rows that the broker decodes, encodes, answers, puts and frees without a pause.
PIECES = (
    (ottla.wire.schema, "ITEMS_AT_ONCE", 100),
    (ottla.slices, "ROWS", 16),
    (ottla.slices, "LARGE_BYTES", 1024),
    (ottla.broker.call, "ROWS", 16),
    (ottla.broker.call, "LARGE_BYTES", 1024),
    (ottla.broker.metadata_cache, "TOPICS_AT_ONCE", 100),
    (ottla.broker.freeing, "FREED_AT_ONCE", 16),
    (ottla.broker.api.k00_produce, "ROWS", 16),
    (ottla.broker.api.k13_leave_group, "MEMBERS_AT_ONCE", 16),
    (ottla.broker.api.k27_write_txn_markers, "MARKERS_AT_ONCE", 16),
    (ottla.broker.api.k27_write_txn_markers, "ROWS", 16),
    (ottla.controller.writes, "ROWS_AT_ONCE", 16),
)
#: Lines of these say nothing about whether a handler looked at its rows: they are decoded and freed all the same.
OF_ANY_ROWS = ("slices.py", "freeing.py", "request_memory.py", "schema.py", "requests.py")
OF_ANY_CALL = (".go_on", ".decode", ".encode")


class Lines:
    """How many lines of one code object a step had so far, by a trace function of its own.

    Python computes the hash of a code object anew each time: tables of them would cost more than all else.
    """

    def __init__(self, code: CodeType, steps: Steps) -> None:
        self.code = code
        self.count = 0

        def trace(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
            if event == "line":
                self.count += 1
                steps.lines += 1
            return trace

        self.trace = trace


class Steps(trio.abc.Instrument):
    """The longest steps: of a task, of the handler of one request or completion. For the thread of one loop."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self.lines = 0
        self.rows = 0
        self._begin = 0
        # Both by `id` of a code object, which the value keeps; nothing for code that does not count.
        self._known: dict[int, tuple[CodeType, Lines | None]] = {}
        self._of_step: dict[int, Lines] = {}
        self.reset()

    def reset(self) -> None:
        self.longest, self.what = 0, ""
        self.most_rows, self.call = 0, ""
        self.looked_at = 0

    def now_s(self) -> float:
        """A clock that goes on with what is counted."""
        return (self.lines + self.rows) * TICK_S

    def tracer(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        """Called when a frame begins, and when it goes on after a `yield` or an `await`."""
        code = frame.f_code
        key = id(code)
        known = self._known.get(key)
        if known is None:
            counts = not code.co_filename.startswith((TESTS, TRIO))
            known = self._known[key] = code, Lines(code, self) if counts else None
        lines = known[1]
        if lines is None:
            return None
        self._of_step[key] = lines
        return lines.trace

    def rows_to_c(self, rows: int, call: str) -> None:
        """One call was given so many rows. Clients in other threads run code of `ottla` too."""
        if threading.get_ident() != self._thread:
            return
        self.rows += rows
        if not call.endswith(OF_ANY_CALL):
            self.looked_at += rows
        if rows > self.most_rows:
            caller = sys._getframe(2)
            while caller.f_code.co_filename.startswith(TESTS):
                caller = caller.f_back  # type: ignore[assignment]  # ottla called it
            self.most_rows = rows
            self.call = f"{call} at {Path(caller.f_code.co_filename).name}:{caller.f_lineno}"

    def begins(self) -> int:
        """A step begins now: what `note` is to be given."""
        for lines in list(self._of_step.values()):
            lines.count = 0
        self._of_step.clear()
        return self.lines

    def note(self, begin: int, what: Callable[[], str]) -> None:
        """A step ends."""
        for of_code in list(self._of_step.values()):
            file = of_code.code.co_filename
            if file.startswith(OTTLA) and not file.endswith(OF_ANY_ROWS):
                self.looked_at += of_code.count
        if self.lines - begin > self.longest:
            self.longest = self.lines - begin
            longest = nlargest(3, list(self._of_step.values()), key=lambda lines: lines.count)
            most = ", ".join(f"{lines.count} in {_name(lines.code)}" for lines in longest)
            self.what = f"{what()}: {most}"

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._begin = self.begins()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.note(self._begin, lambda: f"{task.name}{api_of(task)}")


def _name(code: CodeType) -> str:
    return f"{Path(code.co_filename).name}:{code.co_qualname}"


def api_of(task: trio.lowlevel.Task) -> str:
    """Of which API the request is that a task answers, nothing if it answers none any more; and where it waits now."""
    frame = getattr(task.coro, "cr_frame", None)
    request = frame.f_locals.get("request") if frame else None
    api = f" of API {request.api_key}" if isinstance(request, Request) else ""
    inner, place = task.coro, ""
    while (frame := getattr(inner, "cr_frame", None)) is not None:
        if "ottla" in frame.f_code.co_filename:
            place = f", until {Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        inner = inner.cr_await
    return api + place


@contextmanager
def counted() -> Iterator[Steps]:
    """Counts in the trio run, and its thread, that this is called in. Brokers are to be started inside."""
    steps = Steps()
    before = sys.gettrace()
    with pytest.MonkeyPatch.context() as patch, noted(steps.rows_to_c):
        patch.setattr(ottla.net.server, "Turns", counted_turns(steps))
        patch.setattr(ottla.slices, "time", SimpleNamespace(monotonic=steps.now_s))
        for module, name, rows in PIECES:
            patch.setattr(module, name, rows)
        trio.lowlevel.add_instrument(steps)
        sys.settrace(steps.tracer)
        try:
            yield steps
        finally:
            sys.settrace(before)
            trio.lowlevel.remove_instrument(steps)


@contextmanager
def counted_here(under: str) -> Iterator[Steps]:
    """Counts what is called in the block, without a loop: `steps.lines`, and `steps.rows` that functions of the file or
    folder `under` hand to C.
    """
    steps = Steps()
    before = sys.gettrace()
    with noted(steps.rows_to_c, under):
        sys.settrace(steps.tracer)
        try:
            yield steps
        finally:
            sys.settrace(before)


def counted_turns(steps: Steps) -> type[Turns]:
    """Turns of the hub that are noted."""

    class CountedTurns(Turns):
        def __init__(self, hub: Hub, turn: Callable[[Event], object], failed: Callable[[BaseException], object]):
            def counted_turn(event: Event) -> None:
                begin = steps.begins()
                turn(event)
                del event
                steps.note(begin, lambda: "a turn")

            super().__init__(hub, counted_turn, failed)

    return CountedTurns
