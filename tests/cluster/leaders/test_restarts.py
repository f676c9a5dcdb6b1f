"""All three brokers die while followers do not know yet what is committed: who leads next does not cut that off.

The first scenario of KIP-101. A follower that cut its log off at the high watermark that it knew would lose what was
acknowledged, if it then became the leader.
"""

import pytest

from tests.cluster.kinds import rounds
from tests.cluster.network import need_namespaces
from tests.cluster.replicas import high_watermarks, logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster
from tests.faults.broker import settings
from tests.faults.broker.load import PARTITIONS
from tests.peers.skips import module
from tests.support.waiting import still

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]


@rounds(3)
def test_followers_are_behind_the_high_watermark(cluster: Cluster, times: int) -> None:
    need_namespaces()
    for _ in range(times):
        controller, _ = cluster.observer.controller()
        leader = next(member for member in cluster.brokers if member.id != controller)
        followers = [member for member in cluster.brokers if member is not leader]
        with (
            Round(cluster, settings.seed(), copies=False, led_by=leader.id) as load,
            cluster.observer.follow(*load.topics) as chronicle,
        ):
            first, second = (cluster.network.cut_one_way(leader.name, follower.name) for follower in followers)
            with first, second:

                def marks(load: Round = load) -> list[int | None]:
                    return [cluster.observer.high_watermark(load.plain, index) for index in range(PARTITIONS)]

                committed = still("what is committed", marks)
                state = cluster.observer.state(load.plain)
                assert state.isr == {1, 2, 3}
                for member in (*followers, leader):
                    member.kill()
            known = [high_watermarks(follower.data, load.plain) for follower in followers]
            print(f"figures: committed are {committed}, followers know of {known}")
            assert any(one[index] < (committed[index] or 0) for one in known for index in one)
            for follower in followers:
                follower.start(wait=False)
            for follower in followers:
                follower.ready()
            for index in range(PARTITIONS):
                cluster.led_by_another(load.plain, index, than=leader.id)
            load.writes()
            leader.start()
            cluster.all_in_sync(*load.topics)
            load.writes()
            load.finish()
        assert chronicle.moved() >= PARTITIONS
        assert chronicle.unclean() == []
        chronicle.check()
        load.judge(at_least=300)
        logs_equal(cluster.directories, *load.topics)
