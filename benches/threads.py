"""Threads beside the loop: `python benches/threads.py [--rounds 3] [--seconds 2] [--threads 2,4] [--only fetch]`.

Brokers live at the same time and are measured in turns: the loop alone, one thread beside it, and two (or others by
`--threads`). The cases are small Produces to one partition and to many, batches of 64 KiB and of 1 MiB, whose CRC the
broker computes, and Fetches of 1 MiB that are sent from the page cache. The table has requests a second and the
broker's CPU for a request, both also in shares of the loop alone in the same round. With TMPDIR=/dev/shm no disk is
measured.

The generator is one thread. `bound` says how many times the rate of the loop alone can be reached: by as many threads,
by what the processors have left, and by what one generator can ask for. `reached` is the part of it that is there.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benches.suite.frames import batch_of, fetch_frame, produce_frame, values  # noqa: E402
from benches.suite.generators import Load  # noqa: E402
from benches.suite.servers import create_topic  # noqa: E402
from ottla._core import processors  # noqa: E402
from ottla.broker.network_threads import VARIABLE as THREADS  # noqa: E402
from tests.peers.ottla import Broker, Brokers  # noqa: E402
from tests.support.client import connect  # noqa: E402

TOPIC, READ = "hot", "read"
CONNECTIONS, PARTITIONS = 8, 16
KIB = 1 << 10


@dataclass(frozen=True)
class Case:
    """Requests that are sent again and again, on all connections in turn."""

    name: str
    frames: list[Path]
    depth: int


class Measured(NamedTuple):
    """Requests a second; seconds of CPU for each, of the broker and of the generator."""

    rate: float
    broker_s: float
    generator_s: float


def produce(folder: Path, value_bytes: int, records: int, partitions: int) -> list[Path]:
    """A request for each partition."""
    place = folder / f"{value_bytes}-{records}-{partitions}"
    place.mkdir()
    each = range(partitions)
    return [produce_frame(place, TOPIC, value_bytes, records, partition=one).path for one in each]


def cases(folder: Path) -> list[Case]:
    """The measured cases."""
    return [
        Case("100 bytes, 1 partition", produce(folder, 100, 1, 1), 16),
        Case("100 bytes, 16 partitions", produce(folder, 100, 1, PARTITIONS), 16),
        Case("64 KiB, 2 partitions", produce(folder, KIB, 64, 2), 2),
        Case("64 KiB, 16 partitions", produce(folder, KIB, 64, PARTITIONS), 2),
        Case("1 MiB, 16 partitions", produce(folder, KIB, 1000, PARTITIONS), 1),
        Case("fetch 1 MiB", [fetch_frame(folder, READ, 1 << 20, offset=0)], 2),
    ]


def measured(load: Load, broker: Broker, case: Case, seconds: float) -> Measured:
    found = load(
        run="drive",
        address=broker.bootstrap,
        frames=[str(frame) for frame in case.frames],
        connections=CONNECTIONS,
        depth=case.depth,
        warm_up_s=0.3,
        seconds=seconds,
        pids=[broker.pid],
    )
    count = found["requests"]
    return Measured(found["requests_per_s"], found["cpu_s"] / count, found["own_cpu_s"] / count)


def bound(threads: int, one: Measured, processors: int) -> float:
    """How many times the rate of one thread so many can reach."""
    used = one.rate * (one.broker_s + one.generator_s)
    return min(threads, processors / used, 1 / max(one.rate * one.generator_s, 1e-9))


def main() -> None:
    parser = argparse.ArgumentParser(description="Threads beside the loop.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--threads", default="1,2", help="numbers of threads beside the loop, which is measured, too")
    parser.add_argument("--only", default="", help="a part of the names of the cases")
    arguments = parser.parse_args()
    counts = [0, *map(int, arguments.threads.split(","))]
    load = Load()
    found: dict[tuple[str, int], list[Measured]] = defaultdict(list)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        wanted = [case for case in cases(folder) if arguments.only in case.name]
        brokers = stack.enter_context(Brokers(folder))
        # Small enough for any disk.
        settings = {"log.segment.bytes": "33554432", "log.retention.bytes": "67108864"}
        settings |= {"log.retention.check.interval.ms": "1000", "log.segment.delete.delay.ms": "1000"}
        started = {count: brokers(environment={THREADS: str(count)}, settings=settings) for count in counts}
        for broker in started.values():
            create_topic(broker, TOPIC, PARTITIONS)
            create_topic(broker, READ, 1)
            with connect(broker) as client:
                assert client.produce(READ, batch_of(values(KIB, 1000))).responses
            measured(load, broker, wanted[0], 0.1)
        for case in wanted:
            for _ in range(arguments.rounds):
                for count, broker in started.items():
                    found[case.name, count].append(measured(load, broker, case, arguments.seconds))
    heads = [("requests/s", 11), ("share", 6), ("bound", 6), ("reached", 7), ("CPU us", 7), ("share", 6)]
    print(f"{'case':<24} {'threads':>7} " + " ".join(f"{head:>{width}}" for head, width in heads))
    for (name, count), rows in found.items():
        base = found[name, 0]
        rate, cpu_s = (statistics.median(row[place] for row in rows) for place in (0, 1))
        pairs = list(zip(rows, base, strict=True))
        shares = [statistics.median(one[place] / other[place] for one, other in pairs) for place in (0, 1)]
        most = statistics.median(bound(max(count, 1), one, processors()) for one in base)
        print(
            f"{name:<24} {count:>7} {rate:>11,.0f} {shares[0]:>6.2f} {most:>6.2f} {shares[0] / most:>7.2f}"
            f" {cpu_s * 1e6:>7.1f} {shares[1]:>6.2f}"
        )


if __name__ == "__main__":
    main()
