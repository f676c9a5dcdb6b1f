"""Who is measured in which scenario, and how long that will take."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

from benches.suite import report
from benches.suite.figures import Result
from benches.suite.runner import Scenario, of_round
from benches.suite.servers import Contestant
from benches.suite.targets import AIMED, RIVALS

ROUNDS = 3


@dataclass(frozen=True)
class Part:
    """A scenario and who takes part."""

    scenario: Scenario
    contestants: list[Contestant]

    def seconds(self, rounds: int, stored: Result | None) -> float:
        """The seconds that the scenario took when it was measured last with the same contestants, else those that are
        expected.
        """
        names = [contestant.name for contestant in self.contestants]
        if stored is not None and set(names) == set(stored.spent):
            return sum(_again(times, self._rounds(name, rounds)) for name, times in stored.spent.items())
        return self.scenario.expected_s * rounds / ROUNDS

    def _rounds(self, name: str, rounds: int) -> int:
        """In how many this one takes part."""
        found = (of_round(self.scenario, self.contestants, number) for number in range(1, rounds + 1))
        return sum(name in [one.name for one in round_] for round_ in found)


def _again(times: list[float], rounds: int) -> float:
    """The first round has the warming in it."""
    return times[0] + (rounds - 1) * statistics.median(times[1:] or times)


def plan(
    scenarios: list[Scenario], all_scenarios: list[Scenario], contestants: list[Contestant], every: bool
) -> list[Part]:
    """Each scenario with its contestants, in the order in which they are measured. Where no target is a ratio to the
    best Kafka there is one Kafka, in turns; with `every` all of them everywhere.
    """
    others = contestants[1:]
    single = [scenario.name for scenario in all_scenarios if scenario.name not in RIVALS]
    parts = []
    for scenario in sorted(scenarios, key=_when):
        if every or scenario.name in RIVALS or not others:
            parts.append(Part(scenario, contestants))
        else:
            parts.append(Part(scenario, [contestants[0], others[single.index(scenario.name) % len(others)]]))
    return parts


def _when(scenario: Scenario) -> int:
    """First those that have nobody beside them, then those with targets, last those whose brokers have settings."""
    if scenario.owns_life:
        return 0
    return 3 if scenario.settings else 1 if scenario.name in AIMED else 2


def stored(folder: Path, name: str) -> tuple[Result, dict[str, str]] | None:
    """The result of a scenario that is there already, and the machine's facts."""
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    result, content = report.load(path)
    return result, content["machine"]


def is_measured(part: Part, rounds: int, folder: Path, commit: str) -> bool:
    """True if this commit has measured the scenario in so many rounds, with all who take part."""
    found = stored(folder, part.scenario.name)
    if found is None:
        return False
    result, machine = found
    names = {contestant.name for contestant in part.contestants}
    most = max(map(len, result.spent.values()), default=0)
    return machine["commit"] == commit and names <= set(result.spent) and most >= rounds


def rounds_that_fit(done: list[tuple[Part, float]], parts: list[Part], rounds: int, left_s: float) -> int:
    """How many rounds of the next of these parts, so that all of them end in the time that is left.

    As long as there are parts with targets, only these have to fit: it is the others that have fewer rounds.
    This machine's pace is that of what is done: parts and their seconds. Starts and stops say nothing of the others.
    """
    if parts[0].scenario.name in AIMED:
        parts = [part for part in parts if part.scenario.name in AIMED]
    alike = [(part, seconds) for part, seconds in done if not part.scenario.owns_life]
    pace = 1.0
    if len(alike) > 1:
        pace = sum(seconds for _, seconds in alike) / sum(part.seconds(rounds, None) for part, _ in alike)
    expected_s = pace * sum(part.seconds(rounds, None) for part in parts)
    return rounds if expected_s <= left_s else max(1, int(rounds * left_s / expected_s))
