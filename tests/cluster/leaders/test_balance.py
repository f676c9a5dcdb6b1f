"""Every broker is restarted once; leadership comes back to each, under load, without an administrator."""

import pytest

from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster
from tests.faults.broker import settings
from tests.faults.broker.load import PARTITIONS
from tests.peers.skips import module
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
CLUSTER = {"settings": {"auto.leader.rebalance.enable": "true", "leader.imbalance.check.interval.seconds": "1"}}


@pytest.mark.judge
def test_leadership_comes_back(cluster: Cluster) -> None:
    with Round(cluster, settings.seed(), copies=False) as load, cluster.observer.follow(*load.topics) as chronicle:
        first = [cluster.observer.assignment(load.plain)[index][0] for index in range(PARTITIONS)]

        def leaders() -> list[int]:
            return [state.leader for state in cluster.observer.states(load.plain).values() if state is not None]

        for member in cluster.brokers:
            member.stop()
            load.writes(20)
            member.start()
        eventually("all lead what is theirs", lambda: leaders() == first, facts=leaders)
        load.flows()
        load.finish()
    assert chronicle.unclean() == []
    chronicle.check()
    load.judge(at_least=100)
