"""How close to the machine: a broker's work beside the same bytes without a broker, by the same client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benches.suite import figures as f
from benches.suite.frames import Frame, fetch_frame, produce_frame
from benches.suite.proof import check_frames
from benches.suite.runner import Run, Scenario
from benches.suite.scenarios.consume import fill
from benches.suite.scenarios.small import request_figures
from benches.suite.servers import create_topic

# What a broker answers to a Produce request of one partition, without its size.
PRODUCE_ANSWER_BYTES = 52
OF_LIMIT = "of the machine's"


def append(run: Run) -> f.Figures:
    """Large batches, beside write() of as many bytes, and a copy in memory."""
    found: f.Figures = {}
    machine = {}
    for name, size in (("64 KiB", 64 << 10), ("1 MB", 1_000_000)):
        disk = {"path": str(run.folder / "raw"), "file_bytes": 1 << 30, "seconds": run.size.seconds}
        out = run.load(run="write", block_bytes=size, **disk)
        machine[name] = found[f"write() of {name}"] = {f.MB: out["mb_per_s"], f.CPU_MB: out["cpu_ms_per_mb"]}
    for name, size in (("256 KiB", 256 << 10), ("256 MiB", 256 << 20)):
        out = run.load(run="memory", block_bytes=size, seconds=run.size.seconds)
        found[f"copy in memory, {name}"] = {f.MB: out["mb_per_s"]}
    for name, size in (("64 KiB", 64 << 10), ("1 MB", 1_000_000)):
        with run.case(f"Produce of {name}", found) as row:
            topic = f"append-{size}"
            create_topic(run.server, topic)
            frame = produce_frame(run.folder, topic, 1000, size // 1010)
            out = run.drive(frames=[str(frame.path)], depth=5)
            check_frames(run.load, run.server, topic, [(frame, out["sent"][0])])
            mb = max(1, out["requests"]) * frame.value_bytes / 1e6
            row.update({f.MB: mb / out["seconds"], f.CPU_MB: out["cpu_s"] * 1e3 / mb})
            _compare(row, machine[name])
    return found


def fetch(run: Run) -> f.Figures:
    """Large answers, beside a server that only calls sendfile."""
    found: f.Figures = {}
    size = 4 << 20
    fill(run, "large", 64_000_000 if run.size.factor == 1 else 2_000_000_000)
    frames = [str(fetch_frame(run.folder, "large", size))]
    path = next(run.server.data.glob("large-0/*.log"))
    with bare(run, run="sendfile", path=str(path), answer_bytes=min(size, path.stat().st_size)) as drive:
        machine = found["sendfile of 4 MiB"] = _fetched(drive(frames=frames))
    row = found["Fetch of 4 MiB"] = _fetched(run.drive(frames=frames))
    _compare(row, machine)
    return found


def _fetched(out: dict[str, Any]) -> dict[str, float]:
    mb = max(1e-9, out["received_mb_per_s"] * out["seconds"])
    return {f.MB: out["received_mb_per_s"], f.CPU_MB: out["cpu_s"] * 1e3 / mb, f.P50: out["latency"]["p50_us"]}


def small(run: Run) -> f.Figures:
    """One small record a request, beside an epoll server in Rust that answers without looking."""
    found: f.Figures = {}
    create_topic(run.server, "small")
    frame = produce_frame(run.folder, "small", 100)
    frames, sent = [str(frame.path)], 0
    for name, options in (
        ("50 connections", {"connections": 50}),
        ("50 connections, 16 in flight", {"connections": 50, "depth": 16}),
        ("one connection", {"connections": 1}),
    ):
        with bare(run, run="echo", answer_bytes=PRODUCE_ANSWER_BYTES) as drive:
            machine = found[f"echo: {name}"] = request_figures(drive(frames=frames, **options))
        out = run.drive(frames=frames, **options)
        sent += out["sent"][0]
        row = found[f"Produce: {name}"] = request_figures(out)
        _compare(row, machine)
    check_frames(run.load, run.server, "small", [(frame, sent)])
    return found


@contextmanager
def bare(run: Run, /, **options: Any) -> Iterator[Any]:
    """`load drive` against a server of the generator's own."""
    server = run.load.start(**options)
    try:
        address, pid = f"127.0.0.1:{int(server.line())}", server.process.pid
        timing = {"seconds": run.size.seconds, "warm_up_s": run.size.seconds / 4}
        yield lambda **more: run.load(run="drive", address=address, pids=[pid], **timing, **more)
    finally:
        server.end()


def _compare(row: dict[str, float], machine: dict[str, float]) -> None:
    """Adds how each figure stands to the machine's own."""
    for name, value in machine.items():
        if value and name in row:
            row[f.ratio_of(name, OF_LIMIT)] = row[name] / value


def growth_partitions(run: Run) -> f.Figures:
    """The cost of a small request while a broker has more and more partitions."""
    found: f.Figures = {}
    there = 0
    for number in (100, 1_000, 10_000):
        topic, more = f"grows-{number}", run.size.count(number, there + 10) - there
        there += more
        create_topic(run.server, topic, more)
        # Not all of them: the generator's own memory is not what is measured.
        asked = range(0, more, max(1, more // 64))
        frames = [produce_frame(run.folder, topic, 100, partition=index) for index in asked]
        with run.case(f"{number:,} partitions", found) as row:
            row.update(_small_requests(run, topic, frames, connections=50))
    return found


def growth_connections(run: Run) -> f.Figures:
    """The cost of a small request with more and more connections."""
    found: f.Figures = {}
    for number in (50, 500, 5_000):
        topic = f"grows-{number}"
        create_topic(run.server, topic)
        with run.case(f"{number:,} connections", found) as row:
            frames = [produce_frame(run.folder, topic, 100)]
            row.update(_small_requests(run, topic, frames, connections=run.size.count(number, number // 50)))
    return found


def growth_stored(run: Run) -> f.Figures:
    """The cost of small requests, and of a Fetch in the middle, while a partition stores more and more."""
    found: f.Figures = {}
    for name, total in (("0.1 GB", 10**8), ("1 GB", 10**9), ("10 GB", 10**10)):
        topic = f"stored-{total}"
        records = fill(run, topic, total)
        with run.case(f"{name} stored", found) as row:
            middle = str(fetch_frame(run.folder, topic, 16 << 10, offset=records // 2))
            out = run.drive(frames=[middle], connections=10)
            row.update({f"Fetch in the middle: {key}": value for key, value in request_figures(out).items()})
            frame = produce_frame(run.folder, topic, 100)
            out = run.drive(frames=[str(frame.path)], connections=50)
            row.update({f"Produce: {key}": value for key, value in request_figures(out).items()})
    return found


def _small_requests(run: Run, topic: str, frames: list[Frame], *, connections: int) -> dict[str, float]:
    out = run.drive(frames=[str(frame.path) for frame in frames], connections=connections)
    partitions = 1 + max(frame.partition for frame in frames)
    check_frames(run.load, run.server, topic, zip(frames, out["sent"], strict=True), partitions)
    return request_figures(out)


SCENARIOS = [
    Scenario("limit-append", "Produce beside write()", "load drive; load write", append, is_long=True),
    Scenario("limit-fetch", "Fetch beside sendfile", "load drive", fetch, is_long=True),
    Scenario("limit-requests", "Small requests beside an epoll echo server", "load drive", small, is_long=True),
    Scenario(
        "growth-partitions", "Small requests by number of partitions", "load drive", growth_partitions, is_long=True
    ),
    Scenario(
        "growth-connections", "Small requests by number of connections", "load drive", growth_connections, is_long=True
    ),
    Scenario("growth-stored", "Requests by stored data", "load drive", growth_stored, is_long=True),
]
