"""Waits for what a broker tells nobody: each asks again and again, and ends with what it waited for."""

import math
import time
from collections.abc import Callable
from typing import TypeVar

import trio
import trio.testing

T = TypeVar("T")

#: The one time that a test waits for what must come. It is long enough for a loaded machine, and a wait that succeeds
#: takes no longer than it must: a test that needs less of it proves nothing about speed.
PATIENCE_S = 60.0
#: How far a clock that jumps goes on between two questions, at least.
TICK_S = 0.01


def eventually(
    what: str, holds: Callable[[], T], timeout_s: float = PATIENCE_S, facts: Callable[[], object] = lambda: ""
) -> T:
    """Asks `holds` until its answer is true, and returns that answer. Fails with `what` and the `facts` of that moment
    if it does not come true in time. What has taken long is asked less often: a question may keep a processor busy.
    """
    began = time.monotonic()
    while not (answer := holds()):
        waited_s = time.monotonic() - began
        assert waited_s < timeout_s, f"{what} did not come true in {timeout_s} s: {facts()}"
        time.sleep(min(max(waited_s / 20, 0.002), 0.05))
    return answer


def still(what: str, value: Callable[[], T], for_s: float = 1.0, timeout_s: float = PATIENCE_S) -> T:
    """Waits until `value` has been the same for so long, and returns it."""
    seen, since = value(), time.monotonic()

    def rests() -> bool:
        nonlocal seen, since
        if (now := value()) != seen:
            seen, since = now, time.monotonic()
        return time.monotonic() - since >= for_s

    eventually(f"{what} rests for {for_s} s", rests, timeout_s, facts=lambda: seen)
    return seen


async def comes_true(what: str, holds: Callable[[], T], timeout_s: float = PATIENCE_S) -> T:
    """The same for a condition that tasks of this loop bring about. The deadline is one of real time, also under a
    clock of the test's own. One that jumps does so only while no task can run: who only let the others run would stop
    it, and with it whoever sleeps.
    """
    deadline = time.monotonic() + timeout_s
    clock = trio.lowlevel.current_clock()
    jumps = isinstance(clock, trio.testing.MockClock) and clock.autojump_threshold < math.inf
    began = trio.current_time()
    while not (answer := holds()):
        assert time.monotonic() < deadline, f"{what} did not come true in {timeout_s} s"
        tick_s = max((trio.current_time() - began) / 20, TICK_S)
        await (trio.sleep(tick_s) if jumps else trio.lowlevel.checkpoint())
    return answer
