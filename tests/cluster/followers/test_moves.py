"""Partitions move between brokers while clients write, read and copy: nothing is lost, and the old brokers keep
nothing.
"""

import itertools
import random
from collections.abc import Iterator

import pytest

from ottla.kafka import TopicPartition
from ottla.wire.k46_list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsRequest,
)
from tests.cluster import asking
from tests.cluster.kinds import OTTLA
from tests.cluster.orders import Targets, assigned, order
from tests.cluster.replicas import logs_equal, partitions
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]

#: Taking back what is over already.
OVER = {"NO_REASSIGNMENT_IN_PROGRESS"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("moves"), (*OTTLA, "ottla")) as made:
        yield made


def under_way(cluster: Cluster) -> dict[TopicPartition, list[int]]:
    """The moves that are under way, as the controller says."""
    with asking.client(cluster, cluster.broker(cluster.observer.controller()[0])) as client:
        request = ListPartitionReassignmentsRequest(timeout_ms=30_000, topics=None)
        answer = client.call(LIST_PARTITION_REASSIGNMENTS, request)
    assert answer.error_code == 0
    return {
        TopicPartition(topic.name, row.partition_index): row.replicas
        for topic in answer.topics
        for row in topic.partitions
    }


def settled(cluster: Cluster, targets: Targets) -> None:
    """All moves are over: these brokers hold the partitions, in sync, and nobody else has a folder of them."""
    eventually(
        "the moves are over",
        lambda: assigned(cluster, targets) == dict(targets),
        facts=lambda: (assigned(cluster, targets), targets),
    )
    assert under_way(cluster) == {}
    cluster.all_in_sync(*{name.topic for name in targets})
    for name, replicas in targets.items():
        assert replicas is not None
        eventually(
            f"nobody else has {name}",
            lambda: len(partitions(cluster.directories, name.topic)[name.partition]) == len(replicas),  # noqa: B023
        )


def without_leaders(cluster: Cluster, names: list[TopicPartition]) -> dict[TopicPartition, list[int]]:
    """Each partition on the three brokers of four that do not lead it."""
    ids = [member.id for member in cluster.brokers]
    leaders = {name: cluster.observer.state(*name).leader for name in names}
    return {name: [broker for broker in ids if broker != leaders[name]] for name in names}


def all_of(cluster: Cluster, *topics: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic in topics for number in sorted(cluster.observer.states(topic))]


def test_everything_moves_round_the_cluster(cluster: Cluster) -> None:
    with (
        Round(cluster, settings.seed()) as load,
        cluster.observer.follow(*load.topics) as chronicle,
    ):
        names = all_of(cluster, *load.topics, "__consumer_offsets", "__transaction_state")
        for _ in range(2):
            targets = without_leaders(cluster, names)
            assert set(order(cluster, targets).values()) == {"NONE"}
            settled(cluster, targets)
            load.flows()
        load.finish()
    assert chronicle.moved() >= 2 * len(all_of(cluster, *load.topics))
    chronicle.check()
    load.judge(at_least=300)
    logs_equal(cluster.directories, *load.topics, replicas=3)


@pytest.mark.soak
def test_moves_begin_turn_and_end_while_brokers_die(cluster: Cluster) -> None:
    """Orders at random: another target, the same again, back; a broker is killed in the middle of each, the controller
    every other time.
    """
    seed = settings.seed()
    chance = random.Random(seed)
    with (
        Round(cluster, seed) as load,
        cluster.observer.follow(*load.topics) as chronicle,
    ):
        names = all_of(cluster, *load.topics)
        ids = [member.id for member in cluster.brokers]
        killed: set[str] = set()
        for turn in itertools.count():
            if turn == 10:
                break
            for _ in range(chance.randint(1, 3)):
                chosen = chance.sample(names, chance.randint(1, len(names)))
                wanted: Targets = {name: None if chance.random() < 0.2 else chance.sample(ids, 3) for name in chosen}
                assert set(order(cluster, wanted).values()) <= {"NONE", *OVER}
            controller = cluster.observer.controller()[0]
            victim = cluster.broker(controller if turn % 2 else chance.choice(ids))
            victim.kill()
            killed.add(victim.name)
            cluster.leaves(victim)
            load.flows()
            victim.start()
        targets = dict.fromkeys(names, ids[:3])
        assert set(order(cluster, targets).values()) == {"NONE"}
        settled(cluster, targets)
        load.flows()
        load.finish()
    assert len(killed) > 1
    chronicle.check()
    load.judge(at_least=300)
    logs_equal(cluster.directories, *load.topics, replicas=3)
