"""How soon a broker answers, and what it holds when nobody asks."""

from __future__ import annotations

import time

from benches.suite import figures as f
from benches.suite.runner import Run, Scenario
from benches.suite.servers import cpu_s, memory_mb, seconds_until_served


def cold_start(run: Run) -> f.Figures:
    """The second start of an empty broker: Kafka's first one would also format its storage, in another process."""
    first = run.start()
    seconds_until_served(first)
    first.stop()
    run.make_room()
    begin = time.perf_counter()
    run.start(port=first.port, wait=False)
    seconds_until_served(run.server)
    seconds, used = time.perf_counter() - begin, cpu_s(run.server)
    time.sleep(1)
    row = {f.SECONDS: seconds, "CPU until then, s": used, f.IDLE: memory_mb(run.server)}
    return {"first Metadata answer": row}


SCENARIOS = [
    Scenario(
        "cold-start",
        "From the start of the process to the first answer",
        "one client",
        cold_start,
        owns_life=True,
        expected_s=100,
    )
]
