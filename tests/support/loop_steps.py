"""How long a broker's loop is taken in one go: processor time of its thread, which other processes do not change."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import trio

import ottla.net.server
from ottla._core import Hub
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

    def note(self, begin_ns: int, what: Callable[[], str]) -> None:
        taken_ms = (time.thread_time_ns() - begin_ns) / 1e6
        if taken_ms > self.longest_ms:
            self.longest_ms = taken_ms
            self.what = f"{what()}, collector {self._collected_ns / 1e6:.1f} ms"
        self._collected_ns = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._begin_ns = time.thread_time_ns()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.note(self._begin_ns, lambda: task.name)


@contextmanager
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    """Measures the brokers that are started inside, in the trio run that this is called in."""
    steps = Steps()

    class TimedTurns(Turns):
        def __init__(self, hub: Hub, turn: Callable[[Event], object], failed: Callable[[BaseException], object]):
            def timed_turn(event: Event) -> None:
                begin_ns = time.thread_time_ns()
                turn(event)
                del event
                steps.note(begin_ns, lambda: "a turn")

            super().__init__(hub, timed_turn, failed)
            wait = self._wait

            def timed_wait(timeout: float) -> Event | None:
                begin_ns = time.thread_time_ns()
                event = wait(timeout)
                steps.note(begin_ns, lambda: "the hub")
                return event

            self._wait = timed_wait

    monkeypatch.setattr(ottla.net.server, "Turns", TimedTurns)
    trio.lowlevel.add_instrument(steps)
    gc.callbacks.append(steps.collector)
    try:
        yield steps
    finally:
        trio.lowlevel.remove_instrument(steps)
        gc.callbacks.remove(steps.collector)
