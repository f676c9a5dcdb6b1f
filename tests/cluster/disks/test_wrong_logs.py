"""Brokers that come back without a log, with an old one, or to a tree that is not their cluster's.

What was acknowledged stays, and nobody reads what was another topic's.
"""

from __future__ import annotations

import shutil

import pytest

from ottla.wire.k43_elect_leaders import ELECT_LEADERS, ElectLeadersRequest, TopicPartitions
from ottla.wire.k45_alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.cluster import asking
from tests.cluster.replicas import logs_equal
from tests.cluster.stand import Cluster, Member
from tests.support.client import batch, values
from tests.support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]
CLUSTER = {"settings": {"broker.early.removal.enable": "true"}}
EACH = 5
UNCLEAN = 1


def made(cluster: Cluster, topic: str, replicas: list[int], settings: dict[str, str] | None = None) -> None:
    with asking.client(cluster, cluster.broker(cluster.observer.controller()[0])) as client:
        client.create_on(topic, {0: replicas})
        if settings is not None:
            client.alter_topic(topic, settings)
    eventually(f"{topic} is in sync", lambda: cluster.observer.in_sync(topic))


def written(cluster: Cluster, topic: str, kind: str, first: int = 0) -> list[bytes]:
    """Records that are acknowledged with acks=all, by all that are in sync."""
    sent = [b"%s %d" % (kind.encode(), number) for number in range(first, first + EACH)]
    for value in sent:

        def acknowledged(value: bytes = value) -> bool:
            with asking.client(cluster, cluster.leader(topic)) as client:
                return asking.produced(client.produce(topic, batch(value)))[0] == "NONE"

        eventually(f"{value!r} is written", acknowledged)
    return sent


def stored(cluster: Cluster, topic: str) -> list[bytes | None]:
    """All that consumers can read."""
    with asking.client(cluster, cluster.leader(topic)) as client:
        end = eventually("it is led", lambda: asking.last_offset(client, topic))
        found: list[bytes | None] = []
        while len(found) < (end or 0):
            found += values(client.fetch(topic, len(found)))
    return found


def says(member: Member, *texts: str) -> None:
    eventually(
        f"{member.name} says {texts[0]!r}",
        lambda: any(all(text in line for text in texts) for line in member.server.output().splitlines()),
    )


def dies_and_loses(member: Member, topic: str) -> None:
    """Its process, and the folder of its replica. Its checkpoint knows that there was one."""
    checkpoint = member.data / "replication-offset-checkpoint"
    eventually("the checkpoint names it", lambda: checkpoint.exists() and f"{topic} 0 " in checkpoint.read_text())
    member.kill()
    shutil.rmtree(member.data / f"{topic}-0")


def test_all_die_and_the_leader_comes_back_without_its_log(cluster: Cluster) -> None:
    made(cluster, "all", [1, 2, 3])
    acknowledged = written(cluster, "all", "all")
    first, *others = cluster.brokers
    dies_and_loses(first, "all")
    for other in others:
        other.kill()
    first.start(wait=False)
    says(first, "had a log here that is gone", "all-0")
    for other in others:
        other.start(wait=False)
    for member in cluster.brokers:
        member.ready()
    cluster.all_in_sync("all")
    assert stored(cluster, "all") == acknowledged
    assert cluster.observer.state("all").leader != first.id
    logs_equal(cluster.directories, "all")


@pytest.mark.judge
@pytest.mark.parametrize("unclean", ["false", "true"])
def test_the_last_in_sync_comes_back_without_its_log(cluster: Cluster, unclean: str) -> None:
    """Records that only it had are lost. The others keep what they have, and lead when somebody allows it."""
    topic = f"last-{unclean}"
    made(cluster, topic, [1, 2, 3], {"min.insync.replicas": "1", "unclean.leader.election.enable": unclean})
    first, *others = cluster.brokers
    acknowledged = written(cluster, topic, "all")
    for other in others:
        other.kill()
    eventually("the last one is alone", lambda: cluster.observer.state(topic).isr == {first.id})
    written(cluster, topic, "last", EACH)
    dies_and_loses(first, topic)
    for member in cluster.brokers:
        member.start(wait=False)
    for member in cluster.brokers:
        member.ready()
    if unclean == "false":
        says(first, f"{topic}-0 has no leader", f"has records up to offset {EACH}")
        assert cluster.observer.state(topic).leader == -1
        wanted = [TopicPartitions(topic, [0])]
        with asking.client(cluster, cluster.broker(cluster.observer.controller()[0])) as client:
            client.call(ELECT_LEADERS, ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=wanted))
    cluster.all_in_sync(topic)
    assert cluster.observer.state(topic).leader != first.id
    assert stored(cluster, topic) == acknowledged
    logs_equal(cluster.directories, topic)


def moves(cluster: Cluster, topic: str, to: list[int]) -> None:
    rows = [ReassignableTopic(topic, [ReassignablePartition(0, to)])]
    with asking.client(cluster, cluster.broker(cluster.observer.controller()[0])) as client:
        moved = client.call(ALTER_PARTITION_REASSIGNMENTS, AlterPartitionReassignmentsRequest(topics=rows))
        assert moved.error_code == 0
    eventually(f"{topic} is on {to}", lambda: cluster.observer.state(topic).isr == set(to))


def test_old_replicas_come_back(cluster: Cluster) -> None:
    """A broker is away while replicas of it move to others. One topic stays, two are deleted, and made anew: one while
    it is away, so that it is to follow; one when it is back, so that it leads.
    """
    away = next(member for member in cluster.brokers if member.id != cluster.observer.controller()[0])
    near, far = [member.id for member in cluster.brokers if member is not away]
    topics = ["moved", "follows", "leads"]
    for topic in topics:
        made(cluster, topic, [near, away.id], {"min.insync.replicas": "1"})
        written(cluster, topic, "old")
    away.kill()
    for topic in topics:
        moves(cluster, topic, [near, far])
    for topic in topics[1:]:
        with asking.client(cluster, cluster.broker(cluster.observer.controller()[0])) as client:
            client.delete_topic(topic)
        eventually(f"{topic} is deleted", lambda topic=topic: topic not in cluster.observer.topics())  # type: ignore[misc]
    with asking.client(cluster, cluster.broker(cluster.observer.controller()[0])) as client:
        client.create_on("follows", {0: [near, away.id]})
        client.alter_topic("follows", {"min.insync.replicas": "1"})
    eventually("it is led", lambda: cluster.observer.state("follows").leader == near)
    new = {"follows": written(cluster, "follows", "new")}
    away.start()
    eventually("the replica that moved is gone", lambda: not (away.data / "moved-0").exists())
    says(away, "1 replica moved to other brokers while this one was away", "moved-0")
    says(away, "follows-0: the log that was here (offsets 0 to 5)", "`ottla log take-back")
    made(cluster, "leads", [away.id, near], {"min.insync.replicas": "1"})
    says(away, "leads-0: the log that was here (offsets 0 to 5)", "`ottla log take-back")
    new["leads"] = written(cluster, "leads", "new")
    cluster.all_in_sync(*new)
    asking.elect_first_of(cluster, ["follows"], [away.id, near])
    for topic, records in new.items():
        assert cluster.leader(topic) is away
        assert stored(cluster, topic) == records
    logs_equal(cluster.directories, *new, replicas=2)


@pytest.mark.judge
def test_a_broker_is_started_with_a_tree_that_is_not_its_clusters(cluster: Cluster) -> None:
    made(cluster, "home", [1, 2, 3])
    acknowledged = written(cluster, "home", "home")
    member = cluster.broker(2)
    member.stop()
    right = member.zookeeper
    member.zookeeper = f"{right}/mistyped"
    try:
        member.start(wait=False)
        says(member, "there is no cluster at", "/mistyped")
        eventually("it has ended", lambda: not member.running)
    finally:
        member.zookeeper = right
    member.start()
    cluster.all_in_sync("home")
    asking.elect_first_of(cluster, ["home"], [2, 1, 3])
    assert stored(cluster, "home") == acknowledged
