"""A leader is stopped by SIGTERM: others lead before it goes (controlled shutdown), and clients hardly notice."""

import time

import pytest

from tests.cluster import asking
from tests.cluster.observer import Chronicle
from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster
from tests.faults.broker import settings
from tests.faults.broker.load import PARTITIONS
from tests.peers.skips import module
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
GAP_S = 1.0


def test_the_leader_is_stopped(cluster: Cluster) -> None:
    stopped_again_and_again(cluster, 2)


@pytest.mark.soak
def test_the_leader_is_stopped_five_times(cluster: Cluster) -> None:
    assert max(stopped_again_and_again(cluster, 5)) <= GAP_S


def stopped_again_and_again(cluster: Cluster, times: int) -> list[float]:
    """The longest time without an acknowledgement in each stop, in seconds. The producer has usual settings."""
    gaps = []
    with Round(cluster, settings.seed(), copies=False) as load:
        pulsed = load.another_topic("pulsed")
        with (
            asking.Pulse(cluster, pulsed, PARTITIONS) as pulse,
            cluster.observer.follow(*load.topics, pulsed) as chronicle,
        ):
            eventually("the pulse beats", lambda: all(len(beats) > 50 for beats in pulse.acknowledged))
            for _ in range(times):
                gaps.append(stopped_once(cluster, load, pulse, chronicle))
            load.flows()
        load.finish()
    print(f"figures: longest gaps between acknowledgements {', '.join(f'{gap:.2f}' for gap in gaps)} s")
    assert pulse.refused == []
    assert chronicle.moved() >= times
    assert chronicle.unclean() == []
    chronicle.check()
    load.judge(at_least=100 * times)
    logs_equal(cluster.directories, *load.topics, pulsed)
    return gaps


def stopped_once(cluster: Cluster, load: Round, pulse: asking.Pulse, chronicle: Chronicle) -> float:
    """The longest gap around a stop of the leader of the pulsed topic's first partition, and its start."""
    topic = pulse.topic
    before = cluster.observer.state(topic)
    leader = cluster.broker(before.leader)
    gone: list[float] = []
    cluster.observer.tree.DataWatch(
        f"/brokers/ids/{leader.id}", lambda data, _: data is not None or gone.append(time.monotonic())
    )
    began = time.monotonic()
    leader.stop()
    stopped = time.monotonic()
    eventually("its end was seen", lambda: bool(gone))
    after = cluster.observer.state(topic)
    assert after.leader != leader.id
    moved = next(
        at.time for at in chronicle.states[topic, 0] if at.time >= began and at.state.leader not in (-1, leader.id)
    )
    # It asked for another leader: that one did not wait for the end of the session.
    assert moved < gone[0]
    load.writes()
    started = time.monotonic()
    leader.start()
    cluster.all_in_sync(*load.topics, topic)
    load.writes()
    beats = [len(acknowledged) for acknowledged in pulse.acknowledged]
    eventually(
        "the pulse beats",
        lambda: all(len(now) > before + 20 for now, before in zip(pulse.acknowledged, beats, strict=True)),
    )
    gap, since = pulse.longest_gap(began, time.monotonic())
    print(
        f"broker {leader.id} stopped in {stopped - began:.2f} s, broker {after.leader} led {moved - began:.2f} s after "
        f"the signal, longest gap {gap:.2f} s from {since - began:.2f} s on, started again at {started - began:.2f} s"
    )
    return gap
