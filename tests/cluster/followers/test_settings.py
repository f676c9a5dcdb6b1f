"""Settings of a cluster that no other test has for its subject."""

import time

import pytest

from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreateTopicsRequest
from tests.cluster.asking import client, produced
from tests.cluster.stand import Cluster, Member
from tests.support.client import batch
from tests.support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]
LAG_MS = 1500
#: A machine that is busy for seconds is not taken for a follower that has no session any more.
SESSION_MS = 8000
CLUSTER = {
    "settings": {
        "broker.early.removal.enable": "false",
        "default.replication.factor": 2,
        "replica.lag.time.max.ms": LAG_MS,
        "zookeeper.session.timeout.ms": SESSION_MS,
    }
}


def create(cluster: Cluster, topic: str, replicas: int) -> None:
    controller, _ = cluster.observer.controller()
    row = CreatableTopic(name=topic, num_partitions=3, replication_factor=replicas)
    with client(cluster, cluster.broker(controller)) as connection:
        answer = connection.call(CREATE_TOPICS, CreateTopicsRequest(topics=[row], timeout_ms=60_000))
    assert [one.error_code for one in answer.topics] == [0]
    cluster.all_in_sync(topic)


def neither_controller_nor_leader(cluster: Cluster, topic: str) -> Member:
    """Of the topic's first partition."""
    others = {cluster.observer.controller()[0], cluster.observer.state(topic).leader}
    return next(member for member in cluster.brokers if member.id not in others)


def test_default_replication_factor(cluster: Cluster) -> None:
    """Topics get so many replicas for which nobody says a number."""
    create(cluster, "default", -1)
    assert {len(replicas) for replicas in cluster.observer.assignment("default").values()} == {2}


def test_replica_lag_time_max_ms(cluster: Cluster) -> None:
    """A follower that has not had all records for that time leaves the ISR, by its leader's word: its session lives
    on. The default is longer than a session.
    """
    create(cluster, "lag", 3)
    follower = neither_controller_nor_leader(cluster, "lag")
    begin = time.monotonic()
    with follower.paused():
        with client(cluster, cluster.leader("lag")) as connection:
            assert produced(connection.produce("lag", batch(b"x"), acks=1)) == ("NONE", 0)
        left = eventually(
            "it leaves", lambda: follower.id not in cluster.observer.state("lag").isr and time.monotonic()
        )
        assert follower.id in cluster.observer.registered()
    # The last Fetch came up to half a second before, which a leader keeps one for.
    assert left - begin >= LAG_MS / 1000 - 0.6
    cluster.all_in_sync("lag")


def test_broker_early_removal_enable(cluster: Cluster) -> None:
    """Switched off, a killed broker is replaced when its session has ended: a third of the session after the last sign
    of life at the earliest, which a broker gives each third.
    """
    create(cluster, "early", 3)
    victim = neither_controller_nor_leader(cluster, "early")
    begin = time.monotonic()
    victim.kill()
    gone = cluster.leaves(victim)
    assert gone - begin >= SESSION_MS / 1000 / 2
    victim.start()
    cluster.all_in_sync("early")
