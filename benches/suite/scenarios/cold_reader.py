"""50 small producers while a consumer reads what is not in the page cache any more."""

from __future__ import annotations

from benches.suite import figures as f
from benches.suite.frames import produce_frame
from benches.suite.proof import NotEqual, check_frames
from benches.suite.runner import Run, Scenario
from benches.suite.scenarios.consume import fill
from benches.suite.scenarios.small import request_figures
from benches.suite.servers import create_topic, evict

STORED_BYTES = 4_000_000_000
RATE = 5_000


def cold_reader(run: Run) -> f.Figures:
    found: f.Figures = {}
    records = fill(run, "stored", STORED_BYTES if run.size.is_full else STORED_BYTES // 2)
    create_topic(run.server, "small")
    frame = produce_frame(run.folder, "small", 100)
    options = {"frames": [str(frame.path)], "connections": 50, "depth": 100, "rate": RATE}
    names = ("without a reader", "beside a cold reader")
    sent, p99 = 0, {}
    for name in names:
        reader = None
        if name == names[1]:
            evict(run.server)
            reading = {"topic": "stored", "headers_only": True, "pids": [run.server.pid]}
            reader = run.load.start(run="check", address=run.server.bootstrap, **reading)
        out = run.drive(name, **options)
        sent += out["sent"][0]
        row = request_figures(out)
        p99[name] = row[f.P99]
        if reader is not None:
            read = reader.result()
            if read["records"] != records:
                raise NotEqual(f"{read['records']} of {records} stored records were read")
            row[f"reader, {f.MB}"] = read["received_bytes"] / read["seconds"] / 1e6
            row[f.P99_BESIDE] = p99[names[1]] / p99[names[0]]
        found[name] = row
    check_frames(run.load, run.server, "small", [(frame, sent)])
    return found


SCENARIOS = [
    Scenario(
        "cold-reader",
        f"{RATE:,} small Produce requests a second beside a consumer of 2 GB (full runs: 4) from the disk",
        "load drive, open loop, 50 connections; load check",
        cold_reader,
        expected_s=180,
    )
]
