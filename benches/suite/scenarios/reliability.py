"""The six scenarios of an article on Kafka's reliability (Zhu Xiaosi, 2017): four brokers, 1 KiB records, a producer
that waits for each answer. Here with as many replicas as there are brokers: one.

The article shows its measurements as pictures; what its text finds stands beside ours.
"""

from __future__ import annotations

import time

from benches.suite import figures as f
from benches.suite.frames import produce_frame
from benches.suite.generators import librdkafka
from benches.suite.proof import NotEqual, check_frames, check_values
from benches.suite.runner import Run, Scenario
from benches.suite.scenarios.latency import one as end_to_end
from benches.suite.servers import create_topic, seconds_until_served

BROKERS = 1
PUBLISHED = {
    "1: acks, 12 partitions": "acks 0 > 1 > -1; more replicas are slower; min.insync.replicas makes no difference",
    "2: min.insync.replicas, 1 partition": "makes no difference; replicas hardly any with one partition",
    "3: acks, 1 partition": "acks 0 > 1 > -1; more replicas are slower",
    "4: number of partitions": "grows with the partitions, not in proportion, and falls a little beyond a point",
    "5: brokers killed": "what was acknowledged is there; with retries some records are there twice",
    "6: latency": "of the producer and end to end, acks=-1",
}


def one_at_a_time(run: Run, found: f.Figures, case: str, partitions: int, acks: int, **configs: object) -> None:
    """A producer that sends a record when the one before is answered, to the partitions in turns."""
    with run.case(case, found) as row:
        topic = "".join(letter if letter.isalnum() else "-" for letter in case)
        create_topic(run.server, topic, partitions, **configs)
        frames = [produce_frame(run.folder, topic, 1 << 10, partition=at, acks=acks) for at in range(partitions)]
        out = run.drive(frames=[str(frame.path) for frame in frames], unanswered=acks == 0)
        check_frames(run.load, run.server, topic, zip(frames, out["sent"], strict=True), partitions)
        row[f.RECORDS] = out["requests"] / out["seconds"]
        row[f.CPU_RECORD] = out["cpu_s"] / max(1, out["requests"]) * 1e6
        if acks:
            row.update({f.P50: out["latency"]["p50_us"], f.P99: out["latency"]["p99_us"]})


def throughput(run: Run) -> f.Figures:
    """Scenarios 1 to 4 and 6; replicas 1, 2, 4 and min.insync.replicas 1, 2, 4 as far as there are brokers."""
    found: f.Figures = {}
    replicas = [number for number in (1, 2, 4) if number <= BROKERS]
    for word, acks in (("0", 0), ("1", 1), ("-1", -1)):
        one_at_a_time(run, found, f"1: acks={word}, 12 partitions", 12, acks)
    for number in replicas:
        case = f"2: min.insync.replicas={number}, 1 partition"
        one_at_a_time(run, found, case, 1, -1, min_insync_replicas=number)
    for word, acks in (("0", 0), ("1", 1), ("-1", -1)):
        one_at_a_time(run, found, f"3: acks={word}, 1 partition", 1, acks)
    for partitions in (1, 2, 4, 8, 12):
        one_at_a_time(run, found, f"4: {partitions} partitions, acks=-1", partitions, -1)
    end_to_end(run, found, "6: latency", 1_000, -1)
    return found


def killed(run: Run) -> f.Figures:
    """Scenario 5: the broker is killed and started again while a producer tries again and again."""
    found: f.Figures = {}
    for case, idempotence in (("5: killed once, retries", "false"), ("5: killed once, idempotent", "true")):
        with run.case(case, found) as row:
            folder = f"broker-{idempotence}"
            server = run.start(folder)
            seconds_until_served(server)
            create_topic(server, "killed", 12)
            path, contents = run.payloads(1 << 10)
            count = run.size.count(300_000, 50_000)
            settings = {"acks": "all", "enable.idempotence": idempotence, "message.timeout.ms": "120000"}
            begin = time.perf_counter()
            options = {"topic": "killed", "records": count, "payloads": str(path), "settings": settings}
            producer = librdkafka(bootstrap=server.bootstrap, **options)
            while _held(run, "killed", 12) < count // 3:
                pass
            if producer.process.poll() is not None:
                raise NotEqual("the producer was done before the broker was killed")
            server.kill()
            run.start(folder, port=server.port, wait=False)
            out = producer.result()
            row["seconds until everything was acknowledged"] = time.perf_counter() - begin
            seconds_until_served(run.server, "killed", 12)
            there = _held(run, "killed", 12)
            if out["failed"] or there < count or (idempotence == "true" and there != count):
                raise NotEqual(f"{there} records are there of {count}; {out['failed']} failed")
            check_values(run.load, run.server, "killed", there, contents, partitions=12)
            row["records there twice"] = there - count
            run.server.kill()
    return found


def _held(run: Run, topic: str, partitions: int) -> int:
    held: int = run.load(run="check", address=run.server.bootstrap, topic=topic, partitions=partitions)["records"]
    return held


SCENARIOS = [
    Scenario(
        "reliability",
        "The scenarios of an article on reliability, with one replica, 1 KiB records",
        "load drive, one in flight; load end_to_end",
        throughput,
        is_long=True,
        published={case: text for case, text in PUBLISHED.items() if not case.startswith("5")},
    ),
    Scenario(
        "reliability-killed",
        "A broker that is killed, as in an article on reliability",
        "librdkafka by its C interface",
        killed,
        owns_life=True,
        is_long=True,
        published={case: text for case, text in PUBLISHED.items() if case.startswith("5")},
    ),
]
