"""A leader that its peers do not hear, while ZooKeeper hears it; and a follower that does not hear its leader.

A leader asks the controller to change the in-sync replicas. Where it is cut from the controller too, they stay as they
are, and its writes are not acknowledged for as long as the cut lasts.
"""

import time

import pytest

from tests.cluster import asking
from tests.cluster.network import need_namespaces
from tests.cluster.observer import Chronicle
from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import LAG_MS, Cluster
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support.waiting import eventually, still

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper, pytest.mark.soak]
LAG_S = LAG_MS / 1000
SPARED = ("zookeeper-1", "clients", "observer")


def test_the_leader_is_the_controller_and_alone(cluster: Cluster) -> None:
    """It takes the others out of the in-sync replicas, and from then on refuses what wants two."""
    need_namespaces()
    controller, _ = cluster.observer.controller()
    leader = cluster.broker(controller)
    with Round(cluster, settings.seed(), copies=False, led_by=leader.id) as load:
        topic = load.another_topic("asked")
        with (
            cluster.observer.follow(*load.topics, topic) as chronicle,
            cluster.network.isolate(leader.name, but_for=SPARED),
            asking.Refusals(cluster, leader, topic) as refusals,
        ):
            cut = time.monotonic()
            eventually(
                "the others leave",
                lambda: all(cluster.observer.state(one).isr == {leader.id} for one in (topic, load.plain)),
                facts=load.facts,
            )
            shrunk_s = time.monotonic() - cut
            end = still("the high watermark", lambda: cluster.observer.high_watermark(topic))
            since = time.monotonic()
            eventually("writes are refused", lambda: sum(at > since for at, _ in refusals.answers) >= 20)
            late = {error for at, error in refusals.answers if at > since}
            assert cluster.observer.high_watermark(topic) == end
            known = load.acknowledged
        heals(cluster, load, topic)
        assert load.acknowledged > known
    print(f"figures: the others left after {shrunk_s:.1f} s, then {len(refusals.answers)} answers, {late}")
    assert late == {"NOT_ENOUGH_REPLICAS"}
    judge(cluster, load, chronicle, topic)
    assert chronicle.shrank(cut)[topic, 0] == {one.id for one in cluster.brokers} - {leader.id}


def test_the_leader_is_not_the_controller_and_alone(cluster: Cluster) -> None:
    """Nobody changes the in-sync replicas, and nothing is acknowledged before the cut's end."""
    need_namespaces()
    controller, _ = cluster.observer.controller()
    leader = next(member for member in cluster.brokers if member.id != controller)
    with Round(cluster, settings.seed(), copies=False, led_by=leader.id) as load:
        topic = load.another_topic("asked")
        with (
            cluster.observer.follow(*load.topics, topic) as chronicle,
            cluster.network.isolate(leader.name, but_for=SPARED),
        ):
            cut = time.monotonic()
            known, end = still(
                "what is acknowledged",
                lambda: (load.acknowledged, cluster.observer.high_watermark(load.plain)),
            )
            with asking.Refusals(cluster, leader, topic) as refusals:
                eventually("the cut lasts longer than followers may lag", lambda: time.monotonic() - cut > 2 * LAG_S)
                assert cluster.observer.high_watermark(load.plain) == end
                assert load.acknowledged == known
                assert leader.id in cluster.observer.registered()
                during = {error for _, error in refusals.answers}
                assert cluster.observer.high_watermark(topic) == 0
        heals(cluster, load, topic)
        assert load.acknowledged > known
    print(f"figures: {len(refusals.answers)} answers while it was cut off: {during}")
    assert "NONE" not in during
    judge(cluster, load, chronicle, topic)


def test_a_follower_does_not_hear_its_leader(cluster: Cluster) -> None:
    """The leader hears it ask, and it gets nothing: it leaves the in-sync replicas, and comes back after the cut."""
    need_namespaces()
    controller, _ = cluster.observer.controller()
    leader = cluster.broker(controller)
    follower = next(member for member in cluster.brokers if member is not leader)
    with (
        Round(cluster, settings.seed(), copies=False, led_by=leader.id) as load,
        cluster.observer.follow(*load.topics) as chronicle,
    ):
        with cluster.network.cut_one_way(leader.name, follower.name):
            cut = time.monotonic()
            eventually(
                "the follower leaves",
                lambda: follower.id not in cluster.observer.state(load.plain).isr,
                facts=load.facts,
            )
            left_s = time.monotonic() - cut
            assert follower.id in cluster.observer.registered()
            load.writes()
        heals(cluster, load)
    print(f"figures: the follower left {left_s:.1f} s after the cut")
    # It is looked twice in the time that followers may lag.
    assert left_s <= 1.5 * LAG_S + 1
    judge(cluster, load, chronicle)


def heals(cluster: Cluster, load: Round, *more: str) -> None:
    healed = time.monotonic()
    cluster.all_in_sync(*load.topics, *more)
    load.writes()
    print(f"all are in sync and write {time.monotonic() - healed:.1f} s after the cut's end")
    load.finish()


def judge(cluster: Cluster, load: Round, chronicle: Chronicle, *more: str) -> None:
    assert chronicle.moved() == 0
    chronicle.check()
    load.judge(at_least=300)
    logs_equal(cluster.directories, *load.topics, *more)
