"""Where this broker's time goes, as flame graphs: `python benches/flames.py [NAME ...]`.

Each case loads a broker of its own, of which perf (linux-tools) takes samples: the kernel's, Rust's and CPython's
functions, drawn by inferno (found in `$INFERNO` or the path). With leases hardly anything of these loads is Python;
what is, py-spy shows by its own names: `py-spy record --native`. Written to docs/benchmarks/flame-NAME.svg; printed are
the share of the CPU time whose innermost frame has a name, and the ten dearest of those frames.
"""

from __future__ import annotations

import os
import shutil
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
from benches.suite.servers import Ottla, Running, create_topic, evict  # noqa: E402

PAGES = ROOT / "docs" / "benchmarks"
SECONDS = 6
RATE = 997
#: Of each sample's stack, for the functions that called.
STACK_BYTES = 16 << 10
UNNAMED = ("[", "0x", "??")
HOW_TO_HAVE_INFERNO = "make bench-flames builds it; else cargo install --locked inferno"


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


def end_to_end_flushed(under: Under) -> dict[str, Any]:
    """The same with acks=all: each record is on disk before it is acknowledged."""
    return {**end_to_end(under), "acks": -1}


def cold_reader(under: Under) -> dict[str, Any]:
    """5,000 records of 100 B a second, one a request, 50 connections, beside a consumer of 4 GB from the disk."""
    address, server = under.server.bootstrap, under.server
    create_topic(server, "stored")
    frames = [str(produce_frame(under.folder, "stored", 1000, 64).path)]
    under.load(run="drive", address=address, frames=frames, depth=5, requests=62_500, seconds=600, pids=[], warm_up_s=0)
    evict(server, "stored")
    under.load.start(run="check", address=address, topic="stored", headers_only=True, pids=[])
    frames = [under.produce(100, 1)]
    return {"run": "drive", "frames": frames, "connections": 50, "depth": 100, "rate": 5000, "record_s": 1.5}


CASES: dict[str, Callable[[Under], dict[str, Any]]] = {
    "small-requests": small,
    "default-batches": batches,
    "durable": durable,
    "fetch": fetch,
    "end-to-end": end_to_end,
    "end-to-end-flushed": end_to_end_flushed,
    "cold-reader": cold_reader,
}


@contextmanager
def broker() -> Iterator[Under]:
    with tempfile.TemporaryDirectory(prefix="ottla-flames-") as folder:
        server = Ottla().start(Path(folder), {"log.segment.bytes": 64 << 20})
        try:
            create_topic(server, "t", retention_bytes=256 << 20)
            yield Under(server, Path(folder), Load())
        finally:
            server.kill()


def tool(name: str, hint: str) -> str:
    """Where a program is. SystemExit if it is nowhere."""
    found = shutil.which(name, path=os.environ.get("INFERNO")) or shutil.which(name)
    if found is None:
        raise SystemExit(f"{name} is not installed: {hint}")
    return found


def run(*command: str, given: bytes | None = None) -> bytes:
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.decode()[-2000:]}")
    return done.stdout


def record(pid: int, folder: Path, seconds: float) -> bytes:
    """Stacks and how often each was seen, a line each."""
    perf, samples = tool("perf", "apt-get install linux-perf"), str(folder / "perf.data")
    options = ("--quiet", "-F", str(RATE), "--call-graph", f"dwarf,{STACK_BYTES}", "-p", str(pid), "-o", samples)
    run(perf, "record", *options, "--", "sleep", str(seconds))
    collapse = tool("inferno-collapse-perf", HOW_TO_HAVE_INFERNO)
    return run(collapse, "--all", given=run(perf, "script", "--no-inline", "-i", samples))


def draw(name: str) -> None:
    with broker() as under:
        address, pids = under.server.bootstrap, [under.server.pid]
        options = CASES[name](under)
        seconds = options.pop("record_s", SECONDS)
        running = under.load.start(address=address, pids=pids, warm_up_s=0.5, seconds=seconds + 4, **options)
        stacks = record(under.server.pid, under.folder, seconds)
        running.result()
        words = " ".join(str(CASES[name].__doc__).split())
        titled = ("--title", f"{name}: {words}", "--minwidth", "0.2", "--truncate-text-right")
        picture = run(tool("inferno-flamegraph", HOW_TO_HAVE_INFERNO), *titled, given=stacks)
        (PAGES / f"flame-{name}.svg").write_bytes(picture)
        print(f"{name}: {words}")
        tell(stacks.decode().splitlines())


def tell(stacks: list[str]) -> None:
    innermost: Counter[str] = Counter()
    for stack in stacks:
        frames, count = stack.rsplit(" ", 1)
        innermost[frames.rsplit(";", 1)[-1]] += int(count)
    total = innermost.total()
    named = sum(count for frame, count in innermost.items() if not frame.startswith(UNNAMED))
    print(f"  {named / max(1, total):.1%} of the CPU time in a function with a name")
    for frame, count in innermost.most_common(10):
        print(f"  {count / total:6.1%}  {frame}")


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        draw(case)
