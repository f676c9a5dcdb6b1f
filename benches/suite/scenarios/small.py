"""Requests of one small record: what a request costs, and its latency at fixed rates."""

from __future__ import annotations

from benches.suite import figures as f
from benches.suite.frames import echo_frame, produce_frame
from benches.suite.proof import check_frames
from benches.suite.runner import Run, Scenario
from benches.suite.scenarios.hub import bare_hub
from benches.suite.servers import create_topic, memory_mb
from benches.suite.targets import OURS


def request_figures(found: dict) -> dict[str, float]:
    """Of a run of `load drive`."""
    latency = found["latency"]
    return {
        f.CPU_REQUEST: found["cpu_s"] / max(1, found["requests"]) * 1e6,
        f.REQUESTS: found["requests_per_s"],
        f.P50: latency["p50_us"],
        f.P99: latency["p99_us"],
        f.P999: latency["p999_us"],
    }


def small_requests(run: Run) -> f.Figures:
    found: f.Figures = {}
    for topic, name, options in (
        ("busy", "50 + 200 idle connections", {"connections": 50, "idle": 200}),
        ("pipelined", "50 connections, 5 in flight", {"connections": 50, "depth": 5}),
        ("single", "one in flight", {"connections": 1}),
    ):
        with run.case(name, found) as row:
            create_topic(run.server, topic)
            frame = produce_frame(run.folder, topic, 100)
            out = run.drive(name, frames=[str(frame.path)], **options)
            check_frames(run.load, run.server, topic, [(frame, out["sent"][0])])
            row.update(request_figures(out), **{"resident, MB": memory_mb(run.server)})
    if run.contestant.name == OURS and not run.size.is_rehearsal:
        with bare_hub(run.folder) as (bootstrap, pid):
            options = {"connections": 50, "seconds": run.size.seconds, "warm_up_s": run.size.seconds / 4}
            frames = [str(echo_frame(run.folder))]
            out = run.load(run="drive", address=bootstrap, pids=[pid], frames=frames, **options)
            found["the hub alone, 64 bytes for 64 bytes"] = request_figures(out)
    return found


def open_loop(run: Run) -> f.Figures:
    """50 connections, each request at its time: latencies count from then."""
    found: f.Figures = {}
    rates = (2_000, 5_000, 10_000, 20_000, 40_000, 60_000, 80_000) if run.size.is_full else (5_000, 20_000, 40_000)
    for rate in rates:
        topic, name = f"open-{rate}", f"{rate:,} a second"
        with run.case(name, found) as row:
            create_topic(run.server, topic)
            frame = produce_frame(run.folder, topic, 100)
            out = run.drive(name, frames=[str(frame.path)], connections=50, depth=1000, rate=rate)
            check_frames(run.load, run.server, topic, [(frame, out["sent"][0])])
            row.update(request_figures(out))
    return found


SCENARIOS = [
    Scenario(
        "small-requests",
        "Produce of one record of 100 bytes, acks=1",
        "load drive, closed loop",
        small_requests,
        expected_s=145,
    ),
    Scenario(
        "open-loop",
        "The same at fixed rates, without coordinated omission",
        "load drive, open loop, 50 connections",
        open_loop,
        expected_s=90,
    ),
]
