"""Rounds: each contestant in turn, on a fresh directory, then the next round.

A round is: start the broker, let a virtual machine of Java compile what runs often, measure the cases, compare what
was sent with what is there, stop. Peak memory and the time to start are taken of every life.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benches.suite import figures as f
from benches.suite.frames import fetch_frame, produce_frame, values
from benches.suite.generators import Load
from benches.suite.proof import NotEqual
from benches.suite.servers import Contestant, Running, Settings, create_topic, memory_mb, seconds_until_served


@dataclass(frozen=True)
class Scenario:
    """`measure` gets a running broker; with `owns_life` it starts and stops brokers itself."""

    name: str
    title: str
    generator: str
    measure: Callable[[Run], f.Figures]
    settings: Settings = field(default_factory=dict)
    owns_life: bool = False
    is_long: bool = False
    """Only in full runs."""
    published: dict[str, str] = field(default_factory=dict)


@dataclass
class Size:
    """How long a run is: `seconds` of each case, and a factor for numbers of records, partitions and bytes."""

    seconds: float = 2.0
    warm_up_s: float = 5.0
    factor: float = 1.0
    is_full: bool = False

    def count(self, number: int, least: int = 1) -> int:
        return max(least, int(number * self.factor))


class Run:
    """One contestant in one round of a scenario."""

    def __init__(self, contestant: Contestant, scenario: Scenario, folder: Path, load: Load, size: Size) -> None:
        self.contestant = contestant
        self.folder = folder
        self.load = load
        self.size = size
        self.curves: dict[str, list[tuple[float, float]]] = {}
        self.problems: list[str] = []
        self._settings = scenario.settings
        self._server: Running | None = None
        self._started: list[Running] = []

    @property
    def server(self) -> Running:
        assert self._server is not None
        return self._server

    @server.setter
    def server(self, server: Running) -> None:
        self._server = server
        self._started.append(server)

    def start(self, name: str = "broker", *, port: int | None = None, wait: bool = True, **settings: object) -> Running:
        """A broker in a folder of that name; settings with _ for dots."""
        named = {key.replace("_", "."): value for key, value in settings.items()}
        self.server = self.contestant.start(self.folder / name, {**self._settings, **named}, port, wait=wait)
        return self.server

    def end(self) -> None:
        for server in self._started:
            server.kill()

    def drive(self, case: str | None = None, **options: Any) -> dict[str, Any]:
        """`load drive` against this broker; the curve of its latencies is kept under the case's name."""
        options = {"seconds": self.size.seconds, "warm_up_s": min(0.5, self.size.seconds / 2), **options}
        found = self.load(run="drive", address=self.server.bootstrap, pids=[self.server.pid], **options)
        if case is not None:
            self.curves[case] = found["latency"]["curve_us"]
        return found

    def payloads(self, value_bytes: int, count: int = 1000) -> tuple[Path, list[bytes]]:
        """A file of values, one a line, and the values: fewer of large ones."""
        contents = values(value_bytes, max(10, min(count, 10_000_000 // value_bytes)))
        path = self.folder / f"payloads-{value_bytes}"
        path.write_bytes(b"\n".join(contents))
        return path, contents

    @contextmanager
    def case(self, name: str, found: f.Figures) -> Iterator[dict[str, float]]:
        """Figures of one case; they are thrown away when what was sent and what is there do not compare."""
        row: dict[str, float] = {}
        try:
            yield row
        except NotEqual as problem:
            self.problems.append(f"{name}: {problem}")
        else:
            found[name] = row


def warm_up(run: Run) -> None:
    """Small and large Produce and Fetch, so that Java has compiled them."""
    seconds = run.size.warm_up_s / 3
    create_topic(run.server, "warm-up", 4)
    small = [str(produce_frame(run.folder, "warm-up", 100, partition=index).path) for index in range(4)]
    large = str(produce_frame(run.folder, "warm-up", 100, 150, partition=0, acks=-1).path)
    fetch = str(fetch_frame(run.folder, "warm-up", 1 << 20, 4))
    for frames, connections in ((small, 20), ([large], 4), ([fetch], 2)):
        run.drive(frames=frames, connections=connections, seconds=seconds, warm_up_s=0)


def run_scenario(
    scenario: Scenario, contestants: list[Contestant], rounds: int, load: Load, size: Size, say: Callable[[str], None]
) -> f.Result:
    """All rounds of a scenario."""
    result = f.Result(scenario.name, scenario.title, scenario.generator, published=dict(scenario.published))
    begin = time.perf_counter()
    for number in range(1, rounds + 1):
        for contestant in contestants:
            say(f"{scenario.name}: round {number} of {rounds}, {contestant.name}")
            with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder:
                run = Run(contestant, scenario, Path(folder), load, size)
                try:
                    found = _life(run, scenario)
                except (NotEqual, AssertionError, RuntimeError, OSError) as problem:
                    run.problems.append(f"{type(problem).__name__}: {problem}")
                    found = {}
                finally:
                    run.end()
                result.add(contestant.name, found)
                result.problems += [f"{contestant.name}, round {number}: {problem}" for problem in run.problems]
                for case, curve in run.curves.items():
                    result.curves.setdefault(case, {})[contestant.name] = curve
                shutil.rmtree(Path(folder) / "broker", ignore_errors=True)
    result.seconds = time.perf_counter() - begin
    return result


def _life(run: Run, scenario: Scenario) -> f.Figures:
    if scenario.owns_life:
        return scenario.measure(run)
    begin = time.perf_counter()
    run.start()
    seconds_until_served(run.server)
    started = time.perf_counter() - begin
    if run.contestant.needs_warm_up:
        warm_up(run)
    found = scenario.measure(run)
    found["whole run"] = {f.START: started, f.PEAK: memory_mb(run.server, peak=True)}
    return found
