"""A leader, the controller, and both are killed: clients go on long before the sessions of the dead would end, which
last longer here than any test waits.
"""

import time
from collections.abc import Callable

import pytest
from confluent_kafka import admin

from tests.cluster import asking
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster, Member
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support.waiting import PATIENCE_S, eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
CLUSTER = {"settings": {"zookeeper.session.timeout.ms": int(2 * PATIENCE_S * 1000)}}
MANY = 100
#: The brokers' share of what a client waits.
GAP_S = 1.0
#: A client's own share. librdkafka asks who leads when it has lost a connection, which is too early, and from then on
#: once a second; partitions of a broker that metadata name no more may have no leader until it asks again.
CLIENT_S = {asking.Pulse: 2.0, asking.JavaPulse: 0.0}


def the_controller(cluster: Cluster) -> Member:
    return cluster.broker(cluster.observer.controller()[0])


def another(cluster: Cluster) -> Member:
    """A broker that leads a third of the partitions, and is not the controller."""
    controller = the_controller(cluster)
    return next(member for member in cluster.brokers if member is not controller)


def a_leader(cluster: Cluster) -> list[Member]:
    return [another(cluster)]


def controller(cluster: Cluster) -> list[Member]:
    return [the_controller(cluster)]


def both(cluster: Cluster) -> list[Member]:
    return [the_controller(cluster), another(cluster)]


@pytest.mark.judge
@pytest.mark.parametrize("choose", [a_leader, controller, both])
def test_the_end_of_sessions_is_not_waited_for(cluster: Cluster, choose: Callable[[Cluster], list[Member]]) -> None:
    killed_again_and_again(cluster, choose, 1)


@pytest.mark.soak
@pytest.mark.parametrize("client", CLIENT_S)
@pytest.mark.parametrize("choose", [a_leader, controller, both])
def test_clients_go_on_soon(
    cluster: Cluster, choose: Callable[[Cluster], list[Member]], client: type[asking.Pulse]
) -> None:
    assert max(killed_again_and_again(cluster, choose, 10, client)) <= GAP_S + CLIENT_S[client]


def killed_again_and_again(
    cluster: Cluster,
    choose: Callable[[Cluster], list[Member]],
    times: int,
    client: type[asking.Pulse] = asking.Pulse,
) -> list[float]:
    """The longest time without an acknowledgement, in seconds, of each time."""
    gaps: list[float] = []
    with Round(cluster, settings.seed(), copies=False) as load:
        many = f"{load.prefix}many"
        row = admin.NewTopic(many, MANY, 3, config={"min.insync.replicas": "1"})
        load.admin.create_topics([row])[many].result(PATIENCE_S)
        with cluster.observer.follow(*load.topics, many) as chronicle:
            for _ in range(times):
                cluster.all_in_sync(*load.topics, many)
                gaps.append(killed_once(cluster, choose(cluster), many, client))
        load.flows()
        load.finish()
    print(f"figures: {client.__name__}, {choose.__name__}: longest gaps {', '.join(f'{gap:.2f}' for gap in gaps)} s")
    assert chronicle.moved() >= times
    assert chronicle.unclean() == []
    chronicle.check()
    load.judge(at_least=100)
    return gaps


def killed_once(cluster: Cluster, victims: list[Member], topic: str, client: type[asking.Pulse]) -> float:
    """The longest time without an acknowledgement, of all partitions. The producer is a new one: an old one may know no
    other brokers than the victims, since it forgets those that were away once, and looks for others after seconds.
    """
    with client(cluster, topic, MANY, period_s=0.05) as pulse:
        eventually("the pulse beats", lambda: all(len(beats) > 20 for beats in pulse.acknowledged))
        began = time.monotonic()
        for victim in victims:
            victim.kill()
        before = [len(acknowledged) for acknowledged in pulse.acknowledged]
        eventually("the pulse beats", lambda: beaten(pulse, before))
        gap, _ = pulse.longest_gap(began, time.monotonic())
    for victim in victims:
        victim.start()
    assert pulse.refused == []
    return gap


def beaten(pulse: asking.Pulse, before: list[int]) -> bool:
    return all(len(now) > then + 10 for now, then in zip(pulse.acknowledged, before, strict=True))
