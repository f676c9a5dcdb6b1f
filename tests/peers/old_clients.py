"""The clients of Kafka 0.8 to 0.10 that find each other in ZooKeeper, run by Java (`OldClients.java`)."""

import os
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.peers.apache import SCRIPT, environment, fetch, need_java
from tests.peers.processes import with_parent
from tests.support.waiting import PATIENCE_S, eventually

SOURCE = Path(__file__).with_name("OldClients.java")
VERSIONS = ("0.8.2.2", "0.10.2.2")
HEAP_MB = 128


class Consumed(NamedTuple):
    stream: int
    topic: str
    partition: int
    offset: int
    value: str


def run(version: str, *arguments: str, stdin: str = "", timeout_s: float = 60.0) -> list[str]:
    """The lines that one of its commands prints; a failure raises with what it said."""
    need_java()
    fetch(version)
    done = subprocess.run(
        _command(version, *arguments),
        input=stdin.encode(),
        capture_output=True,
        timeout=timeout_s,
        env=_environment(),
    )
    assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout.decode()}\n{done.stderr.decode()}"
    return done.stdout.decode().splitlines()


class OldConsumer:
    """A `ZookeeperConsumerConnector` in a JVM of its own; `consumed` grows while it runs. Leaving the block stops it
    in order, `kill` as a machine dies.
    """

    def __init__(
        self, version: str, zookeeper: str, group: str, what: str, streams: int = 1, **settings: object
    ) -> None:
        need_java()
        fetch(version)
        pairs = [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
        self.consumed: list[Consumed] = []
        self.answers: list[str] = []
        self._output: list[str] = []
        self._process = subprocess.Popen(
            with_parent(_command(version, "consume", zookeeper, group, what, str(streams), *pairs)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_environment(),
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            line = raw.decode(errors="replace").rstrip("\n")
            if line in ("ready", "committed", "timeout"):
                self.answers.append(line)
                continue
            words = line.split(" ", 4)
            if len(words) == 5 and words[0].isdecimal() and words[2].isdecimal() and words[3].isdecimal():
                self.consumed.append(Consumed(int(words[0]), words[1], int(words[2]), int(words[3]), words[4]))
            else:
                self._output.append(line)

    def wait_ready(self) -> Self:
        self._wait("ready", 1)
        return self

    def commit(self) -> None:
        before = self.answers.count("committed")
        self._say("commit")
        self._wait("committed", before + 1)

    def stop(self) -> None:
        """In order: it commits and gives up what it owns."""
        if self._process.poll() is None:
            self._say("stop")
        self._end(PATIENCE_S)

    def kill(self) -> None:
        self._process.kill()
        self._end(PATIENCE_S)

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def _wait(self, answer: str, count: int, timeout_s: float = 60.0) -> None:
        def shown() -> str:
            return "\n".join(self._output[-40:])

        def is_said() -> bool:
            said = self.answers.count(answer) >= count
            assert said or self._process.poll() is None, f"no '{answer}':\n{shown()}"
            return said

        eventually(f"'{answer}'", is_said, timeout_s, facts=shown)

    def _end(self, timeout_s: float) -> None:
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError("the old consumer does not end:\n" + "\n".join(self._output[-40:])) from None
        finally:
            self._reader.join(timeout_s)
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop() if problem is None else self.kill()


def _command(version: str, *arguments: str) -> list[str]:
    return [str(SCRIPT), "java", version, str(SOURCE), *arguments]


def _environment() -> dict[str, str]:
    return {**os.environ, **environment(HEAP_MB)}
