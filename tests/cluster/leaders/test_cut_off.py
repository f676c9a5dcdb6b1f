"""A leader that its peers do not hear, while ZooKeeper hears it; and a follower that does not hear its leader.

A leader asks the controller to change the in-sync replicas. Where it is cut from the controller too, they stay as they
are, and its writes are not acknowledged for as long as the cut lasts. In the protocol before 2.7 it writes them into
ZooKeeper itself.
"""

import time

import pytest

from tests.cluster import asking
from tests.cluster.kinds import OLD_PROTOCOL, in_both_protocols, in_the_newer_protocol, rounds
from tests.cluster.network import need_namespaces
from tests.cluster.observer import Chronicle
from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster, Member
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support.waiting import eventually, still

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
LAG_S = 4.0
CLUSTER = {"settings": {"replica.lag.time.max.ms": int(LAG_S * 1000)}}
SPARED = ("zookeeper-1", "clients", "observer")


@in_both_protocols
@rounds(3)
def test_the_leader_is_the_controller_and_alone(cluster: Cluster, times: int) -> None:
    for _ in range(times):
        controller, _ = cluster.observer.controller()
        takes_the_others_out(cluster, cluster.broker(controller))


@in_both_protocols
@rounds(3)
def test_the_leader_is_not_the_controller_and_alone(cluster: Cluster, times: int) -> None:
    for _ in range(times):
        leader = not_the_controller(cluster)
        if leader.settings.get("inter.broker.protocol.version") == OLD_PROTOCOL:
            takes_the_others_out(cluster, leader)
        else:
            changes_nothing(cluster, leader)


@in_the_newer_protocol
@pytest.mark.judge
def test_a_follower_does_not_hear_its_leader(cluster: Cluster) -> None:
    """The leader hears it ask, and it gets nothing: it leaves the in-sync replicas, and comes back after the cut."""
    does_not_hear_its_leader(cluster)


@in_the_newer_protocol
@pytest.mark.soak
def test_followers_that_do_not_hear_their_leaders_leave_in_time(cluster: Cluster) -> None:
    for _ in range(3):
        # It is looked twice in the time that followers may lag.
        assert does_not_hear_its_leader(cluster) <= 1.5 * LAG_S + 1


def not_the_controller(cluster: Cluster) -> Member:
    controller, _ = cluster.observer.controller()
    return next(member for member in cluster.brokers if member.id != controller)


def takes_the_others_out(cluster: Cluster, leader: Member) -> None:
    """It is alone in the in-sync replicas then, and refuses what wants two."""
    need_namespaces()
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


def changes_nothing(cluster: Cluster, leader: Member) -> None:
    """Nobody changes the in-sync replicas, and nothing is acknowledged before the cut's end."""
    need_namespaces()
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
            with asking.Refusals(cluster, leader, topic, timeout_ms=1000) as refusals:
                eventually("the cut lasts longer than followers may lag", lambda: time.monotonic() - cut > 2 * LAG_S)
                assert cluster.observer.high_watermark(load.plain) == end
                assert load.acknowledged == known
                assert leader.id in cluster.observer.registered()
                during = {error for _, error in refusals.answers}
                assert during
                assert cluster.observer.high_watermark(topic) == 0
        heals(cluster, load, topic)
        assert load.acknowledged > known
    print(f"figures: {len(refusals.answers)} answers while it was cut off: {during}")
    assert "NONE" not in during
    judge(cluster, load, chronicle, topic)


def does_not_hear_its_leader(cluster: Cluster) -> float:
    """Returns the seconds from the cut until the follower was out."""
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
    judge(cluster, load, chronicle)
    return left_s


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
