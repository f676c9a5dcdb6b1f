"""Threads beside the loop on one hot partition: `python benches/threads.py [--rounds 3] [--seconds 2]`.

Three brokers live at the same time and are measured in turns: the loop alone, one thread beside it, and two. Small
Produces go to one partition and to two. The table has requests a second and the broker's CPU for a request, both also
in shares of those of one thread in the same round: of a hot partition, two threads should serve as many as one.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benches.suite.frames import Frame, produce_frame  # noqa: E402
from benches.suite.generators import Load  # noqa: E402
from benches.suite.servers import create_topic  # noqa: E402
from ottla.broker.network_threads import VARIABLE as THREADS  # noqa: E402
from tests.peers.ottla import Broker, Brokers  # noqa: E402

TOPIC, VALUE_BYTES = "hot", 100
CONNECTIONS, DEPTH = 8, 16
COUNTS = (0, 1, 2)
#: That the others are compared with.
BASE = 1


def measured(load: Load, broker: Broker, frames: list[Frame], seconds: float) -> tuple[float, float]:
    """Requests a second, and microseconds of CPU for each."""
    found = load(
        run="drive",
        address=broker.bootstrap,
        frames=[str(frame.path) for frame in frames],
        connections=CONNECTIONS,
        depth=DEPTH,
        warm_up_s=0.3,
        seconds=seconds,
        pids=[broker.pid],
    )
    return found["requests_per_s"], found["cpu_s"] / found["requests"] * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description="Threads beside the loop on one hot partition.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    load = Load()
    found: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        frames = [produce_frame(folder, TOPIC, VALUE_BYTES, partition=partition) for partition in range(2)]
        brokers = stack.enter_context(Brokers(folder))
        started = {count: brokers(environment={THREADS: str(count)}) for count in COUNTS}
        for broker in started.values():
            create_topic(broker, TOPIC, 2)
            measured(load, broker, frames, 0.5)
        for _ in range(arguments.rounds):
            for partitions in (1, 2):
                for count, broker in started.items():
                    result = measured(load, broker, frames[:partitions], arguments.seconds)
                    found[count, partitions].append(result)
    print(f"{'threads':>8} {'partitions':>10} {'requests/s':>11} {'share':>6} {'CPU us':>7} {'share':>6}")
    for (count, partitions), rows in sorted(found.items()):
        base = found[BASE, partitions]
        rate, cpu_us = (statistics.median(row[place] for row in rows) for place in (0, 1))
        pairs = list(zip(rows, base, strict=True))
        shares = [statistics.median(one[place] / other[place] for one, other in pairs) for place in (0, 1)]
        print(f"{count:>8} {partitions:>10} {rate:>11,.0f} {shares[0]:>6.2f} {cpu_us:>7.1f} {shares[1]:>6.2f}")


if __name__ == "__main__":
    main()
