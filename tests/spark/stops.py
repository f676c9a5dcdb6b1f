"""Stopping the sink's processes at named points (`ottla.spark.sink.hooks`), to kill them there."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

SECONDS_MAX = 60.0


class Stops:
    """For the processes that were started with $OTTLA_SINK_STOPS=folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def set(self, point: str) -> None:
        """From now on processes stop at this point."""
        (self.folder / point).touch()

    def wait(self, point: str, count: int = 1, running: Callable[[], bool] = lambda: True) -> list[int]:
        """Waits until so many processes have stopped there, and gives their pids. `running` may say that it is over."""
        deadline = time.monotonic() + SECONDS_MAX
        while len(found := list(self.folder.glob(f"{point}-*"))) < count:
            assert running(), f"over before {count} processes stopped at {point}"
            assert time.monotonic() < deadline, f"{len(found)} processes stopped at {point} instead of {count}"
            time.sleep(0.02)
        return [int(each.name.rpartition("-")[2]) for each in found]

    def kill(self, point: str, pid: int) -> None:
        """Kills one of them, and lets the others end."""
        os.kill(pid, signal.SIGKILL)
        self.clear(point)

    def clear(self, point: str) -> None:
        """Processes that stopped there end by themselves; later ones pass."""
        for each in [self.folder / point, *self.folder.glob(f"{point}-*")]:
            each.unlink(missing_ok=True)
