"""Thousands of partitions: made, written, read, stopped, started again."""

from __future__ import annotations

import time
from pathlib import Path

from benches.suite import figures as f
from benches.suite.frames import PRODUCE, batch_of
from benches.suite.proof import NotEqual
from benches.suite.runner import Run, Scenario
from benches.suite.servers import connect, cpu_s, create_topic, memory_mb, seconds_until_served
from benches.suite.targets import OURS
from ottla.wire.k00_produce import PRODUCE as PRODUCE_API
from ottla.wire.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData

ALONE = "the file system alone: as many folders and files, s"
CHECKPOINTS = {"replica.high.watermark.checkpoint.interval.ms": 200}


def partitions(run: Run) -> f.Figures:
    found: f.Figures = {}
    for number in (2_000, 5_000, 10_000) if run.size.is_full else (5_000,):
        count = run.size.count(number, 20)
        with run.case(f"{number:,}", found) as row:
            # Once a round: it may take as long as our whole part.
            if run.contestant.name == OURS:
                row[ALONE] = _folders(run.folder / f"raw-{number}", count)
            row.update(_life(run, number, count))
    return found


def _life(run: Run, number: int, count: int) -> dict[str, float]:
    name = f"broker-{number}"
    server = run.start(name)
    seconds_until_served(server)
    row = {"create, s": create_topic(server, "many", count)}
    begin = time.perf_counter()
    _produce_to_each(run, count)
    row["a record to each, s"] = time.perf_counter() - begin
    begin = time.perf_counter()
    _all_there(run, count)
    row["a record from each, s"] = time.perf_counter() - begin
    row["resident, MB"] = memory_mb(server)
    row["checkpoint each 200 ms: CPU, ms a second of time"] = _checkpoints(run) * 1e3
    begin = time.perf_counter()
    server.stop()
    row["clean stop, s"] = time.perf_counter() - begin
    for case in ("restart, s", f.KILLED):
        run.make_room()
        begin = time.perf_counter()
        server = run.start(name, port=server.port, wait=False)
        seconds_until_served(server, "many", count)
        row[case] = time.perf_counter() - begin
        _all_there(run, count)
        server.kill()
    # Its controller, which began anew with it, waits for the session of the one that was killed.
    row[f.KILLED_AWAKE] = max(0.0, row[f.KILLED] - run.contestant.session_s)
    return row


def _produce_to_each(run: Run, count: int, only: int | None = None) -> None:
    batch = batch_of([b"x" * 100])
    indexes = range(count) if only is None else [only]
    rows = [PartitionProduceData(partition_index=index, records=batch) for index in indexes]
    topics = [TopicProduceData(name="many", partitions=rows)]
    request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=30_000, topics=topics)
    with connect(run.server) as connection:
        answer = connection.call(PRODUCE_API, request, version=PRODUCE[1])
    errors = {each.error_code for topic in answer.responses for each in topic.partitions}
    assert errors == {0}, errors


def _all_there(run: Run, count: int) -> None:
    options = {"topic": "many", "partitions": count, "headers_only": True}
    there = run.load(run="check", address=run.server.bootstrap, **options)["records"]
    if there < count:
        raise NotEqual(f"{there} of {count} records are there")


def _checkpoints(run: Run) -> float:
    """CPU seconds a second while a high watermark moves: nearly all of it is the file of all of them."""
    before, begin = cpu_s(run.server), time.perf_counter()
    end = begin + run.size.seconds
    while time.perf_counter() < end:
        _produce_to_each(run, 0, only=0)
        time.sleep(0.1)
    return (cpu_s(run.server) - before) / (time.perf_counter() - begin)


def _folders(folder: Path, count: int) -> float:
    """It varies a hundredfold with the disk's state, and so does everybody's `create`."""
    folder.mkdir()
    begin = time.perf_counter()
    for index in range(count):
        partition = folder / f"t-{index}"
        partition.mkdir()
        for suffix in ("log", "index", "timeindex"):
            (partition / f"{0:020}.{suffix}").touch()
    return time.perf_counter() - begin


SCENARIOS = [
    Scenario(
        "partitions",
        "Many partitions in one broker",
        "one client",
        partitions,
        CHECKPOINTS,
        owns_life=True,
        takes_turns=True,
        expected_s=700,
    )
]
