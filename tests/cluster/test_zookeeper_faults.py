"""Brokers whose way to ZooKeeper is lost, slow or forgetful, one alone or all of them."""

import time
from collections.abc import Callable

import pytest

from tests.cluster import asking
from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import LAG_MS, Cluster, Member
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper, pytest.mark.soak]
CLUSTER = {"proxied": True}
DELAY_MS = 150
OUTAGE_S = 20.0
RECOVERY_S = 10.0


def not_the_controller(cluster: Cluster) -> Member:
    controller, _ = cluster.observer.controller()
    return next(member for member in cluster.brokers if member.id != controller)


def owner(cluster: Cluster, member: Member) -> tuple[int, int]:
    """The session that a broker is registered by, and its broker epoch."""
    stat = cluster.observer.tree.exists(f"/brokers/ids/{member.id}")
    return (0, -1) if stat is None else (stat.ephemeralOwner, stat.czxid)


def test_a_session_ends_and_its_broker_lives(cluster: Cluster) -> None:
    """A follower and a leader, one after the other: each registers anew, under another broker epoch."""
    for leads in (False, True):
        member = not_the_controller(cluster)
        others = next(one for one in cluster.brokers if one is not member)
        with (
            Round(cluster, settings.seed(), copies=False, led_by=member.id if leads else others.id) as load,
            cluster.observer.follow(*load.topics) as chronicle,
        ):
            before = owner(cluster, member)
            pid = member.server.pid
            for way in member.ways:
                way.deaf = True
            cluster.leaves(member)
            for way in member.ways:
                way.cut()
            cluster.returns(member)
            after = owner(cluster, member)
            assert after[0] != before[0]
            assert after[1] > before[1]
            assert member.server.pid == pid
            cluster.all_in_sync(*load.topics)
            load.writes()
            load.finish()
            assert owner(cluster, member) == after
        print(f"figures: broker {member.id}, leader: {leads}, went from session and epoch {before} to {after}")
        assert member.id in {broker for gone in chronicle.shrank().values() for broker in gone}
        assert (chronicle.moved() > 0) == leads
        assert chronicle.unclean() == []
        chronicle.check()
        load.judge(at_least=300)
        logs_equal(cluster.directories, *load.topics)


def test_a_leader_without_zookeeper_is_replaced(cluster: Cluster) -> None:
    """It hears its clients and its followers, and not that another one leads: none of what it is given after that is
    acknowledged, and it takes the new leader's log when it hears again.
    """
    leader = not_the_controller(cluster)
    with Round(cluster, settings.seed(), copies=False, led_by=leader.id) as load:
        topic = load.another_topic("asked")
        with cluster.observer.follow(*load.topics, topic) as chronicle:
            for way in leader.ways:
                way.deaf = True
            with asking.Refusals(cluster, leader, topic) as refusals:
                state = cluster.led_by_another(topic, 0, than=leader.id)
                moved = time.monotonic()
                version = cluster.observer.state(topic).version
                load.writes()
                eventually(
                    "the old leader was asked for longer than followers may lag",
                    lambda: time.monotonic() - moved > 2 * LAG_MS / 1000,
                )
                assert cluster.observer.state(topic).isr <= {one.id for one in cluster.brokers} - {leader.id}
                assert cluster.observer.state(topic).leader == state.leader
                assert cluster.observer.state(topic).version == version
            for way in leader.ways:
                way.cut()
            cluster.returns(leader)
            cluster.all_in_sync(*load.topics, topic)
            load.writes()
            load.finish()
    # What began before the move and was answered just after it may have been acknowledged before it.
    late = [answer for at, answer in refusals.answers if at > moved + 1]
    print(f"figures: broker {state.leader} led; the old leader answered {len(late)} writes with {sorted(set(late))}")
    assert "NONE" in [answer for _, answer in refusals.answers]
    assert late
    assert "NONE" not in late
    assert chronicle.unclean() == []
    chronicle.check()
    load.judge(at_least=300)
    logs_equal(cluster.directories, *load.topics, topic)


def test_zookeeper_is_away(cluster: Cluster) -> None:
    """What the brokers decided before holds: writes and reads go on. Nothing new is decided until it is back."""
    (zookeeper,) = cluster.zookeepers
    pids = [member.server.pid for member in cluster.brokers]
    with Round(cluster, settings.seed(), copies=False) as load:
        zookeeper.kill()
        until = time.monotonic() + OUTAGE_S
        before = load.acknowledged
        (late,) = load.admin.create_topics([load.new(load.prefix + "late")], request_timeout=OUTAGE_S / 2).values()
        while time.monotonic() < until:
            writes_without_looking(load)
        during = load.acknowledged - before
        assert late.exception() is not None
        zookeeper.start()
        back = time.monotonic()
        (made,) = load.admin.create_topics([load.new(load.prefix + "after")]).values()
        made.result(2 * RECOVERY_S)
        took_s = time.monotonic() - back
        for member in cluster.brokers:
            cluster.returns(member)
        cluster.all_in_sync(*load.topics, load.prefix + "after")
        load.writes()
        load.finish()
    print(
        f"figures: {during} records acknowledged without ZooKeeper, a topic was made {took_s:.1f} s after it was back"
    )
    assert during > 100
    assert [member.server.pid for member in cluster.brokers] == pids
    load.judge(at_least=300)
    logs_equal(cluster.directories, *load.topics)
    assert took_s <= RECOVERY_S


def writes_without_looking(load: Round) -> None:
    """Each writer is told of more; what the tree says cannot be asked."""
    wanted = [writer.acknowledged + 20 for writer in load.writers]
    eventually(
        "writes go on without ZooKeeper",
        lambda: all(writer.acknowledged >= least for writer, least in zip(load.writers, wanted, strict=True)),
        facts=lambda: [writer.acknowledged for writer in load.writers],
    )


def test_zookeeper_is_slow(cluster: Cluster) -> None:
    """A replica leaves the in-sync replicas and comes back; each change is written once."""
    hurt(cluster, lambda way: setattr(way, "delay_ms", DELAY_MS), lambda way: setattr(way, "delay_ms", 0.0))


def test_answers_of_zookeeper_are_lost(cluster: Cluster) -> None:
    """Again and again, of the controller and of all others: what was written is recognised."""
    before = [way.times_lost for member in cluster.brokers for way in member.ways]
    hurt(cluster, lambda way: way.lose_after(iter(lambda: 12, 0)), lambda way: way.stop_losing())
    after = [way.times_lost for member in cluster.brokers for way in member.ways]
    print(f"figures: answers lost {[now - then for now, then in zip(after, before, strict=True)]}")
    assert all(now > then for now, then in zip(after, before, strict=True))


def hurt(cluster: Cluster, begin: Callable[..., None], end: Callable[..., None]) -> None:
    controller, _ = cluster.observer.controller()
    follower = not_the_controller(cluster)
    ways = [way for member in cluster.brokers for way in member.ways]
    with (
        Round(cluster, settings.seed(), copies=False, led_by=controller) as load,
        cluster.observer.follow(*load.topics) as chronicle,
    ):
        for way in ways:
            begin(way)
        try:
            for _ in range(3):
                follower.kill()
                eventually(
                    "the follower leaves",
                    lambda: follower.id not in cluster.observer.state(load.plain).isr,
                    facts=load.facts,
                )
                load.writes(20)
                follower.start()
                cluster.all_in_sync(*load.topics)
        finally:
            for way in ways:
                end(way)
        load.writes()
        load.finish()
    changes = {
        partition: [tuple(sorted(at.state.isr)) for at in states] for partition, states in chronicle.states.items()
    }
    print(f"figures: in-sync replicas of {load.plain}-0 over time: {changes[load.plain, 0]}")
    for partition, isrs in changes.items():
        assert len([one for one in isrs if follower.id not in one]) >= 1, partition
    chronicle.check()
    load.judge(at_least=100)
    logs_equal(cluster.directories, *load.topics)
