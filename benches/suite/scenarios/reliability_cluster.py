"""The six scenarios of an article on Kafka's reliability (Zhu Xiaosi, 2017), on four brokers as it has them: replicas
1, 2 and 4 (in its second scenario 2, 3 and 4), min.insync.replicas 1, 2 and 4, acks 0, 1 and -1, one to twelve
partitions; one to three brokers that are killed, without retries and with; a producer's latency, and from end to end.

The producer sends 1 KiB and waits for the answer before it sends more. The article shows its measurements as pictures;
what its text finds stands beside ours. Its brokers had 24 processors each, ours have two together.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from benches.suite import figures as f
from benches.suite.frames import produce_frame
from benches.suite.generators import Process, synchronous
from benches.suite.members import SESSION_MS, Members, members, wait
from benches.suite.proof import NotEqual
from benches.suite.runner import Run, Scenario
from benches.suite.scenarios.reliability import PUBLISHED
from benches.suite.servers import Running
from benches.suite.warmup import warm_up
from ottla._core import decode_batches
from tests.support.client import Client

BROKERS = (1, 2, 3, 4)
RECORD_BYTES = 1 << 10
ACKS = {"0": 0, "1": 1, "-1": -1}
PARTITIONS = 12

# Of the one that kills: before, while brokers are away after their sessions, after they have come back.
PHASE_S = 4.0
MANY = 100_000_000
MIN_INSYNC = 2
REQUEST_TIMEOUT_MS = 3000
FETCH_BYTES = 1 << 20
KILLED = {
    "5: 1 or 2 killed": "the producer goes on; with two, slower, since fewer brokers lead",
    "5: 3 killed": "the producer stands still, and goes on when min.insync.replicas brokers are back",
    "5": "what was acknowledged is there; some of what was not, too; with retries some records are there twice",
}


def throughput(run: Run) -> f.Figures:
    """Scenarios 1 to 4 and 6."""
    found: f.Figures = {}
    if not run.contestant.knows_zookeeper:
        return found
    with members(run, BROKERS) as cluster:
        _warm_up(run, cluster)
        for case, partitions, replicas, min_insync, acks in cases():
            in_turn(run, cluster, found, case, partitions, replicas, min_insync, acks)
        _latency(run, cluster, found)
    return found


def cases() -> Iterator[tuple[str, int, int, int, str]]:
    """Of each its name, and the numbers of partitions, of replicas and min.insync.replicas, and acks."""
    for acks in ACKS:
        for replicas in (1, 2, 4):
            # It counts with acks=-1 alone.
            for min_insync in (1, 2, 4) if acks == "-1" else (1,):
                if min_insync <= replicas:
                    name = f"1: acks={acks}, {_replicas(replicas)}" + f", min.insync {min_insync}" * (acks == "-1")
                    yield name, PARTITIONS, replicas, min_insync, acks
    for replicas in (2, 3, 4):
        for min_insync in (1, 2, 4):
            if min_insync <= replicas:
                yield f"2: {_replicas(replicas)}, min.insync {min_insync}", 1, replicas, min_insync, "-1"
    for acks in ACKS:
        for replicas in (1, 2, 4):
            yield f"3: acks={acks}, {_replicas(replicas)}", 1, replicas, 1, acks
    for partitions in (1, 2, 4, 8, 12):
        yield f"4: {partitions} partition{'s' * (partitions > 1)}", partitions, 2, 2, "-1"


def _replicas(number: int) -> str:
    return f"{number} replica{'s' * (number > 1)}"


def in_turn(
    run: Run,
    cluster: Members,
    found: f.Figures,
    case: str,
    partitions: int,
    replicas: int,
    min_insync: int,
    acks: str,
) -> None:
    """A producer that sends a record when the one before is answered, to the partitions in turns."""
    with run.case(case, found) as row:
        topic = "".join(letter if letter.isalnum() else "-" for letter in case)
        placed = spread(partitions, replicas)
        cluster.create(topic, placed, min_insync_replicas=min_insync)
        out = _send_in_turn(run, cluster, topic, placed, acks)
        row[f.RECORDS] = out["requests_per_s"]
        row[f.CPU_RECORD] = out["cpu_s"] / max(1, out["requests"]) * 1e6
        if acks != "0":
            row.update({f.P50: out["latency"]["p50_us"], f.P99: out["latency"]["p99_us"]})


def spread(partitions: int, replicas: int) -> list[list[int]]:
    """The replicas of each partition: leaders in turns, and as the others those that come next."""
    return [[BROKERS[(at + step) % len(BROKERS)] for step in range(replicas)] for at in range(partitions)]


def _send_in_turn(
    run: Run, cluster: Members, topic: str, placed: list[list[int]], acks: str, **options: float
) -> dict[str, Any]:
    """Sends frames in turn; returns the generator's figures once all replicas have what was sent."""
    frames = [
        produce_frame(run.folder, topic, RECORD_BYTES, partition=index, acks=ACKS[acks]) for index in range(len(placed))
    ]
    out = run.load(
        run="in_turn",
        frames=[str(frame.path) for frame in frames],
        addresses=[cluster.brokers[one[0]].bootstrap for one in placed],
        unanswered=acks == "0",
        pids=cluster.pids,
        **{**run.lengths(), **options},
    )
    if out["failed"]:
        raise NotEqual(f"{topic}: {out['failed']} records were refused")
    for index, sent in enumerate(out["sent"]):
        leader = placed[index][0]
        wait(
            lambda index=index, sent=sent, leader=leader: (  # type: ignore[misc]
                cluster.high_watermark(topic, index, leader) >= sent
            ),
            f"all replicas have {topic}-{index}",
        )
        if (there := cluster.high_watermark(topic, index, leader)) != sent:
            raise NotEqual(f"{topic}-{index}: {there} records are there of {sent}")
    return out


def _warm_up(run: Run, cluster: Members) -> None:
    placed = spread(PARTITIONS, 4)
    number = 0

    def window() -> float:
        nonlocal number
        number += 1
        topic = f"warm-up-{number}"
        cluster.create(topic, placed)
        out = _send_in_turn(run, cluster, topic, placed, "-1", seconds=min(2.0, run.size.seconds), warm_up_s=0)
        used: float = out["cpu_s"] / max(1, out["requests"]) * 1e6
        return used

    warm_up(run.contestant.name, "replicated Produce", window, run.size.warm_up_s)


def _latency(run: Run, cluster: Members, found: f.Figures) -> None:
    """Scenario 6: the producer's latency with twelve partitions, and that of records with one, which the consumer of
    the generator has.
    """
    with run.case("6: of the producer", found) as row:
        placed = spread(PARTITIONS, 4)
        cluster.create("latency", placed, min_insync_replicas=2)
        out = _send_in_turn(run, cluster, "latency", placed, "-1")
        row.update({f.P50: out["latency"]["p50_us"], f.P99: out["latency"]["p99_us"]})
    with run.case("6: end to end, 1,000 a second", found) as row:
        placed = spread(1, 4)
        cluster.create("end-to-end", placed, min_insync_replicas=2)
        out = run.load(
            run="end_to_end",
            address=cluster.brokers[placed[0][0]].bootstrap,
            pids=cluster.pids,
            topic="end-to-end",
            acks=-1,
            rate=1_000,
            record_bytes=RECORD_BYTES,
            **run.lengths(),
        )
        if out["failed"]:
            raise NotEqual("records were refused")
        row.update({f.P50: out["latency"]["p50_us"], f.P99: out["latency"]["p99_us"]})


def killed(run: Run) -> f.Figures:
    """Scenario 5: some of the four are killed and started again."""
    found: f.Figures = {}
    if not run.contestant.knows_zookeeper:
        return found
    with members(run, BROKERS) as cluster:
        _warm_up(run, cluster)
        for count in (1, 2, 3):
            for retries in (0, MANY):
                case = f"5: {count} killed, retries {'many' if retries else 0}"
                with run.case(case, found) as row:
                    row.update(_kill_some(run, cluster, count, retries))
    return found


def _kill_some(run: Run, cluster: Members, count: int, retries: int) -> dict[str, float]:
    """The last ones by their ids that are not the controller."""
    topic = f"killed-{count}-{retries}"
    cluster.create(topic, spread(PARTITIONS, len(BROKERS)), min_insync_replicas=MIN_INSYNC)
    controller = cluster.controller()
    victims = [number for number in reversed(BROKERS) if number != controller][:count]
    phase_s = max(1.0, PHASE_S * run.size.factor)
    settings: dict[str, object] = {
        "acks": "all",
        "retries": retries,
        "linger.ms": 0,
        "request.timeout.ms": REQUEST_TIMEOUT_MS,
        # Records for a partition that has no leader wait for one; without retries not for long.
        "message.timeout.ms": 120_000 if retries else REQUEST_TIMEOUT_MS,
        "enable.idempotence": False,
    }
    options = {"topic": topic, "partitions": PARTITIONS, "record_bytes": RECORD_BYTES, "settings": settings}
    producer = synchronous(bootstrap=cluster.bootstrap, **options)
    try:
        begun = _when_there(cluster, topic)
        _rest(producer, phase_s)
        down = time.time()
        for number in victims:
            cluster.brokers[number].kill()
        _rest(producer, SESSION_MS / 1e3 * 1.5 + phase_s)
        up = time.time()
        for number in reversed(victims):
            cluster.start(number)
        live = cluster.brokers[controller]
        wait(lambda: cluster.is_in_sync(live, topic), "all replicas are in sync again")
        whole = time.time()
        _rest(producer, phase_s)
    finally:
        if producer.process.poll() is None and producer.process.stdin:
            producer.process.stdin.close()
            producer.process.stdin = None
    out = producer.result()
    return _figures(cluster, topic, out, {"before": (begun, down), "while they are away": (down, up)}, whole)


def _when_there(cluster: Members, topic: str) -> float:
    """The moment at which the first record is."""
    wait(lambda: cluster.high_watermark(topic, 0, BROKERS[0]) > 0, f"{topic} has a record")
    return time.time()


def _rest(producer: Process, seconds: float) -> None:
    """Lets it send."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if producer.process.poll() is not None:
            raise NotEqual(f"the producer has ended: {producer.process.communicate()[1][-500:]}")
        time.sleep(min(left, 0.1))


def _figures(
    cluster: Members, topic: str, out: dict[str, Any], phases: dict[str, tuple[float, float]], whole: float
) -> dict[str, float]:
    """Everything that was acknowledged is there, or there are no figures."""
    there = Counter(_numbers(cluster, topic))
    acknowledged = dict(out["acknowledged"])
    if lost := [number for number in acknowledged if number not in there]:
        raise NotEqual(f"{topic}: {len(lost)} acknowledged records are not there, such as {lost[:5]}")
    times = sorted(acknowledged.values())
    row = {
        f"records a second, {name}": sum(begin <= at < end for at in times) / (end - begin)
        for name, (begin, end) in phases.items()
    }
    after = [at for at in times if at >= whole]
    row["records a second, with all again"] = len(after) / max(1e-3, times[-1] - whole) if after else 0.0
    row["longest time without an acknowledgement, s"] = max((b - a for a, b in pairwise(times)), default=0.0)
    row["given up"] = len(out["failed"])
    row["given up, and there"] = sum(number in there for number, _ in out["failed"])
    row["there twice"] = sum(times_there - 1 for times_there in there.values())
    return row


def _numbers(cluster: Members, topic: str) -> Iterator[int]:
    """The number of each record that is there."""
    for index in range(PARTITIONS):
        (told,) = cluster.metadata(cluster.brokers[cluster.controller()], topic).topics
        leader = next(one.leader_id for one in told.partitions if one.partition_index == index)
        yield from _read(cluster.brokers[leader], topic, index, cluster.high_watermark(topic, index, leader))


def _read(server: Running, topic: str, index: int, end: int) -> Iterator[int]:
    offset = 0
    with Client.connect("127.0.0.1", server.port) as client:
        while offset < end:
            (told,) = client.fetch(topic, offset, partition=index, max_bytes=FETCH_BYTES).responses
            (answer,) = told.partition_responses
            read = answer.record_set
            if answer.error_code or not read:
                raise NotEqual(f"{topic}-{index} gives nothing at {offset} of {end}: error {answer.error_code}")
            for _, records in decode_batches(read):
                for at, _, value in records:
                    if at >= offset and value is not None:
                        yield int.from_bytes(value[:8])
                        offset = at + 1


SCENARIOS = [
    Scenario(
        "reliability-cluster",
        "The scenarios of an article on reliability, on four brokers, 1 KiB records",
        "load in_turn, one in flight; load end_to_end",
        throughput,
        owns_life=True,
        is_long=True,
        expected_s=600,
        published={case: text for case, text in PUBLISHED.items() if not case.startswith("5")},
    ),
    Scenario(
        "reliability-cluster-killed",
        "Brokers that are killed, as in an article on reliability: four replicas, min.insync.replicas=2, acks=-1",
        "librdkafka, one in flight",
        killed,
        owns_life=True,
        is_long=True,
        expected_s=1_000,
        published=KILLED,
    ),
]
