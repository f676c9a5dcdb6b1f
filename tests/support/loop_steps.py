"""How long a broker's loop is taken in one go: processor time of its thread, which other processes do not change."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

import ottla.net.server
from ottla._core import Hub, Request
from ottla.net.idle import Event, Turns


class Steps(trio.abc.Instrument):
    """The longest steps: of a task, of the handler of one request or completion, of the hub alone."""

    def __init__(self) -> None:
        self._begin_ns = 0
        self._collector_ns = 0
        self._collected_ns = 0
        self.longest_ms = 0.0
        self.what = ""

    def collector(self, phase: str, _info: object) -> None:
        if phase == "start":
            self._collector_ns = time.thread_time_ns()
        else:
            self._collected_ns += time.thread_time_ns() - self._collector_ns

    def reset(self) -> None:
        self.longest_ms, self.what = 0.0, ""

    def note(self, begin_ns: int, what: Callable[[], str], turns: int = 1) -> None:
        taken_ms = (time.thread_time_ns() - begin_ns) / 1e6 / max(turns, 1)
        if taken_ms > self.longest_ms:
            self.longest_ms = taken_ms
            self.what = f"{what()}, collector {self._collected_ns / 1e6:.1f} ms"
        self._collected_ns = 0

    @property
    def collected_ms(self) -> float:
        """What of the step under way the collector has taken."""
        return self._collected_ns / 1e6

    def begins(self) -> int:
        """A step begins now: what `note` is to be given."""
        return time.thread_time_ns()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._begin_ns = self.begins()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.note(self._begin_ns, lambda: f"{task.name}{_api(task)}")


def _api(task: trio.lowlevel.Task) -> str:
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
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    """Measures the brokers that are started inside, in the trio run that this is called in."""
    steps = Steps()
    monkeypatch.setattr(ottla.net.server, "Turns", timed_turns(steps))
    trio.lowlevel.add_instrument(steps)
    gc.callbacks.append(steps.collector)
    try:
        yield steps
    finally:
        trio.lowlevel.remove_instrument(steps)
        gc.callbacks.remove(steps.collector)


def timed_turns(steps: Steps) -> type[Turns]:
    """Turns of the hub that are noted."""

    class TimedTurns(Turns):
        def __init__(self, hub: Hub, turn: Callable[[Event], object], failed: Callable[[BaseException], object]):
            def timed_turn(event: Event) -> None:
                begin_ns = steps.begins()
                turn(event)
                del event
                steps.note(begin_ns, lambda: "a turn")

            super().__init__(hub, timed_turn, failed)
            wait = self._wait

            def timed_wait(timeout: float) -> Event | None:
                """A wait has many turns of the hub while a large frame comes in. Each serves everybody: they are taken
                to be alike.
                """
                begin_ns, turns = steps.begins(), hub.turns_total
                event = wait(timeout)
                steps.note(begin_ns, lambda: "the hub", hub.turns_total - turns)
                return event

            self._wait = timed_wait

    return TimedTurns
