"""A broker that was killed in the middle of its work comes back."""

from __future__ import annotations

import time

from benches.suite import figures as f
from benches.suite.frames import produce_frame
from benches.suite.proof import check_frames
from benches.suite.runner import Run, Scenario
from benches.suite.scenarios.consume import BATCH_BYTES, write
from benches.suite.servers import cpu_s, create_topic, seconds_until_served

PARTITIONS = 10


def recovery(run: Run) -> f.Figures:
    """Everything that was answered is there again: a killed process loses nothing of the page cache."""
    found: f.Figures = {}
    for name, total in (("1 GB", 10**9), ("4 GB", 4 * 10**9)) if run.size.is_full else (("1 GB", 10**9),):
        with run.case(f"{name} in {PARTITIONS} partitions", found) as row:
            folder = f"broker-{total}"
            server = run.start(folder)
            seconds_until_served(server)
            create_topic(server, "data", PARTITIONS)
            records = BATCH_BYTES // 1000
            frames = [produce_frame(run.folder, "data", 1000, records, partition=at) for at in range(PARTITIONS)]
            sent = write(run, frames, max(PARTITIONS, run.size.count(total) // frames[0].value_bytes))
            server.kill()
            run.make_room()
            begin = time.perf_counter()
            server = run.start(folder, port=server.port, wait=False)
            seconds_until_served(server, "data", PARTITIONS)
            row["restart after kill -9, s"] = time.perf_counter() - begin
            row["CPU until then, s"] = cpu_s(server)
            check_frames(run.load, server, "data", zip(frames, sent, strict=True), PARTITIONS)
            server.kill()
    return found


SCENARIOS = [
    Scenario("recovery", "Restart after kill -9 with data", "load drive", recovery, owns_life=True, is_long=True)
]
