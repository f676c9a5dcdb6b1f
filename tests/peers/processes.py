"""A server as a child process: started, asked until it answers, stopped by signal, its output kept in a file.

Nothing here sleeps for a guessed time: readiness is a question asked of the server, an end is waited for.
"""

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol


class HasFileno(Protocol):
    """A file or a socket: it has a descriptor."""

    def fileno(self) -> int: ...


STARTED: list["Server"] = []  # in the order of their start; conftest shows their output when a test fails


_SETPRIV = shutil.which("setpriv")


def with_parent(command: Sequence[str]) -> list[str]:
    """The command, as one that Linux kills when this process is gone, even by SIGKILL. Not off the main thread: there
    the signal would come when the thread ends.

    A program sets that before it becomes the command. A `preexec_fn` would run Python in a copy of a process with many
    threads, which crashes now and then.
    """
    if _SETPRIV is None or threading.current_thread() is not threading.main_thread():
        return list(command)
    return [_SETPRIV, "--pdeathsig", "KILL", "--", *command]


def is_readable(file: int | HasFileno, timeout_s: float | None = 0.0) -> bool:
    """True if within so many seconds there is something to read, or the end; None waits however long it takes.

    `select.select` refuses descriptors above 1,023, which a process of tests may come to.
    """
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))


def keeping(settings: Mapping[str, object] | None) -> dict[str, object]:
    """The settings of a test's server, completed so that no record is ever too old. Many tests write records of 2023,
    and a slow one would see them deleted. A test that has settings for retention itself gets exactly those.
    """
    given = dict(settings or {})
    if any(name.startswith("log.retention.") for name in given):
        return given
    return {"log.retention.ms": -1, **given}


def ask(port: int, question: bytes, timeout_s: float = 10.0, *, host: str = "127.0.0.1") -> bytes:
    """The first bytes that a server answers (up to 64 KiB); empty if it does not listen or hangs up."""
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.sendall(question)
            return connection.recv(65536)
    except OSError:
        return b""


class Server:
    """A running child process whose stderr (and stdout, unless it is piped) goes to `log`.

    `stop` and `kill` wait for the end and may be called again; both are safe when the process has already ended.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        pipe_stdout: bool = False,
    ) -> None:
        self.name = name
        self.log = log
        self._log_start = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self.process = self._begin(command, environment or {}, subprocess.PIPE if pipe_stdout else output, output)
        STARTED.append(self)

    def _begin(
        self, command: Sequence[str], environment: Mapping[str, str], output: int | IO[bytes], errors: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            with_parent(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env={**os.environ, **environment},
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def wait_until(self, ready: Callable[[], bool], timeout_s: float = 120.0) -> None:
        """Ask `ready` until it is true; fails with the server's output if the process ends or the time is over."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            if not self.running:
                raise AssertionError(f"{self.name} ended with {self.process.returncode}:\n{self.output_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"{self.name} is not ready after {timeout_s} s:\n{self.output_tail()}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)

    def signal_and_wait(self, number: signal.Signals, timeout_s: float = 60.0) -> int:
        """Send the signal if it still runs, wait, and return the exit code (negative: ended by that signal)."""
        if self.running:
            self.process.send_signal(number)
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(
                f"{self.name} ignored {number.name} for {timeout_s} s:\n{self.output_tail()}"
            ) from None
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def stop(self) -> int:
        return self.signal_and_wait(signal.SIGTERM)

    def kill(self) -> int:
        return self.signal_and_wait(signal.SIGKILL)

    def output(self) -> str:
        """The output since this start."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def output_tail(self, lines: int = 60) -> str:
        return "\n".join(self.output().splitlines()[-lines:])
