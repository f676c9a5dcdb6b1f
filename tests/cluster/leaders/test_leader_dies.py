"""A broker that leads is killed: others lead within two seconds of the end of its session, which itself takes the
session's timeout and up to a tick. Without a fault nobody notices anything.
"""

import time

import pytest

from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper, pytest.mark.soak]
KILLS = 5
NEW_LEADER_S = 2.0
LONG_S = 60.0


def test_without_a_fault(cluster: Cluster) -> None:
    """For a minute: no client is told of an error, and no leader and no in-sync replica changes."""
    with (
        Round(cluster, settings.seed(), writers=4, per_round=20) as load,
        cluster.observer.follow(*load.topics) as chronicle,
    ):
        began = time.monotonic()
        eventually("a minute is over", lambda: time.monotonic() - began > LONG_S, 2 * LONG_S)
        load.flows()
        load.finish()
    print(f"figures: {load.acknowledged / load.seconds:.0f} records/s")
    assert load.copier is not None
    assert load.copier.thrown_out == []
    assert load.copier.stuck == 0
    assert chronicle.moved() == 0
    assert chronicle.shrank() == {}
    chronicle.check()
    load.judge(at_least=30_000)
    logs_equal(cluster.directories, *load.topics)


def test_the_leader_is_killed_five_times(cluster: Cluster) -> None:
    """It comes back when the others have led for a while."""
    took_s = []
    with Round(cluster, settings.seed()) as load, cluster.observer.follow(*load.topics) as chronicle:
        for kill in range(KILLS):
            leader = cluster.leader(load.plain, kill % 2)
            led = [
                (topic, index)
                for topic in load.topics
                for index, state in cluster.observer.states(topic).items()
                if state is not None and state.leader == leader.id
            ]
            leader.kill()
            gone = cluster.leaves(leader)
            for topic, index in led:
                after = cluster.led_by_another(topic, index, than=leader.id)
                assert leader.id not in after.isr
            took_s.append(time.monotonic() - gone)
            load.writes()
            assert not leader.running
            leader.start()
            cluster.all_in_sync(*load.topics)
            load.flows()
        load.finish()
    print(f"figures: others led {', '.join(f'{seconds:.2f}' for seconds in took_s)} s after its registration was gone")
    assert chronicle.moved() >= KILLS
    assert chronicle.unclean() == []
    chronicle.check()
    load.judge(at_least=400 * KILLS)
    logs_equal(cluster.directories, *load.topics)
    assert max(took_s) <= NEW_LEADER_S
