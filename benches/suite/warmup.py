"""When is a broker warm? When what it costs to serve the same load again and again stands still.

Java compiles what runs often, in several steps: Kafka's small Produce costs four times as much in its first seconds as
after half a minute. Everybody is warmed by the same rule and the same load, also who needs none.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from benches.suite import figures as f

WINDOWS = 3
WITHIN = 0.05


@dataclass
class WarmUp:
    """One warming: CPU of each window (µs a request or record, ms a MB; over several cases their geometric mean)."""

    contestant: str
    of: str
    costs: list[float] = field(default_factory=list)
    seconds: float = 0.0
    is_still: bool = False

    def __str__(self) -> str:
        if not self.costs:
            return f"{self.contestant}, {self.of}: nothing was measured in {self.seconds:.0f} s"
        state = "" if self.is_still else ", NOT SETTLED"
        ends = f"{self.costs[0]:.3g} to {self.costs[-1]:.3g}"
        return f"{self.contestant}, {self.of}: {ends} in {len(self.costs)} windows, {self.seconds:.0f} s{state}"


def is_still(costs: list[float]) -> bool:
    """True if the last three windows are within 5 %, or, on a machine that is not quiet enough for that, if their mean
    is no more than 5 % under that of the three before.
    """
    last, before = costs[-WINDOWS:], costs[-2 * WINDOWS : -WINDOWS]
    if len(last) < WINDOWS:
        return False
    if max(last) <= min(last) * (1 + WITHIN):
        return True
    return len(before) == WINDOWS and statistics.mean(last) >= statistics.mean(before) * (1 - WITHIN)


def warm_up(contestant: str, of: str, window: Callable[[], float], limit_s: float, least_s: float = 0.0) -> WarmUp:
    """Windows of load until their costs stand still; at most until so many seconds are over, and not before `least_s`:
    between two steps of its compiler a virtual machine may cost the same for seconds.
    """
    found = WarmUp(contestant, of)
    begin = time.perf_counter()
    while not found.is_still and found.seconds < limit_s:
        if (cost := window()) > 0:
            found.costs.append(cost)
        found.seconds = time.perf_counter() - begin
        found.is_still = found.seconds >= least_s and is_still(found.costs)
    return found


def cost(found: f.Figures) -> float:
    """Of a scenario's figures one number: the geometric mean of its cases' CPU, 0 without any."""
    costs = [
        next((row[name] for name in (f.CPU_REQUEST, f.CPU_RECORD, f.CPU_MB) if row.get(name)), 0.0)
        for row in found.values()
    ]
    return statistics.geometric_mean(there) if (there := [one for one in costs if one > 0]) else 0.0
