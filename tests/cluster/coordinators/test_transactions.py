"""Transactions that consume, transform and produce, while brokers and clients come and go: each record is copied once
and in order, and no transaction is left open.
"""

import pytest

from tests.cluster import asking
from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
STATE, OFFSETS = "__transaction_state", "__consumer_offsets"


@pytest.mark.judge
def test_the_coordinator_goes_and_comes(cluster: Cluster) -> None:
    """Killed once, and stopped once."""
    bounced(cluster, 1)


@pytest.mark.soak
def test_all_brokers_go_and_come(cluster: Cluster) -> None:
    bounced(cluster, 12)


def bounced(cluster: Cluster, times: int) -> None:
    """Each time the broker that coordinates the copier's transactions is killed, and then another one stopped."""
    with (
        Round(cluster, settings.seed(), copies=True, leaves=0.05) as load,
        cluster.observer.follow(*load.topics, STATE) as chronicle,
    ):
        assert load.copier is not None
        for number in range(times):
            killed = asking.coordinator(cluster, load.copier.name, asking.TRANSACTIONAL_ID)
            stopped = cluster.broker((killed.id + number % 2) % 3 + 1)
            for member, goes in ((killed, killed.kill), (stopped, stopped.stop)):
                began = load.transactions
                goes()
                load.writes()
                assert not member.running
                member.start()
                cluster.all_in_sync(*load.topics, STATE, OFFSETS)
                load.flows()
                assert load.transactions > began
        eventually("a transaction was left open", lambda: load.copier is not None and load.copier.left > 0)
        load.finish()
    moves = [len(chronicle.leaders((STATE, index))) for index in range(2)]
    assert sum(moves) >= 2 + times
    assert chronicle.moved() >= 2 * times
    assert chronicle.unclean() == []
    chronicle.check()
    load.judge(at_least=400 * times)
    eventually(
        "no transaction is open",
        lambda: not asking.open_transactions(cluster, *load.topics, OFFSETS),
        facts=lambda: asking.open_transactions(cluster, *load.topics, OFFSETS),
    )
    logs_equal(cluster.directories, *load.topics, STATE, OFFSETS)
