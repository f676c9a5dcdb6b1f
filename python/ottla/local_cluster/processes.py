"""Processes that outlive the command that started them, and are known again by a later one.

A process's number alone does not name it: numbers come again. With the moment of its start it does, and on Linux with
the boot of the machine that the moment is counted from. A process that cannot be told to be ours is left alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

POLL_S = 0.02
_PROC = Path("/proc/self/stat")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_STATE, _THREADS, _START_TIME = 0, 17, 19
"""The places of `state`, `num_threads` and `starttime` behind the name in /proc/PID/stat (proc_pid_stat(5))."""

#: Those that this process has started, which it has to wait for when they have ended.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class Process:
    """One process: its number, and what `_start_of` said when it was started."""

    pid: int
    started: str

    @property
    def runs(self) -> bool:
        """True if this very process is there still. One that has ended and was not waited for is not."""
        if (child := _children.get(self.pid)) is not None and child.poll() is not None:
            del _children[self.pid]
        return _start_of(self.pid) == self.started


def launch(
    command: Sequence[str], log: Path, directory: Path | None = None, environment: Mapping[str, str] | None = None
) -> Process:
    """Starts a process in a session of its own, so that Ctrl-C does not reach it; what it says is appended to `log`.

    Raises OSError.
    """
    with log.open("ab") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=directory,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    _children[child.pid] = child
    return Process(child.pid, _start_of(child.pid) or "")


def send(process: Process, number: signal.Signals) -> None:
    """Sends a signal to this process and to no other that has its number by now."""
    if not hasattr(signal, "pidfd_send_signal"):  # not Linux
        if process.runs:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)
        return
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        # What the handle is of cannot become another any more: if it is ours now, the signal reaches ours.
        if process.runs:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def wait_until(holds: Callable[[], bool], timeout_s: float) -> bool:
    """Waits until the condition holds; False if it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def _start_of(pid: int) -> str | None:
    """When the process with this number was started, in words that no other of that number has; None without one."""
    if not _PROC.exists():
        return _start_by_ps(pid)
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    # A zombie whose other threads are there still has its ports and files: Java's first thread often ends first.
    if fields[_STATE] in "ZX" and int(fields[_THREADS]) <= 1:
        return None
    return f"{_BOOT.read_text().strip()} {fields[_START_TIME]}"


def _start_by_ps(pid: int) -> str | None:
    """The same where there is no /proc: macOS, BSD."""
    done = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True)
    state, _, started = done.stdout.strip().partition(" ")
    return started.strip() if state and not state.startswith("Z") else None
