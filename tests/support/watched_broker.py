"""`ottla` as a process whose loop is watched: `python -m tests.support.watched_broker FILE serve ...`.

Each step of the loop that takes longer than `LONG_MS` becomes a line of FILE: when it ended, how much processor time
it took of its thread and how long it lasted, in milliseconds, and what it was. Soak tests have bounds for that; what
`make test` bounds is counted (`tests.support.loop_steps`).
"""

import gc
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

import ottla.net.server
from ottla._core import Hub
from ottla.cli.main import main
from ottla.net.idle import Event, Turns
from tests.support.loop_steps import api_of

LONG_MS = 5.0


@dataclass(frozen=True, slots=True)
class Step:
    """By the monotonic clock, which is the machine's."""

    ended: float
    processor_ms: float
    wall_ms: float
    what: str


def steps(file: Path, since: float = 0.0) -> list[Step]:
    """The long steps that ended after a moment, the longest first."""
    found = [Step(**json.loads(line)) for line in file.read_text().splitlines()]
    return sorted((step for step in found if step.ended > since), key=lambda step: -step.processor_ms)


class _Timed(trio.abc.Instrument):
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
        """The milliseconds of the step under way that the collector has taken."""
        return self._collected_ns / 1e6

    def begins(self) -> int:
        """A step begins now: what `note` is to be given."""
        return time.thread_time_ns()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._begin_ns = self.begins()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.note(self._begin_ns, lambda: f"{task.name}{api_of(task)}")


class _Written(_Timed):
    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file.open("w", buffering=1)
        self._begin = 0.0

    def begins(self) -> int:
        self._begin = time.monotonic()
        return super().begins()

    def note(self, begin_ns: int, what: Callable[[], str], turns: int = 1) -> None:
        taken_ms = (time.thread_time_ns() - begin_ns) / 1e6 / max(turns, 1)
        if taken_ms > LONG_MS:
            ended = time.monotonic()
            name = f"{what()}, collector {self.collected_ms:.1f} ms"
            step = {"ended": ended, "processor_ms": taken_ms, "wall_ms": (ended - self._begin) * 1e3, "what": name}
            self._file.write(json.dumps(step) + "\n")
        super().note(begin_ns, what, turns)


def timed_turns(steps: _Timed) -> type[Turns]:
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


def run(file: Path, arguments: list[str]) -> None:
    watch = _Written(file)
    begin = trio.run

    def watched(function: Callable[..., Any], *arguments: Any) -> Any:
        return begin(function, *arguments, instruments=[watch])

    trio.run = watched
    ottla.net.server.Turns = timed_turns(watch)
    gc.callbacks.append(watch.collector)
    main(arguments)


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
