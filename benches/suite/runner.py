"""Rounds: each contestant in turn, then the next round: A B A B.

The brokers of all contestants live at the same time and through several scenarios (lives), so that a round begins with
a warm one. Before the first round of a scenario the scenario itself is rehearsed with each broker, with shorter cases,
until its cost stands still. A round is: measure the cases, compare what was sent with what is there, delete the topics.
Scenarios about starts and stops have brokers of their own in each round (`owns_life`).
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benches.suite import figures as f
from benches.suite.frames import values
from benches.suite.generators import Load
from benches.suite.lives import Life, Lives
from benches.suite.memory import LEAST, Memory, touch
from benches.suite.proof import NotEqual
from benches.suite.servers import Contestant, Running, Settings, clear, memory_mb, reset_peak
from benches.suite.targets import RIVALS
from benches.suite.warmup import cost, warm_up

REHEARSAL_S = 0.6
# Of a case's seconds, where time is short.
SHORTEST = 0.5
# Of the numbers of records and bytes.
REHEARSAL_PART = 0.25
# One window, where no target is a ratio and others have warmed the broker.
ONCE_S = 0.1


@dataclass(frozen=True)
class Scenario:
    """`measure` gets a running broker; with `owns_life` it starts and stops brokers itself."""

    name: str
    title: str
    generator: str
    measure: Callable[[Run], f.Figures]
    settings: Settings = field(default_factory=dict)
    owns_life: bool = False
    is_fresh: bool = False
    """Begins with new brokers: the memory of a life is one of its figures."""
    takes_turns: bool = False
    """In each round there is one Kafka, another one each time: a round takes long."""
    is_long: bool = False
    """Only in full runs."""
    expected_s: float = 60.0
    """Of three rounds with two Kafkas on two slow cores, for `--plan`."""
    published: dict[str, str] = field(default_factory=dict)


@dataclass
class Size:
    """How long a run is: `seconds` of each case, and a factor for numbers of records, partitions and bytes."""

    seconds: float = 2.0
    warm_up_s: float = 25.0
    """The longest warming of one broker for one scenario."""
    factor: float = 1.0
    is_full: bool = False
    is_rehearsal: bool = False

    def rehearsal(self) -> Size:
        seconds, factor = min(self.seconds, REHEARSAL_S), self.factor * REHEARSAL_PART
        return dataclasses.replace(self, seconds=seconds, factor=factor, is_rehearsal=True)

    def rehearsing_s(self, name: str, is_warm: bool) -> float:
        """How long a scenario is rehearsed at most with a broker that others have warmed, or have not."""
        return ONCE_S if is_warm and not self.is_full and name not in RIVALS else self.warm_up_s

    def hurried(self, rounds: int, wanted: int) -> Size:
        """Where there is time for fewer rounds there is for less warming, which takes longer than a round, and for
        shorter cases.
        """
        part = rounds / wanted
        return dataclasses.replace(self, warm_up_s=self.warm_up_s * part, seconds=self.seconds * max(part, SHORTEST))

    def count(self, number: int, least: int = 1) -> int:
        return max(least, int(number * self.factor))


class Run:
    """One contestant in one round of a scenario."""

    def __init__(
        self,
        contestant: Contestant,
        scenario: Scenario,
        folder: Path,
        load: Load,
        size: Size,
        memory: Memory | None = None,
    ) -> None:
        self.contestant = contestant
        self.folder = folder
        self.load = load
        self.size = size
        self._scenario = scenario
        self._memory = memory or Memory()
        self.curves: dict[str, list[tuple[float, float]]] = {}
        self.problems: list[str] = []
        self._server: Running | None = None
        self._started: list[Running] = []

    @property
    def server(self) -> Running:
        assert self._server is not None
        return self._server

    @server.setter
    def server(self, server: Running) -> None:
        """One that lives on when the run ends."""
        self._server = server

    def start(self, name: str = "broker", *, port: int | None = None, wait: bool = True, **settings: object) -> Running:
        """A broker in a folder of that name; settings with _ for dots."""
        named = {key.replace("_", "."): value for key, value in settings.items()}
        self.server = self.contestant.start(self.folder / name, {**self._scenario.settings, **named}, port, wait=wait)
        self._started.append(self.server)
        return self.server

    @staticmethod
    def make_room() -> None:
        """Before a start whose time counts."""
        touch(LEAST)

    def end(self) -> None:
        for server in self._started:
            server.kill()

    def drive(self, case: str | None = None, **options: Any) -> dict[str, Any]:
        """`load drive` against this broker; the curve of its latencies is kept under the case's name."""
        options = {"pids": [self.server.pid], **self.lengths(), **options}
        found = self.load(run="drive", address=self.server.bootstrap, **options)
        if case is not None:
            self.curves[case] = found["latency"]["curve_us"]
        return found

    def lengths(self) -> dict[str, float]:
        """Of a case, as generators take them."""
        return {"seconds": self.size.seconds, "warm_up_s": min(0.5, self.size.seconds / 2)}

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
            with self._memory.ready(f"{self._scenario.name}: {name}", self.size.is_rehearsal):
                yield row
        except NotEqual as problem:
            self.problems.append(f"{name}: {problem}")
        else:
            found[name] = row


def run_scenario(
    scenario: Scenario,
    contestants: list[Contestant],
    rounds: int,
    lives: Lives,
    size: Size,
    say: Callable[[str], None],
) -> f.Result:
    """All rounds of a scenario."""
    result = f.Result(scenario.name, scenario.title, scenario.generator, published=dict(scenario.published))
    begin = time.perf_counter()
    if scenario.is_fresh or scenario.owns_life:
        lives.end()
    for number in range(1, rounds + 1):
        for contestant in of_round(scenario, contestants, number):
            where = f"{scenario.name}: round {number} of {rounds}, {contestant.name}"
            say(where)
            started = time.perf_counter()

            def say_more(what: str, where: str = where) -> None:
                say(f"{where}: {what}")

            one = _Round(scenario, contestant, lives, size, result, say_more)
            one.measure(number)
            result.spent.setdefault(contestant.name, []).append(time.perf_counter() - started)
    result.seconds = time.perf_counter() - begin
    return result


def of_round(scenario: Scenario, contestants: list[Contestant], number: int) -> list[Contestant]:
    """Who takes part in a round, ours first."""
    others = contestants[1:]
    return [contestants[0], others[(number - 1) % len(others)]] if scenario.takes_turns and others else contestants


class _Round:
    """One contestant in one round; whatever goes wrong in it is a problem of the result and no more."""

    def __init__(
        self,
        scenario: Scenario,
        contestant: Contestant,
        lives: Lives,
        size: Size,
        result: f.Result,
        say: Callable[[str], None],
    ) -> None:
        self.scenario, self.contestant, self.lives, self.size, self.result = scenario, contestant, lives, size, result
        self._say = say

    def measure(self, number: int) -> None:
        life = None
        try:
            if not self.scenario.owns_life:
                life, warm_ups = self.lives.get(self.contestant, self.scenario.settings, self._say)
                self.result.warm_ups += map(dataclasses.asdict, warm_ups)
                self._rehearse(life)
            run, found = self._play(life, self.size)
        except Exception as problem:  # of any kind: the other brokers and scenarios are measured all the same
            self._note(number, [f"{type(problem).__name__}: {problem}"])
            # Nobody knows what state it is in.
            self.lives.end(self.contestant.name)
            return
        self._note(number, run.problems)
        self.result.add(self.contestant.name, number, found)
        for case, curve in run.curves.items():
            self.result.curves.setdefault(case, {})[self.contestant.name] = curve

    def _note(self, number: int, problems: list[str]) -> None:
        self.result.problems += [f"{self.contestant.name}, round {number}: {problem}" for problem in problems]

    def _rehearse(self, life: Life) -> None:
        if self.scenario.name in life.warm_for:
            return
        self._say("rehearses")
        # A window of a scenario is all of its cases.
        found = warm_up(
            self.contestant.name,
            "rehearsals",
            lambda: cost(self._play(life, self.size.rehearsal())[1]),
            self.size.rehearsing_s(self.scenario.name, bool(life.warm_for)),
        )
        self.result.warm_ups.append(dataclasses.asdict(found))
        life.warm_for.add(self.scenario.name)

    def _play(self, life: Life | None, size: Size) -> tuple[Run, f.Figures]:
        """The scenario once."""
        with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder:
            run = Run(self.contestant, self.scenario, Path(folder), self.lives.load, size, self.lives.memory)
            try:
                if life is None:
                    return run, self.scenario.measure(run)
                run.server = life.server
                return run, self._measure_shared(run)
            finally:
                run.end()
                shutil.rmtree(Path(folder) / "broker", ignore_errors=True)

    def _measure_shared(self, run: Run) -> f.Figures:
        reset_peak(run.server)
        others, begin = self.lives.others_cpu_s(self.contestant.name), time.perf_counter()
        found = self.scenario.measure(run)
        others, seconds = self.lives.others_cpu_s(self.contestant.name) - others, time.perf_counter() - begin
        found["whole run"] = {f.PEAK: memory_mb(run.server, peak=True)}
        if others:
            found["whole run"][f.OTHERS] = others * 1e3 / seconds
        clear(run.server)
        return found
