"""Brokers whose way to ZooKeeper is lost, slow or forgetful, one alone or all of them."""

import re
import time
from collections.abc import Callable

import pytest

from tests.cluster import asking
from tests.cluster.kinds import OLD_PROTOCOL, in_both_protocols, in_the_newer_protocol, rounds
from tests.cluster.observer import PartitionState
from tests.cluster.outages import OUTAGE_S, RECOVERY_S, SHORT_OUTAGE_S, without
from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import OTTLA, Cluster, Member
from tests.coordination.proxy import LossyProxy
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
#: A follower that stands still is out before its session ends, and before anybody notices a connection that is silent.
LAG_S = 2.5
CLUSTER = {"proxied": True, "settings": {"replica.lag.time.max.ms": int(LAG_S * 1000)}}
DELAY_MS = 150


def not_the_controller(cluster: Cluster) -> Member:
    controller, _ = cluster.observer.controller()
    return next(member for member in cluster.brokers if member.id != controller)


@in_the_newer_protocol
def test_the_session_of_a_leader_ends_and_it_lives(cluster: Cluster) -> None:
    ends_its_session(cluster, leads=True)


@in_the_newer_protocol
@rounds(3)
def test_sessions_end_and_their_brokers_live(cluster: Cluster, times: int) -> None:
    for _ in range(times):
        for leads in (False, True):
            ends_its_session(cluster, leads=leads)


def ends_its_session(cluster: Cluster, *, leads: bool) -> None:
    """It registers anew, by another session and under another broker epoch."""
    member = not_the_controller(cluster)
    others = next(one for one in cluster.brokers if one is not member)
    with (
        Round(cluster, settings.seed(), copies=False, led_by=member.id if leads else others.id) as load,
        cluster.observer.follow(*load.topics) as chronicle,
    ):
        before = cluster.observer.registration(member.id)
        pid = member.server.pid
        for way in member.ways:
            way.refuse = True
            way.cut()
        cluster.leaves(member)
        for way in member.ways:
            way.refuse = False
        cluster.returns(member)
        after = cluster.observer.registration(member.id)
        assert after[0] != before[0]
        assert after[1] > before[1]
        assert member.server.pid == pid
        cluster.all_in_sync(*load.topics)
        load.writes()
        load.finish()
        assert cluster.observer.registration(member.id) == after
    print(f"figures: broker {member.id}, leader: {leads}, went from session and epoch {before} to {after}")
    assert member.id in {broker for gone in chronicle.shrank().values() for broker in gone}
    assert (chronicle.moved() > 0) == leads
    assert chronicle.unclean() == []
    chronicle.check()
    load.judge(at_least=300)
    logs_equal(cluster.directories, *load.topics)


@in_both_protocols
@rounds(3)
def test_a_leader_without_zookeeper_is_replaced(cluster: Cluster, times: int) -> None:
    """It hears its clients and its followers, and not that another one leads: none of what it is given after that is
    acknowledged, and it takes the new leader's log when it hears again.
    """
    for _ in range(times):
        is_replaced(cluster)


def is_replaced(cluster: Cluster) -> None:
    leader = not_the_controller(cluster)
    with Round(cluster, settings.seed(), copies=False, led_by=leader.id) as load:
        topic = load.another_topic("asked")
        with cluster.observer.follow(*load.topics, topic) as chronicle:
            # It takes itself for connected for a while. A new connection would prolong its session.
            for way in leader.ways:
                way.deaf = way.refuse = True
            with asking.Refusals(cluster, leader, topic, timeout_ms=int(LAG_S * 1000)) as refusals:
                state = cluster.led_by_another(topic, 0, than=leader.id)
                moved = time.monotonic()
                load.writes()
                eventually(
                    "the old leader was asked for longer than followers may lag",
                    lambda: time.monotonic() - moved > 2 * LAG_S,
                )
            # The old leader has written none of these states.
            seen = [at.state for at in chronicle.states[topic, 0] if at.state.leader_epoch >= state.leader_epoch]
            assert seen
            assert {each.leader for each in seen} == {state.leader}
            assert not [each for each in seen if leader.id in each.isr]
            for way in leader.ways:
                way.refuse = False
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


@in_the_newer_protocol
@pytest.mark.judge
def test_zookeeper_is_away(cluster: Cluster) -> None:
    without(cluster, cluster.zookeepers, SHORT_OUTAGE_S)


@in_the_newer_protocol
@pytest.mark.soak
def test_zookeeper_is_away_for_long(cluster: Cluster) -> None:
    assert without(cluster, cluster.zookeepers, OUTAGE_S) <= RECOVERY_S


@in_both_protocols
@rounds(3)
def test_zookeeper_is_slow(cluster: Cluster, times: int) -> None:
    """A replica leaves the in-sync replicas and comes back; each change is written once."""
    hurt(cluster, times, lambda way: setattr(way, "delay_ms", DELAY_MS), lambda way: setattr(way, "delay_ms", 0.0))


@in_both_protocols
@rounds(3)
def test_answers_of_zookeeper_are_lost(cluster: Cluster, times: int) -> None:
    """Again and again, of the controller and of all others: what was written is recognised."""
    ways = [way for member in cluster.brokers for way in member.ways]
    before = [way.times_lost for way in ways]

    def all_lost_some() -> bool:
        return all(way.times_lost > lost for way, lost in zip(ways, before, strict=True))

    hurt(cluster, times, lambda way: way.lose_after(iter(lambda: 8, 0)), lambda way: way.stop_losing(), all_lost_some)
    print(f"figures: answers lost {[way.times_lost - lost for way, lost in zip(ways, before, strict=True)]}")


def hurt(
    cluster: Cluster,
    times: int,
    begin: Callable[[LossyProxy], None],
    end: Callable[[LossyProxy], None],
    has_hurt: Callable[[], bool] = lambda: True,
) -> None:
    """A follower dies and comes back while all ways to ZooKeeper are hurt, and until they have been."""
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
            for _ in range(times):
                follower.kill()
                eventually(
                    "the follower leaves",
                    lambda: follower.id not in cluster.observer.state(load.plain).isr,
                    facts=load.facts,
                )
                load.writes(20)
                follower.start()
                cluster.all_in_sync(*load.topics)
            eventually("all ways are hurt", has_hurt)
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
    assert chronicle.written_twice() == []
    chronicle.check()
    load.judge(at_least=100)
    logs_equal(cluster.directories, *load.topics)


@in_both_protocols
@rounds(5)
def test_the_answer_to_a_change_of_those_in_sync_is_lost(cluster: Cluster, times: int) -> None:
    """The change was made. Whoever asked for it, the leader or the controller, finds that out, goes on with it, and
    does not write it again.
    """
    for _ in range(times):
        loses_the_answer(cluster)


def loses_the_answer(cluster: Cluster) -> None:
    controller, _ = cluster.observer.controller()
    # The leader is the controller too, so that its way to ZooKeeper is the one that counts in either protocol.
    leader = cluster.broker(controller)
    follower = not_the_controller(cluster)
    with (
        Round(cluster, settings.seed(), copies=False, led_by=leader.id) as load,
        cluster.observer.follow(*load.topics) as chronicle,
    ):

        def without_it() -> dict[int, PartitionState]:
            """The states of all partitions that are written to, once the follower is out of all of them."""
            states = {index: state for index, state in cluster.observer.states(load.plain).items() if state}
            return {} if any(follower.id in state.isr for state in states.values()) else states

        with follower.paused():
            for way in leader.ways:
                way.lost.clear()
                way.deaf = True
            made = eventually("the follower is out", without_it, facts=load.facts)
            eventually("an answer is lost", lambda: all(way.lost.is_set() for way in leader.ways))
            for way in leader.ways:
                way.cut()
            # Before the leader knows that it was made it waits for all three.
            load.writes(20)
        cluster.all_in_sync(*load.topics)
        load.writes()
        load.finish()
    print(f"figures: answers to {made} were lost")
    assert chronicle.moved() == 0
    assert chronicle.written_twice() == []
    chronicle.check()
    load.judge(at_least=100)
    logs_equal(cluster.directories, *load.topics)
    if leader.kind == OTTLA:
        recognised(leader, load.plain, made)


def recognised(leader: Member, topic: str, made: dict[int, PartitionState]) -> None:
    """The leader says of each change that it is made, once, and under the old protocol that it tried again before."""
    lines = leader.server.output().splitlines()
    for index, state in made.items():
        of_it = [line for line in lines if f" {topic}-{index}: " in line]
        assert len([line for line in of_it if re.search(rf"in sync are .* now, version {state.version}\b", line)]) == 1
        is_writer = leader.settings.get("inter.broker.protocol.version") == OLD_PROTOCOL
        assert any("nobody knows whether its ISR was written" in line for line in of_it) == is_writer
