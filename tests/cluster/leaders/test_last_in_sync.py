"""All brokers die, one after the other: the last one in sync has what was acknowledged, so it must lead first.

Others that return before it wait for it, with what they have; nobody writes until then.
"""

import pytest

from tests.cluster import asking
from tests.cluster.kinds import rounds
from tests.cluster.replicas import logs_equal, partitions, rows
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster, Member
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support.client import batch, values
from tests.support.waiting import eventually, still

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
EACH = 10
"""Records that are acknowledged by all, and then by the last one alone."""


@rounds(3)
def test_the_last_in_sync_returns_last(cluster: Cluster, times: int) -> None:
    for _ in range(times):
        dies_and_returns(cluster, first=False)


@rounds(3)
def test_the_last_in_sync_returns_first(cluster: Cluster, times: int) -> None:
    for _ in range(times):
        dies_and_returns(cluster, first=True)


def dies_and_returns(cluster: Cluster, *, first: bool) -> None:
    controller, _ = cluster.observer.controller()
    last = next(member for member in cluster.brokers if member.id != controller)
    others = [member for member in cluster.brokers if member is not last]
    with Round(cluster, settings.seed(), copies=False, led_by=last.id) as load:
        topic = load.another_topic("alone", [last.id, *(other.id for other in others)], {"min.insync.replicas": "1"})
        with cluster.observer.follow(*load.topics, topic) as chronicle:
            with asking.client(cluster, last) as client:
                for number in range(EACH):
                    assert asking.produced(client.produce(topic, batch(b"%d" % number))) == ("NONE", number)
                for other in others:
                    other.kill()
                eventually("the last one is alone", lambda: cluster.observer.state(topic).isr == {last.id})
                for number in range(EACH, 2 * EACH):
                    assert asking.produced(client.produce(topic, batch(b"%d" % number))) == ("NONE", number)
            last.kill()
            cluster.leaves(last)
            if first:
                last.start()
                led(cluster, topic, last)
                for other in others:
                    other.start(wait=False)
                for other in others:
                    other.ready()
            else:
                for other in others:
                    other.start(wait=False)
                for other in others:
                    other.ready()
                nobody_leads(cluster, topic, last, others)
                last.start()
                led(cluster, topic, last)
            cluster.all_in_sync(*load.topics, topic)
            load.writes()
            load.finish()
        with asking.client(cluster, last) as client:
            stored = values(client.fetch(topic))
    assert stored == [b"%d" % number for number in range(2 * EACH)]
    assert set(chronicle.leaders((topic, 0))) == {last.id}
    assert chronicle.shrank()[topic, 0] == {other.id for other in others}
    assert chronicle.unclean() == []
    chronicle.check()
    load.judge(at_least=200)
    logs_equal(cluster.directories, *load.topics, topic)


@rounds(3)
def test_all_in_sync_die_at_once(cluster: Cluster, times: int) -> None:
    for _ in range(times):
        die_at_once(cluster)


def die_at_once(cluster: Cluster) -> None:
    """Each of them has what was acknowledged, so the first that returns leads: what there is can be read. Writes want
    two, or that min.insync.replicas is lowered.
    """
    controller, _ = cluster.observer.controller()
    third = cluster.broker(controller)
    leader, follower = (member for member in cluster.brokers if member is not third)
    with Round(cluster, settings.seed(), copies=False) as load:
        topic = load.another_topic("two", [leader.id, follower.id])
        with asking.client(cluster, leader) as client:
            for number in range(EACH):
                assert asking.produced(client.produce(topic, batch(b"%d" % number))) == ("NONE", number)
        # The controller too, so that it does not see one of them die before the other.
        for member in (third, leader, follower):
            member.server.process.kill()
        for member in (third, leader, follower):
            member.kill()
            cluster.leaves(member)
        third.start()
        eventually("nobody leads", lambda: cluster.observer.state(topic).leader == -1)
        assert cluster.observer.state(topic).isr == {leader.id, follower.id}
        follower.start()
        eventually("the first that returned leads", lambda: cluster.observer.high_watermark(topic) == EACH)
        state = cluster.observer.state(topic)
        assert (state.leader, state.isr) == (follower.id, {follower.id})
        with asking.client(cluster, follower) as client:
            assert values(client.fetch(topic)) == [b"%d" % number for number in range(EACH)]
            assert asking.produced(client.produce(topic, batch(b"no")))[0] == "NOT_ENOUGH_REPLICAS"
            client.alter_topic(topic, {"min.insync.replicas": "1"})
            eventually(
                "one is enough now",
                lambda: asking.produced(client.produce(topic, batch(b"alone"))) == ("NONE", EACH),
            )
            assert not leader.running
            leader.start()
            cluster.all_in_sync(*load.topics, topic)
            client.alter_topic(topic, {"min.insync.replicas": "2"})
            assert asking.produced(client.produce(topic, batch(b"both"))) == ("NONE", EACH + 1)
        load.writes()
        load.finish()
    load.judge(at_least=200)
    logs_equal(cluster.directories, *load.topics)
    logs_equal(cluster.directories, topic, replicas=2)


def led(cluster: Cluster, topic: str, last: Member) -> None:
    eventually(
        "the last in sync leads again",
        lambda: cluster.observer.state(topic).leader == last.id and cluster.observer.high_watermark(topic) == 2 * EACH,
        facts=lambda: cluster.observer.states(topic),
    )


def nobody_leads(cluster: Cluster, topic: str, last: Member, others: list[Member]) -> None:
    """Neither in the tree nor by what others tell clients; they take nothing and cut off nothing."""
    controller, _ = cluster.observer.controller()
    assert controller in [other.id for other in others]
    for other in others:
        cluster.knows_all(other)
        assert (
            still(
                f"the leader that {other.name} knows",
                lambda other=other: cluster.observer.states_known_to(other.id, topic)[0].leader,  # type: ignore[misc]
            )
            == -1
        )
        with asking.client(cluster, other) as client:
            error, _ = asking.produced(client.produce(topic, batch(b"no")))
            assert error == "NOT_LEADER_OR_FOLLOWER"
    state = cluster.observer.state(topic)
    assert (state.leader, state.isr) == (-1, {last.id})
    for folder in partitions(cluster.directories, topic)[0]:
        kept = 2 * EACH if last.data in folder.parents else EACH
        assert [row.base_offset for row in rows(folder)] == [*range(kept)]
