"""The time that a broker inside a program takes to start and to end: `python benches/embedded.py`.

The first start in a process imports all that a broker needs. Of each further one the wall clock and the time of
processors are shown, as medians and least values: what is between the two is waiting for the disk, and for threads to
take turns. With --memory the data are in memory (/dev/shm), where a disk takes no time.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable

import ottla


def taken(work: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds by the wall clock, and of processors."""
    began, computed = time.perf_counter(), time.process_time()
    work()
    return 1000 * (time.perf_counter() - began), 1000 * (time.process_time() - computed)


def shown(what: str, times: list[tuple[float, float]]) -> str:
    wall, cpu = zip(*times, strict=True)
    parts = [
        f"{name} {statistics.median(values):6.1f} ms, least {min(values):6.1f}"
        for name, values in (("wall", wall), ("processors", cpu))
    ]
    return f"{what:15} {'; '.join(parts)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=30, help="further starts")
    parser.add_argument("--memory", action="store_true", help="data in /dev/shm")
    options = parser.parse_args()
    if options.memory:
        tempfile.tempdir = "/dev/shm"
    brokers: list[ottla.Broker] = []
    print(shown("first start", [taken(lambda: brokers.append(ottla.Broker().start()))]))
    brokers.pop().close()
    starts, ends = [], []
    for _ in range(options.count):
        broker = ottla.Broker()
        starts.append(taken(broker.start))
        ends.append(taken(broker.close))
    print(shown("further starts", starts))
    print(shown("ends", ends))


if __name__ == "__main__":
    main()
