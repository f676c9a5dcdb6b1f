"""A machine on which everything is typed as pages have it: its ports are its own, so addresses stay as they are."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cluster.network import Namespace, need_namespaces
from tests.support.waiting import PATIENCE_S

#: More than any block asks.
YES = b"y\n" * 20


class Machine:
    """A folder to type in, with `ottla` and `python` of this environment, and a network that nothing else is in."""

    def __init__(self, folder: Path) -> None:
        need_namespaces()
        self.folder = folder
        self._stack = ExitStack()
        self._network = Namespace("page", 1)
        self._stack.callback(os.close, self._network.descriptor)
        self._network.ip("link set lo up")
        commands = folder / "commands"
        commands.mkdir()
        for name, start in {"ottla": f"{sys.executable} -m ottla", "python": sys.executable}.items():
            (commands / name).write_text(f'#!/usr/bin/env bash\nexec {start} "$@"\n')
            (commands / name).chmod(0o755)
        self.environment = os.environ | {
            "PATH": f"{commands}:{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
            # The machine's name leads nowhere in this network.
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Processes that are made here are on the machine."""
        with self._network.inside():
            yield

    def type(self, text: str, *, timeout_s: float = PATIENCE_S) -> str:
        """The output of a block. Its questions are answered with yes, as from a terminal."""
        terminal, seat = pty.openpty()
        try:
            os.write(terminal, YES)
            with self.inside():
                done = subprocess.run(
                    ["bash", "-euc", text],
                    stdin=seat,
                    capture_output=True,
                    text=True,
                    cwd=self.folder,
                    env=self.environment,
                    timeout=timeout_s,
                )
        finally:
            os.close(terminal)
            os.close(seat)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def stay(self, line: str, *, until: str = "ottla ready:") -> subprocess.Popen[str]:
        """Types a line in a terminal of its own, where it stays until the end, and waits for what it prints."""
        with self.inside():
            process = subprocess.Popen(
                ["bash", "-euc", f"exec {line}"],
                stdout=subprocess.PIPE,
                text=True,
                cwd=self.folder,
                env=self.environment,
            )
        self._stack.callback(self._end, process)
        assert process.stdout is not None
        assert until in process.stdout.readline(), line
        return process

    def _end(self, process: subprocess.Popen[str]) -> None:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
