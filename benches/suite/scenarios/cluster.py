"""Three brokers with one ZooKeeper on this machine, every partition on all three: what replication costs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from benches.suite import figures as f
from benches.suite.frames import Frame, batch_of, produce_frame, values
from benches.suite.members import Members, members, wait
from benches.suite.proof import NotEqual, check_frames
from benches.suite.runner import Run, Scenario
from benches.suite.scenarios.small import request_figures
from benches.suite.servers import connect, proportional_mb
from benches.suite.warmup import warm_up
from ottla.client.blocking import BlockingConnection
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData

BROKERS = (1, 2, 3)
VALUE_BYTES = 100
# What a record of 100 bytes takes of a batch.
RECORD_BYTES = 108
SMALL, LARGE = 16, 64
"""Of a batch, KiB."""
ACKS = {"1": 1, "all": -1}
ALL_HAVE = "records a second, until all replicas have them"
GAP = "kill -9 to the next acknowledgement, s"
GAP_AWAKE = "the session's end to the next acknowledgement, s"
REQUESTS = "acks=all, single records, 50 connections"


def replicated(run: Run) -> f.Figures:
    found: f.Figures = {}
    if not run.contestant.knows_zookeeper:
        return found
    with members(run, BROKERS) as cluster:
        _warm_up(run, cluster)
        for partitions in (1, 6):
            for acks in ACKS:
                _load(run, cluster, found, acks, _leaders(partitions), SMALL)
        for acks in ACKS:
            _load(run, cluster, found, acks, _leaders(6), LARGE)
        _requests(run, cluster, found)
        _latency(run, cluster, found)
        with run.case("three brokers", found) as row:
            row[f.ALL_RESIDENT] = sum(proportional_mb(server) for server in cluster.brokers.values())
        _failover(run, cluster, found)
    return found


def _leaders(partitions: int) -> list[int]:
    return [BROKERS[at % len(BROKERS)] for at in range(partitions)]


def _drives(
    run: Run,
    cluster: Members,
    topic: str,
    acks: str,
    leaders: Sequence[int],
    batch_kib: int = SMALL,
    **options: float,
) -> list[Driven]:
    """Batches to each partition's leader, all at once: of each leader the frames and what came of them."""
    sizes = {"records": (batch_kib << 10) // RECORD_BYTES, "acks": ACKS[acks]}
    started = []
    for leader in dict.fromkeys(leaders):
        frames = [
            produce_frame(run.folder, topic, VALUE_BYTES, partition=index, **sizes)
            for index, each in enumerate(leaders)
            if each == leader
        ]
        address = cluster.brokers[leader].bootstrap
        paths = [str(frame.path) for frame in frames]
        # A connection for each partition, as a producer has one for each broker at least.
        started.append(
            (
                frames,
                run.load.start(run="drive", address=address, frames=paths, connections=len(frames), depth=5, **options),
            )
        )
    return [Driven(frames, process.result()) for frames, process in started]


class Driven:
    """The frames that one generator has sent, how often, and the records a second."""

    def __init__(self, frames: list[Frame], out: dict[str, Any]) -> None:
        self.sent: list[tuple[Frame, int]] = list(zip(frames, out["sent"], strict=True))
        self.rate: float = out["requests"] * frames[0].records / out["seconds"]


def _load(run: Run, cluster: Members, found: f.Figures, acks: str, leaders: list[int], batch_kib: int) -> None:
    """As many records as go in. The CPU is counted until every replica has them."""
    case = f"acks={acks}, {len(leaders)} partition{'s' * (len(leaders) > 1)}"
    case += f", {batch_kib} KiB batches" * (batch_kib != SMALL)
    topic = f"load-{acks}-{len(leaders)}-{batch_kib}"
    with run.case(case, found) as row:
        cluster.create_led(topic, leaders)
        begin, used = time.perf_counter(), cluster.cpu_s()
        driven = _drives(
            run,
            cluster,
            topic,
            acks,
            leaders,
            batch_kib,
            **run.lengths(),
        )
        sent = [one for each in driven for one in each.sent]
        count = sum(frame.records * times for frame, times in sent)
        ends = {frame.partition: frame.records * times for frame, times in sent}
        for index, end in ends.items():
            wait(
                lambda index=index, end=end: cluster.high_watermark(topic, index, leaders[index]) >= end,  # type: ignore[misc]
                f"all replicas have {topic}-{index}",
            )
        used, seconds = cluster.cpu_s() - used, time.perf_counter() - begin
        row[f.RECORDS] = sum(each.rate for each in driven)
        row[ALL_HAVE] = count / seconds
        row[f.CPU_RECORD] = used / max(1, count) * 1e6
        if len(leaders) == 1:
            check_frames(run.load, cluster.brokers[leaders[0]], topic, sent)
        elif any(cluster.high_watermark(topic, index, leaders[index]) != end for index, end in ends.items()):
            raise NotEqual(f"{topic}: what is there is not what was sent")


def _requests(run: Run, cluster: Members, found: f.Figures) -> None:
    """Requests of one record of 100 bytes, one in flight on each of 50 connections to one leader."""
    with run.case(REQUESTS, found) as row:
        cluster.create_led("requests", [1])
        frame = produce_frame(run.folder, "requests", VALUE_BYTES, acks=ACKS["all"])
        out = run.drive(REQUESTS, frames=[str(frame.path)], connections=50, pids=cluster.pids)
        check_frames(run.load, run.server, "requests", [(frame, out["sent"][0])])
        row.update(request_figures(out))


def _warm_up(run: Run, cluster: Members) -> None:
    """Replicated Produce of large and of small batches, each until its cost stands still or as long as a warming may
    take.
    """
    leaders = list(BROKERS)
    cluster.create_led("warm-up", leaders)

    def large() -> float:
        used = cluster.cpu_s()
        driven = _drives(run, cluster, "warm-up", "all", leaders, seconds=min(2.0, run.size.seconds))
        count = sum(frame.records * times for each in driven for frame, times in each.sent)
        return (cluster.cpu_s() - used) / max(1, count) * 1e6

    cluster.create_led("warm-up-single", [1])

    def small() -> float:
        out = _single(run, cluster, "warm-up-single", min(2.0, run.size.seconds), warm_up_s=0)
        return out["cpu_s"] / max(1, out["requests"]) * 1e6

    for window in (large, small):
        warm_up(run.contestant.name, "replicated Produce", window, run.size.warm_up_s)


def _single(run: Run, cluster: Members, topic: str, seconds: float, warm_up_s: float) -> dict[str, Any]:
    """Records of 1 KiB, each in a request of its own, 1,000 a second."""
    return run.load(
        run="end_to_end",
        address=cluster.brokers[1].bootstrap,
        pids=cluster.pids,
        topic=topic,
        acks=ACKS["all"],
        rate=1_000,
        seconds=seconds,
        warm_up_s=warm_up_s,
        record_bytes=1 << 10,
    )


def _latency(run: Run, cluster: Members, found: f.Figures) -> None:
    with run.case("acks=all, 1,000 a second", found) as row:
        cluster.create_led("latency", [1])
        seconds = max(run.size.seconds, 6.0 * run.size.factor)
        out = _single(run, cluster, "latency", seconds, warm_up_s=min(1, run.size.seconds / 2))
        if out["failed"]:
            raise NotEqual(f"{out['failed']} records were refused")
        row[f.P50], row[f.P99] = out["acknowledged"]["p50_us"], out["acknowledged"]["p99_us"]
        row[f.CPU_RECORD] = out["cpu_s"] / max(1, out["requests"]) * 1e6


def _failover(run: Run, cluster: Members, found: f.Figures) -> None:
    """The leader of a partition is killed, which is not the controller. A client asks the others who leads, and writes
    to that one, again and again.
    """
    controller = cluster.controller()
    leader, other = (number for number in BROKERS if number != controller)
    with run.case("the leader dies", found) as row:
        cluster.create_led("failover", [leader])
        with connect(cluster.brokers[leader]) as connection:
            if not _is_written(connection, "failover"):
                raise NotEqual("nothing can be written before the leader dies")
        begin = time.perf_counter()
        cluster.brokers[leader].kill()

        session_ended = 0.0

        def goes_on() -> bool:
            nonlocal session_ended
            if not session_ended:
                if cluster.tree.exists(f"/brokers/ids/{leader}") is None:
                    session_ended = time.perf_counter()
                return False
            (topic,) = cluster.metadata(cluster.brokers[other], "failover").topics
            now = topic.partitions[0].leader_id
            if now in (leader, -1):
                return False
            with connect(cluster.brokers[now]) as connection:
                return _is_written(connection, "failover")

        wait(goes_on, "a write is acknowledged again")
        row[GAP] = time.perf_counter() - begin
        row[GAP_AWAKE] = row[GAP] - (session_ended - begin)


def _is_written(connection: BlockingConnection, topic: str) -> bool:
    data = PartitionProduceData(partition_index=0, records=batch_of(values(VALUE_BYTES, 1)))
    rows = [TopicProduceData(name=topic, partitions=[data])]
    request = ProduceRequest(transactional_id=None, acks=ACKS["all"], timeout_ms=10_000, topics=rows)
    ((row,),) = [each.partitions for each in connection.call(PRODUCE, request, version=7).responses]
    return row.error_code == 0


SCENARIOS = [
    Scenario(
        "cluster",
        "Three brokers, replication factor 3, 100-byte records",
        "load drive, 16 and 64 KiB batches, 5 in flight on a connection; load end_to_end",
        replicated,
        owns_life=True,
        expected_s=300,
    ),
]
