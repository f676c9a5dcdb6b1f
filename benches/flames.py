"""Where this broker's time goes, as flame graphs: `python benches/flames.py [NAME ...]`.

Each case loads a broker of its own and samples it with py-spy (of the extra `flames`): Python and native frames
together, system calls by their names in libc. Written to docs/benchmarks/flame-NAME.svg; printed are the share of
samples whose innermost frame has a name, and the ten most frequent of those frames.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benches.suite.frames import fetch_frame, produce_frame  # noqa: E402
from benches.suite.generators import Load  # noqa: E402
from benches.suite.servers import Ottla, Running, create_topic  # noqa: E402

PAGES = ROOT / "docs" / "benchmarks"
SECONDS = 6
RATE = 400
UNNAMED = ("0x", "[unknown]", "??")


@dataclass(frozen=True)
class Under:
    """A broker with the topic `t`, a folder for frames, and who makes the load."""

    server: Running
    folder: Path
    load: Load

    def produce(self, value_bytes: int, records: int, *, acks: int = 1) -> str:
        return str(produce_frame(self.folder, "t", value_bytes, records, acks=acks).path)


def small(under: Under) -> dict[str, Any]:
    """One record of 100 B a request, 50 connections."""
    return {"run": "drive", "frames": [under.produce(100, 1)], "connections": 50}


def batches(under: Under) -> dict[str, Any]:
    """16 KiB of 100-byte records a request, as Java's producer sends them: one connection, five in flight."""
    return {"run": "drive", "frames": [under.produce(100, 140)], "depth": 5}


def durable(under: Under) -> dict[str, Any]:
    """64 KiB of 1 KiB records a request with acks=all, each on disk before its answer; five in flight."""
    return {"run": "drive", "frames": [under.produce(1 << 10, 64, acks=-1)], "depth": 5}


def fetch(under: Under) -> dict[str, Any]:
    """4 MiB a request, from the page cache."""
    frames, address = [under.produce(1000, 64)], under.server.bootstrap
    under.load(run="drive", address=address, frames=frames, depth=5, requests=300, seconds=60, pids=[], warm_up_s=0)
    return {"run": "drive", "frames": [str(fetch_frame(under.folder, "t", 4 << 20))]}


def end_to_end(under: Under) -> dict[str, Any]:
    """1,000 records of 1 KiB a second, one a request, and a consumer that waits for each."""
    return {"run": "end_to_end", "topic": "t", "acks": 1, "rate": 1000, "record_bytes": 1 << 10}


CASES: dict[str, Callable[[Under], dict[str, Any]]] = {
    "small-requests": small,
    "default-batches": batches,
    "durable": durable,
    "fetch": fetch,
    "end-to-end": end_to_end,
}


@contextmanager
def broker() -> Iterator[Under]:
    with tempfile.TemporaryDirectory(prefix="ottla-flames-") as folder:
        server = Ottla().start(Path(folder), {"log.segment.bytes": 64 << 20, "log.retention.bytes": 256 << 20})
        try:
            create_topic(server, "t")
            yield Under(server, Path(folder), Load())
        finally:
            server.kill()


def record(pid: int, form: str, to: Path) -> None:
    command = [str(Path(sys.executable).parent / "py-spy"), "record", "--native", "--pid", str(pid)]
    command += ["--rate", str(RATE), "--duration", str(SECONDS), "--format", form, "--output", str(to)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")


def draw(name: str) -> None:
    with broker() as under:
        address, pids = under.server.bootstrap, [under.server.pid]
        options = CASES[name](under)
        running = under.load.start(address=address, pids=pids, warm_up_s=0.5, seconds=2 * SECONDS + 6, **options)
        record(under.server.pid, "flamegraph", PAGES / f"flame-{name}.svg")
        stacks = under.folder / "stacks"
        record(under.server.pid, "raw", stacks)
        running.result()
        print(f"{name}: {' '.join(str(CASES[name].__doc__).split())}")
        tell(stacks.read_text().splitlines())


def tell(stacks: list[str]) -> None:
    innermost: Counter[str] = Counter()
    for stack in stacks:
        frames, count = stack.rsplit(" ", 1)
        innermost[frames.rsplit(";", 1)[-1]] += int(count)
    total = innermost.total()
    named = sum(count for frame, count in innermost.items() if not frame.startswith(UNNAMED))
    print(f"  {total} samples, {named / max(1, total):.0%} of them in a function with a name")
    for frame, count in innermost.most_common(10):
        print(f"  {count / total:6.1%}  {frame}")


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        draw(case)
