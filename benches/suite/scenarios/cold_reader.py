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
# Larger than usual, so that a round is not mostly filling.
BATCH_BYTES = 64 << 10
RATE = 5_000
ALONE, BESIDE = "without a reader", "beside a cold reader"


def cold_reader(run: Run) -> f.Figures:
    found: f.Figures = {}
    records = fill(run, "stored", STORED_BYTES, batch_bytes=BATCH_BYTES)
    create_topic(run.server, "small")
    frame = produce_frame(run.folder, "small", 100)
    options = {"frames": [str(frame.path)], "connections": 50, "depth": 100, "rate": RATE}
    with run.case(ALONE, found) as row:
        out = run.drive(ALONE, **options)
        sent = out["sent"][0]
        row.update(request_figures(out))
    evict(run.server, "stored")
    with run.case(BESIDE, found) as row:
        reading = {"topic": "stored", "headers_only": True, "pids": [run.server.pid]}
        reader = run.load.start(run="check", address=run.server.bootstrap, **reading)
        out = run.drive(BESIDE, **options)
        sent += out["sent"][0]
        read = reader.result()
        if read["records"] != records:
            raise NotEqual(f"{read['records']} of {records} stored records were read")
        row.update(request_figures(out))
        row[f"reader, {f.MB}"] = read["received_bytes"] / read["seconds"] / 1e6
        if ALONE in found:
            row[f.P99_BESIDE] = row[f.P99] / found[ALONE][f.P99]
    check_frames(run.load, run.server, "small", [(frame, sent)])
    return found


SCENARIOS = [
    Scenario(
        "cold-reader",
        f"{RATE:,} small Produce requests a second beside a consumer of 4 GB from the disk",
        "load drive, open loop, 50 connections; load check",
        cold_reader,
        expected_s=220,
    )
]
