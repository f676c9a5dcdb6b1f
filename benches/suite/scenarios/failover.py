"""Three brokers of which one dies with thousands of partitions, or comes back after it has missed a gigabyte."""

from __future__ import annotations

import statistics
import time
from itertools import count
from pathlib import Path

from benches.suite import figures as f
from benches.suite.frames import produce_frame
from benches.suite.generators import Process
from benches.suite.members import Members, members, wait
from benches.suite.proof import NotEqual
from benches.suite.runner import Run, Scenario
from benches.suite.servers import cpu_s
from benches.suite.warmup import warm_up

BROKERS = (1, 2, 3)
A_TOPIC = 100
# A Kafka makes the files of fifteen thousand replicas in it.
MAKES_S = 600.0
LED = "5,000 partitions"
SINCE_KILL = "kill -9 to the last new leader, s"
SURVIVORS = "CPU of the others meanwhile, s"

GONE_BYTES = 10**9
PARTITIONS = 6
VALUE_BYTES, BATCH_RECORDS = 1000, 64
CATCHES_UP = "1 GB behind"
# At 1,000 a second: twenty are over the p99.
WINDOW_S = 2.0
ALL = -1


def failover(run: Run) -> f.Figures:
    """A broker is killed that leads a third of all partitions and is not the controller."""
    found: f.Figures = {}
    if not run.contestant.knows_zookeeper:
        return found
    with members(run, BROKERS) as cluster, run.case(LED, found) as row:
        left = partitions = run.size.count(5_000, 30)
        begin = time.perf_counter()
        for number in count():
            cluster.make(f"many-{number}", [], min(A_TOPIC, left))
            left -= A_TOPIC
            if left <= 0:
                break
        for server in cluster.brokers.values():
            wait(
                lambda server=server: _partitions(cluster, server.port) == partitions and cluster.is_in_sync(server),  # type: ignore[misc]
                "all replicas are in sync",
                MAKES_S,
                0.1,
            )
        row["create, until all are in sync, s"] = time.perf_counter() - begin
        row.update(_killed(cluster, partitions))
    return found


def _partitions(cluster: Members, port: int) -> int:
    server = next(one for one in cluster.brokers.values() if one.port == port)
    return sum(len(topic.partitions) for topic in cluster.metadata(server).topics)


def _killed(cluster: Members, partitions: int) -> dict[str, float]:
    dead = next(number for number in BROKERS if number != cluster.controller())
    others = {number: server for number, server in cluster.brokers.items() if number != dead}
    used, begin = sum(map(cpu_s, others.values())), time.perf_counter()
    cluster.brokers[dead].kill()
    wait(lambda: cluster.tree.exists(f"/brokers/ids/{dead}") is None, "the dead broker's node is gone")
    gone = time.perf_counter()

    def is_led() -> bool:
        """True if every broker tells clients of living leaders, and each leader tells consumers where they end."""
        led: dict[int, dict[str, list[int]]] = {}
        for server in others.values():
            led.clear()
            told = 0
            for topic in cluster.metadata(server).topics:
                for one in topic.partitions:
                    if one.leader_id not in others:
                        return False
                    led.setdefault(one.leader_id, {}).setdefault(topic.name, []).append(one.partition_index)
                    told += 1
            if told != partitions:
                raise NotEqual(f"{told} partitions are told of, not {partitions}")
        return all(-1 not in cluster.high_watermarks(of_each, leader).values() for leader, of_each in led.items())

    wait(is_led, "all partitions have leaders")
    end = time.perf_counter()
    return {
        f.LAST_LEADER: end - gone,
        SINCE_KILL: end - begin,
        SURVIVORS: sum(map(cpu_s, others.values())) - used,
    }


def catch_up(run: Run) -> f.Figures:
    """A broker stops, the others take a gigabyte, it comes back; meanwhile somebody writes 1,000 records a second with
    acks=all, whose latency counts. It is a new process, which nothing has warmed.
    """
    found: f.Figures = {}
    if not run.contestant.knows_zookeeper:
        return found
    with members(run, BROKERS) as cluster, run.case(CATCHES_UP, found) as row:
        away = next(number for number in BROKERS if number != cluster.controller())
        leaders = [number for number in BROKERS if number != away]
        cluster.create_led("data", [leaders[at % 2] for at in range(PARTITIONS)])
        cluster.create_led("beside", leaders[:1])

        def window() -> float:
            out = _window(run, cluster, leaders[0]).result()
            used: float = out["cpu_s"] / max(1, out["requests"]) * 1e6
            return used

        warm_up(run.contestant.name, "replicated Produce", window, run.size.warm_up_s)
        cluster.brokers[away].stop()
        wait(lambda: cluster.tree.exists(f"/brokers/ids/{away}") is None, "the broker has gone")
        sent = _write(run, cluster, leaders)
        before = _p99(_window(run, cluster, leaders[0]))
        cluster.start(away)
        wait(lambda: cluster.tree.exists(f"/brokers/ids/{away}") is not None, "the broker has come back")
        begin, seconds = time.perf_counter(), 0.0
        while_it_comes = []
        while not seconds:
            process = _window(run, cluster, leaders[0])
            while process.process.poll() is None:
                if not seconds and cluster.is_in_sync(cluster.brokers[leaders[0]], "data"):
                    seconds = time.perf_counter() - begin
                time.sleep(0.01)
            while_it_comes.append(_p99(process))
            if time.perf_counter() - begin > MAKES_S:
                raise NotEqual(f"the broker has not caught up within {MAKES_S:.0f} s")
        there = [_bytes(cluster.brokers[number].data) for number in (*leaders, away)]
        if len(set(there)) > 1:
            raise NotEqual(f"the brokers have {there} bytes")
        row[f.MB] = sent / seconds / 1e6
        row["p99 while it was away, µs"] = before
        # Of the windows that were over when it had caught up, else of the one in which it did.
        row["p99 while it catches up, µs"] = statistics.median(while_it_comes[:-1] or while_it_comes)
        row[f.P99_COMING_BACK] = row["p99 while it catches up, µs"] / before
    return found


def _write(run: Run, cluster: Members, leaders: list[int]) -> int:
    """To all partitions; the bytes of the values."""
    total = run.size.count(GONE_BYTES)
    started = []
    for at, leader in enumerate(leaders):
        frames = [
            produce_frame(run.folder, "data", VALUE_BYTES, BATCH_RECORDS, partition=index)
            for index in range(at, PARTITIONS, len(leaders))
        ]
        requests = max(len(frames), total // len(leaders) // frames[0].value_bytes)
        options = {"frames": [str(frame.path) for frame in frames], "connections": len(frames), "depth": 5}
        address = cluster.brokers[leader].bootstrap
        started.append(
            (frames, run.load.start(run="drive", address=address, seconds=600, requests=requests, **options))
        )
    sent = 0
    for frames, process in started:
        sent += sum(frame.value_bytes * times for frame, times in zip(frames, process.result()["sent"], strict=True))
    return sent


def _window(run: Run, cluster: Members, leader: int) -> Process:
    """A producer of acks=all for some seconds, and its consumer."""
    seconds = max(run.size.seconds, WINDOW_S * run.size.factor)
    return run.load.start(
        run="end_to_end",
        address=cluster.brokers[leader].bootstrap,
        pids=cluster.pids,
        topic="beside",
        first_offset=cluster.high_watermark("beside", 0, leader),
        acks=ALL,
        rate=1_000,
        seconds=seconds,
        warm_up_s=min(0.5, seconds / 4),
        record_bytes=1 << 10,
    )


def _p99(window: Process) -> float:
    """Until the acknowledgement, µs."""
    out = window.result()
    if out["failed"]:
        raise NotEqual("records were refused")
    p99: float = out["acknowledged"]["p99_us"]
    return p99


def _bytes(data: Path) -> int:
    """Of the segments of the topic that everybody should have."""
    return sum(path.stat().st_size for path in data.glob("data-*/*.log"))


SCENARIOS = [
    Scenario(
        "cluster-failover",
        "Three brokers with thousands of partitions, replication factor 3, of which one is killed",
        "one client that asks who leads",
        failover,
        owns_life=True,
        is_long=True,
        expected_s=600,
    ),
    Scenario(
        "cluster-catch-up",
        "A follower of three brokers, replication factor 3, that was away for 1 GB",
        "load drive; load end_to_end, 1,000 records of 1 KiB a second, acks=all",
        catch_up,
        owns_life=True,
        is_long=True,
        expected_s=400,
    ),
]
