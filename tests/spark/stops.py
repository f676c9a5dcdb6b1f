"""Stopping the sink's processes at named points (`ottla.spark.sink.hooks`), to kill them there."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.support.waiting import PATIENCE_S, eventually


class Stops:
    """For the processes that were started with $OTTLA_SINK_STOPS=folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def set(self, point: str) -> None:
        """From now on processes stop at this point."""
        (self.folder / point).touch()

    def wait(
        self, point: str, count: int = 1, running: Callable[[], bool] = lambda: True, timeout_s: float = PATIENCE_S
    ) -> list[int]:
        """Waits until so many processes have stopped there, and gives their pids. `running` may say that it is over."""

        def stopped() -> list[Path]:
            return list(self.folder.glob(f"{point}-*"))

        def have_stopped() -> bool:
            if len(stopped()) >= count:
                return True
            assert running(), f"over before {count} processes stopped at {point}"
            return False

        eventually(f"{count} processes stop at {point}", have_stopped, timeout_s, facts=stopped)
        return [int(each.name.rpartition("-")[2]) for each in stopped()]

    def kill(self, point: str, pid: int) -> None:
        """Kills one of them, and lets the others end."""
        os.kill(pid, signal.SIGKILL)
        self.clear(point)

    def clear(self, point: str) -> None:
        """Processes that stopped there end by themselves; later ones pass."""
        for each in [self.folder / point, *self.folder.glob(f"{point}-*")]:
            each.unlink(missing_ok=True)
