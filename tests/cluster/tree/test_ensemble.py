"""Brokers with an ensemble of three ZooKeepers, of which one dies, or two. A session outlives the server that it was
with: no leader moves, nobody is elected, and only who has lost its server looks again, once.
"""

import re
from collections import Counter
from collections.abc import Collection

import pytest

from tests.cluster.outages import OUTAGE_S, RECOVERY_S, SHORT_OUTAGE_S, without
from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster, Member, ZooKeeper
from tests.faults.broker import settings
from tests.peers.processes import ask
from tests.peers.skips import module
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
CLUSTER = {"zookeepers": 3, "proxied": True}


@pytest.mark.judge
def test_the_server_of_the_controller_dies(cluster: Cluster) -> None:
    """The other brokers are with other servers, and notice nothing."""
    controller = cluster.broker(cluster.observer.controller()[0])
    server = next(one for one in cluster.zookeepers if one is not first(cluster))
    for member in cluster.brokers:
        goes_to(cluster, member, {server} if member is controller else {*cluster.zookeepers} - {server})
    noticed = dies_and_returns(cluster, server)
    if controller.kind == "ottla":
        assert noticed.pop(controller.name) == {"suspended": 1, "connected": 1}
        assert not any(noticed.values())


@pytest.mark.judge
def test_the_first_server_dies(cluster: Cluster) -> None:
    """The others end all sessions' connections while they elect another first one."""
    noticed = dies_and_returns(cluster, first(cluster))
    print(f"figures: changes of sessions {noticed}")


@pytest.mark.judge
def test_two_of_three_are_away(cluster: Cluster) -> None:
    without(cluster, two(cluster), SHORT_OUTAGE_S)


@pytest.mark.soak
def test_two_of_three_are_away_for_long(cluster: Cluster) -> None:
    assert without(cluster, two(cluster), OUTAGE_S) <= RECOVERY_S


def dies_and_returns(cluster: Cluster, server: ZooKeeper) -> dict[str, Counter[str]]:
    """Returns how often the sessions of brokers were without a connection, and were connected again."""
    controller = cluster.observer.controller()
    registrations = [cluster.observer.registration(member.id) for member in cluster.brokers]
    before = {member.name: changes(member) for member in cluster.brokers}
    with (
        Round(cluster, settings.seed(), copies=False) as load,
        cluster.observer.follow(*load.topics) as chronicle,
    ):
        server.kill()
        for member in cluster.brokers:
            eventually(
                f"{member.name} is with another server",
                lambda member=member: server_of(cluster, member) not in (None, server),  # type: ignore[misc]
            )
        load.writes()
        later = load.another_topic("later")
        server.start()
        first(cluster)
        load.writes()
        load.finish()
    assert chronicle.moved() == 0
    chronicle.check()
    assert cluster.observer.controller() == controller
    assert [cluster.observer.registration(member.id) for member in cluster.brokers] == registrations
    load.judge(at_least=300)
    logs_equal(cluster.directories, *load.topics, later)
    return {member.name: changes(member) - before[member.name] for member in cluster.brokers}


def changes(member: Member) -> Counter[str]:
    return Counter(re.findall(r"ZooKeeper session \S+ is (suspended|connected|expired)", member.server.output()))


def first(cluster: Cluster) -> ZooKeeper:
    """The server that leads the ensemble, once all serve."""

    def modes() -> list[str]:
        return [one.mode() for one in cluster.zookeepers]

    eventually("three ZooKeepers serve", lambda: sorted(modes()) == ["follower", "follower", "leader"], facts=modes)
    return next(one for one, mode in zip(cluster.zookeepers, modes(), strict=True) if mode == "leader")


def two(cluster: Cluster) -> list[ZooKeeper]:
    """The first one, and another."""
    leader = first(cluster)
    return [leader, next(one for one in cluster.zookeepers if one is not leader)]


def server_of(cluster: Cluster, member: Member) -> ZooKeeper | None:
    """The server that a broker's session is with; None while it is with none."""
    session, _ = cluster.observer.registration(member.id)
    for one in cluster.zookeepers:
        with one.node.inside():
            if f"sid=0x{session:x}," in ask(one.port, b"cons", host=one.node.address).decode():
                return one
    return None


def goes_to(cluster: Cluster, member: Member, servers: Collection[ZooKeeper]) -> None:
    """Has a broker move its session to one of these servers."""
    others = [way for one, way in zip(cluster.zookeepers, member.ways, strict=True) if one not in servers]
    for way in others:
        way.refuse = True
        way.cut()
    eventually(f"{member.name} is with another server", lambda: server_of(cluster, member) in servers)
    for way in others:
        way.refuse = False
