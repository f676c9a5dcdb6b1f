"""`ottla` as a process whose loop is watched: `python -m tests.support.watched_broker FILE serve ...`.

Each step of the loop that takes longer than `LONG_MS` becomes a line of FILE: when it ended, how much processor time
it took of its thread and how long it lasted, in milliseconds, and what it was.
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
from ottla.cli.main import main
from tests.support.loop_steps import Steps, timed_turns

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


class _Written(Steps):
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
