"""Three brokers and three ZooKeepers for a long time, whatever befalls them: R35 of the list of reliability tests.

Rounds of load follow each other on one cluster, each with topics, clients and groups of its own, under faults that the
seed chooses. At the end of a round all is healed and judged, and its topics are deleted. The last rounds end no
broker's process, so that its memory, descriptors and threads can be compared between the first and the last of them.
"""

import itertools
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from confluent_kafka import admin

from tests.cluster.chaos import INTERNAL, RECOVERY_S, Chaos, left_open
from tests.cluster.lives import Lives
from tests.cluster.network import need_namespaces
from tests.cluster.replicas import last_values, logs_equal, misplaced, partitions
from tests.cluster.rounds import Round
from tests.cluster.stand import OTTLA, Cluster, Member
from tests.cluster.workers import PARTITIONS as SHARES
from tests.cluster.workers import Book, Worker, facts, whole
from tests.faults.broker import settings
from tests.faults.broker.load import Committer, Writer
from tests.peers.skips import module
from tests.support.waiting import PATIENCE_S, eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
SOAK_S, ROUND_S = 2400.0, 200.0
#: At least so many rounds, and of how many in ten no process is ended.
ROUNDS, CALM = 4, 4
#: As in `tests/faults/broker/test_sockets.py`. One connection of a client more or less is two descriptors at most.
GROWTH_BYTES_MAX = 50 << 20
DESCRIPTORS_MAX, THREADS_MAX = 20, 4
#: Of all clients of a round, the ones that come and go included, only few are acknowledged while faults last.
LEAST = 300
SETTINGS = {
    # Logs are compacted, rolled and deleted all the time, those of the coordinators too.
    "log.cleaner.min.cleanable.ratio": 0.01,
    "offsets.topic.segment.bytes": 50_000,
    "transaction.state.log.segment.bytes": 50_000,
    "log.retention.check.interval.ms": 1000,
    "log.segment.delete.delay.ms": 500,
    "transactional.id.expiration.ms": 120_000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 10_000,
}
PASSING = {"segment.bytes": "5000", "retention.bytes": "20000"}


class Cost(NamedTuple):
    """The resources that a broker's process takes."""

    pid: int
    resident_bytes: int
    descriptors: int
    threads: int


def cost(member: Member) -> Cost:
    process = psutil.Process(member.server.pid)
    return Cost(process.pid, process.memory_info().rss, process.num_fds(), process.num_threads())


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    need_namespaces()
    with Cluster(tmp_path, (OTTLA,) * 3, zookeepers=3, settings=SETTINGS) as made:
        yield made


@pytest.mark.judge
def test_for_a_round(cluster: Cluster) -> None:
    seed = settings.seed()
    endures(cluster, seed, [(settings.seconds(20), True)])


@pytest.mark.soak
def test_for_a_long_time(cluster: Cluster) -> None:
    """`$OTTLA_FAULT_SECONDS` in all, forty minutes by default."""
    whole_s = settings.seconds(SOAK_S)
    count = max(ROUNDS, round(whole_s / ROUND_S))
    ending = count - max(2, count * CALM // 10)
    endures(cluster, settings.seed(), [(whole_s / count, number < ending) for number in range(count)])


def endures(cluster: Cluster, seed: int, rounds: list[tuple[float, bool]]) -> None:
    """Rounds of so many seconds, in which brokers' processes are ended or not."""
    chance = random.Random(seed)
    chaos = Chaos(cluster, chance)
    chosen = chance.choice(cluster.brokers)
    chosen.more_data = chosen.directory / "more"
    chosen.restart()
    costs: list[list[Cost]] = []
    for number, (seconds, ending) in enumerate(rounds):
        chaos.say(f"round {number}, with{'' if ending else 'out'} ends of processes; {chosen.name} has two directories")
        lived(chaos, seed + number, seconds, ending=ending)
        for member in cluster.brokers:
            chaos.say(f"{member.name} takes {cost(member)}")
        if not ending:
            costs.append([cost(member) for member in cluster.brokers])
    print(f"figures: {dict(chaos.counts)}")
    for first, last in zip(costs[0], costs[-1], strict=True) if costs else ():
        assert first.pid == last.pid
        assert last.resident_bytes - first.resident_bytes < GROWTH_BYTES_MAX, costs
        assert last.descriptors - first.descriptors <= DESCRIPTORS_MAX, costs
        assert last.threads - first.threads <= THREADS_MAX, costs


def lived(chaos: Chaos, seed: int, seconds: float, *, ending: bool) -> None:
    """One round. What it made is gone at its end."""
    cluster, book = chaos.cluster, Book()
    with Round(cluster, seed, churns=True, leaves=0.02) as load:
        passing, shared = f"{load.prefix}passing-", f"{load.prefix}shared"
        rows = [admin.NewTopic(f"{passing}plain", 2, 3, config=PASSING), admin.NewTopic(shared, SHARES, 3)]
        for made in load.admin.create_topics(rows).values():
            made.result(PATIENCE_S)
        cluster.all_in_sync(shared, f"{passing}plain")
        group = f"{load.prefix}workers"
        names = (f"worker-{number}" for number in itertools.count())
        place = (cluster.bootstrap, seed)
        with cluster.clients.inside():
            writer = Writer("writer", *place, first=0, per_round=5, prefix=passing)
            committer = Committer("committer", *place, prefix=load.prefix)
            lives = Lives("lives", *place, prefix=load.prefix)
            mine = [writer, committer, lives]
            everybody = [Worker(next(names), cluster, book, seed, group, shared) for _ in range(2)]
            for each in (*mine, *everybody):
                each.start()
        load.others += mine
        with cluster.observer.follow(*load.topics, load.compacted) as chronicle:
            for _ in settings.until(time.monotonic() + seconds):
                chaos.strike(load, ending=ending)
                everybody.append(Worker(next(names), cluster, book, seed, group, shared))
                everybody[-1].start()
                everybody[-3].ending.set()
                if chaos.chance.random() < 0.5:
                    chaos.heal(load)
            chaos.heal(load)
            since, workers = time.monotonic(), everybody[-2:]
            eventually("the group is whole", lambda: whole(workers, since), RECOVERY_S, facts=lambda: facts(workers))
            for worker in workers:
                worker.ending.set()
            for worker in everybody:
                worker.join(PATIENCE_S)
                assert not worker.is_alive(), facts(everybody)
                assert worker.failure is None, worker.failure
            for one in mine:
                one.end()
            load.finish()
        topics = (*load.topics, f"{passing}plain", shared)
        left_open(cluster, topics)
        chaos.say(f"{load.acknowledged} acknowledged, {lives.lives} lives, {book.commits} commits of workers")
        assert chronicle.unclean() == []
        chronicle.check()
        load.judge(at_least=LEAST)
        logs_equal(cluster.directories, *topics, replicas=3)
        logs_equal(cluster.directories, load.compacted, *INTERNAL, compacted=True, replicas=3)
        assert load.misplaced() == []
        assert writer.refused == []
        assert misplaced(cluster.directories, writer.history, f"{passing}plain") == []
        compacted_to(cluster, load)
        assert (committer.backwards, book.wrong) == ([], [])
        complained(cluster)
        left = [*topics, load.compacted]
        for gone in load.admin.delete_topics(left).values():
            gone.result(PATIENCE_S)
    eventually(
        "their folders are gone",
        lambda: not any(partitions(cluster.directories, topic) for topic in (*left, lives.topic)),
        facts=lambda: [partitions(cluster.directories, topic) for topic in (*left, lives.topic)],
    )


def compacted_to(cluster: Cluster, load: Round) -> None:
    """The last value of each key is the one that was acknowledged last, or one that nobody was told of."""
    (folder, *_) = partitions(cluster.directories, load.compacted)[0]
    found = {key.decode(): last.value and last.value.decode() for key, last in last_values(folder)[0].items()}
    for churn in load.churns:
        for key, value in churn.model.items():
            assert found.get(key) in {value} | churn.doubtful.get(key, set()), (key, value, found.get(key))


def complained(cluster: Cluster) -> None:
    """No broker has met what nobody had thought of."""
    for path in sorted(cluster.brokers[0].directory.parent.glob("ottla-*.log")):
        said = path.read_text(errors="replace")
        assert "Traceback" not in said, said[max(said.index("Traceback") - 500, 0) :][:3000]
