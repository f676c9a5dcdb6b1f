"""A group's coordinator is killed while members join: offsets never go back, a partition has one owner in a generation,
and the group is whole again, on a machine of its own within twice its session timeout.
"""

import time

import pytest
from confluent_kafka import admin

from tests.cluster import asking
from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster
from tests.cluster.workers import PARTITIONS, SESSION_S, Book, Worker, facts, whole
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support.waiting import PATIENCE_S, eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
GROUP = "rebalanced"
TOPIC = "rebalanced-topic"


@pytest.mark.judge
def test_the_coordinator_is_killed_while_members_join(cluster: Cluster) -> None:
    killed_again_and_again(cluster, 2)


@pytest.mark.soak
def test_the_coordinator_is_killed_ten_times(cluster: Cluster) -> None:
    assert max(killed_again_and_again(cluster, 10)) <= 2 * SESSION_S


def killed_again_and_again(cluster: Cluster, times: int) -> list[float]:
    """Returns the seconds from each kill until the group was whole."""
    seed = settings.seed()
    book = Book()
    workers = [Worker(f"worker-{number}", cluster, book, seed, GROUP, TOPIC) for number in range(3)]

    def told() -> object:
        return facts(workers)

    with Round(cluster, seed, writers=1, copies=False) as load:
        for made in load.admin.create_topics([admin.NewTopic(TOPIC, PARTITIONS, 3)]).values():
            made.result(PATIENCE_S)
        for worker in workers:
            worker.start()
        eventually("the group is whole", lambda: whole(workers, 0.0), facts=told)
        whole_after_s = []
        for kill in range(times):
            leaver = workers.pop(0)
            leaver.ending.set()
            leaver.join(PATIENCE_S)
            newcomer = Worker(f"newcomer-{kill}", cluster, book, seed, GROUP, TOPIC)
            workers.append(newcomer)
            target = asking.coordinator(cluster, GROUP, asking.GROUP)
            before = book.commits
            newcomer.start()
            eventually("members join", lambda: any(worker.joining for worker in workers), facts=told)
            mid = any(worker.joining for worker in workers)
            target.kill()
            killed = time.monotonic()
            eventually("the group is whole", lambda since=killed: whole(workers, since), facts=told)  # type: ignore[misc]
            whole_after_s.append(time.monotonic() - killed)
            assert mid
            assert not target.running
            assert asking.coordinator(cluster, GROUP, asking.GROUP) is not target
            load.writes(20)
            target.start()
            cluster.all_in_sync("__consumer_offsets", *load.topics)
            eventually("offsets are committed", lambda least=before: book.commits > least)  # type: ignore[misc]
        for worker in workers:
            worker.ending.set()
        for worker in workers:
            worker.join(PATIENCE_S)
        load.finish()
    print(
        f"figures: {times} kills, {book.commits} commits, {max(generation for generation, _ in book.owners)} "
        f"generations, whole again after {', '.join(f'{seconds:.1f}' for seconds in whole_after_s)} s"
    )
    assert book.wrong == []
    load.judge(at_least=20 * times)
    logs_equal(cluster.directories, "__consumer_offsets", *load.topics)
    return whole_after_s
