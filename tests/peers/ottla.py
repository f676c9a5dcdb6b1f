"""This project's broker as users run it: `ottla serve` in a process of its own."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO

from tests.peers import forks
from tests.peers.ports import free_port
from tests.peers.processes import Server, is_readable, keeping

READY = re.compile(r"ottla ready: broker (\d+) at (\S+):(\d+)\s*")


class Broker(Server):
    """A running `ottla serve`. `data` is its data directory, `bootstrap` what a client connects to. `program` is a
    module in place of `ottla`, with arguments that come first.
    """

    def __init__(
        self,
        data: Path,
        *,
        broker_id: int | None,
        host: str = "127.0.0.1",
        port: int,
        zookeeper: str | None,
        settings: Mapping[str, object],
        arguments: tuple[str, ...],
        log: Path,
        program: tuple[str, ...] = ("ottla",),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.data = data
        self.port = port
        self.host = host
        self.bootstrap = f"{host}:{port}"
        self._program = program
        command = ["serve", "--data-dir", str(data)]
        if "listeners" not in settings:
            command += ["--listen", self.bootstrap]
        if broker_id is not None:
            command += ["--id", str(broker_id)]
        if zookeeper is not None:
            command += ["--zookeeper", zookeeper]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        super().__init__(f"ottla-{broker_id}", [*command, *arguments], log, pipe_stdout=True, environment=environment)

    def _begin(
        self, command: Sequence[str], environment: Mapping[str, str], output: int | IO[bytes], errors: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        if forks.is_possible(self._program, environment):
            return forks.Fork(command, {**os.environ, **environment}, errors)
        return super()._begin([sys.executable, "-m", *self._program, *command], environment, output, errors)

    def wait_ready(self, timeout_s: float = 60.0) -> "Broker":
        """Wait for the line `ottla ready: broker N at HOST:PORT` on stdout."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + timeout_s
        line = self.process.stdout.readline().decode() if is_readable(self.process.stdout, timeout_s) else ""
        match = READY.fullmatch(line)
        if match is None or time.monotonic() > deadline:
            self.kill()
            raise AssertionError(f"{self.name} said {line!r} instead of being ready:\n{self.output_tail()}")
        self.id = int(match[1])
        assert int(match[3]) == self.port, line
        return self

    def stop(self) -> int:
        """SIGTERM; asserts the clean end that users are promised: exit code 0."""
        if not self.running:
            return super().stop()
        code = super().stop()
        assert code == 0, f"{self.name} ended with {code} after SIGTERM:\n{self.output_tail()}"
        return code


class Brokers:
    """Starts brokers and stops them at the end of the `with` block. Calling it starts one:

    brokers(data=..., settings={"num.partitions": 3}, zookeeper="127.0.0.1:2181/a") -> Broker
    """

    def __init__(self, directory: Path, *, settings: Mapping[str, object] | None = None) -> None:
        """`settings` are of all its brokers, where a broker is not given others."""
        self.directory = directory
        self._settings = settings or {}
        self._stack = ExitStack()
        self._count = 0

    def __enter__(self) -> "Brokers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def __call__(
        self,
        *,
        data: Path | None = None,
        broker_id: int | None = None,
        host: str = "127.0.0.1",
        port: int | None = None,
        zookeeper: str | None = None,
        settings: Mapping[str, object] | None = None,
        arguments: tuple[str, ...] = (),
        program: tuple[str, ...] = ("ottla",),
        environment: Mapping[str, str] | None = None,
        wait: bool = True,
    ) -> Broker:
        """Start `ottla serve`. The same `data` and `port` again is a restart; `wait=False` is for those that refuse."""
        self._count += 1
        broker = Broker(
            data or self.directory / f"ottla-{self._count}" / "data",
            broker_id=broker_id,
            host=host,
            port=port or free_port(),
            zookeeper=zookeeper,
            settings=keeping({**self._settings, **(settings or {})}),
            arguments=arguments,
            program=program,
            environment=environment,
            log=self.directory / f"ottla-{self._count}.log",
        )
        self._stack.callback(broker.stop)
        return broker.wait_ready() if wait else broker

    def restart(self, broker: Broker, **changes: object) -> Broker:
        """A new process on the same data, host and port, after the old one has ended."""
        assert not broker.running
        return self(**{"data": broker.data, "host": broker.host, "port": broker.port, **changes})  # type: ignore[arg-type]
