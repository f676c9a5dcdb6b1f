"""A leader that stood still for longer than its session takes itself for the leader when it goes on, while another one
leads: nothing that it is given then is acknowledged, and its log becomes the new leader's.
"""

import time

import pytest

from tests.cluster import asking
from tests.cluster.replicas import logs_equal, partitions, rows
from tests.cluster.rounds import Round
from tests.cluster.stand import SESSION_MS, Cluster
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support.client import batch, values
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
PAUSE_S = 1.5 * SESSION_MS / 1000
#: Requests in its sockets when it goes on.
WRITES = 20


def test_a_leader_goes_on_after_its_session(cluster: Cluster) -> None:
    stands_still(cluster)


@pytest.mark.soak
def test_leaders_go_on_after_their_sessions_five_times(cluster: Cluster) -> None:
    for _ in range(5):
        stands_still(cluster)


def stands_still(cluster: Cluster) -> None:
    controller, _ = cluster.observer.controller()
    leader = next(member for member in cluster.brokers if member.id != controller)
    with Round(cluster, settings.seed(), copies=False, led_by=leader.id) as load:
        topic = load.another_topic("asked")
        with (
            cluster.observer.follow(*load.topics, topic) as chronicle,
            asking.client(cluster, leader) as before,
            asking.client(cluster, leader) as during,
        ):
            assert asking.produced(before.produce(topic, batch(b"before")))[0] == "NONE"
            with leader.paused():
                until = time.monotonic() + PAUSE_S
                # It does not take them before it goes on.
                sent = [asking.sent(during, topic, b"late-%d" % number) for number in range(WRITES)]
                state = cluster.led_by_another(topic, 0, than=leader.id)
                with asking.client(cluster, cluster.broker(state.leader)) as new:
                    eventually(
                        "the new leader takes records",
                        lambda: asking.produced(new.produce(topic, batch(b"after")))[0] == "NONE",
                    )
                load.writes()
                eventually("the pause is over", lambda: time.monotonic() >= until)
            went_on = time.monotonic()
            errors = [asking.answered(during) for _ in sent]
            answered = time.monotonic()
            later = asking.after_all(lambda: before.produce(topic, batch(b"later")))
            print(
                f"figures: broker {leader.id} stood still for {went_on - until + PAUSE_S:.1f} s, broker {state.leader} "
                f"led with epoch {state.leader_epoch}; {WRITES} writes were answered {answered - went_on:.2f} s after "
                f"it went on: {sorted(set(errors))}, then {later}"
            )
            cluster.returns(leader)
            cluster.all_in_sync(*load.topics, topic)
            load.writes()
            load.finish()
            with asking.client(cluster, cluster.leader(topic)) as new:
                stored = [value for value in values(new.fetch(topic)) if value is not None]
    assert "NONE" not in errors
    assert later != "NONE"
    assert b"before" in stored
    assert b"after" in stored
    assert not [value for value in stored if value.startswith(b"late")]
    assert chronicle.moved() >= 3
    assert chronicle.unclean() == []
    chronicle.check()
    load.judge(at_least=300)
    logs_equal(cluster.directories, *load.topics, topic)
    (copies,) = [copies for index, copies in partitions(cluster.directories, topic).items() if index == 0]
    assert max(row.leader_epoch for row in rows(copies[leader.id - 1])) >= state.leader_epoch
    if leader.kind == "ottla":
        assert "now, where its leader's log goes on" in leader.server.output()
