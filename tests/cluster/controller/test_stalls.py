"""ZooKeeper stands still for longer than all sessions last, and all brokers live: each partition is led afterwards."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import admin

from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support.waiting import PATIENCE_S, eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
SESSION_S, STALL_S = 6.0, 14.0
CLUSTER = {"settings": {"zookeeper.session.timeout.ms": int(SESSION_S * 1000)}}
PARTITIONS = 30


@pytest.mark.judge
def test_all_is_led_after_zookeeper_stood_still(cluster: Cluster) -> None:
    stands_still(cluster, 2)


@pytest.mark.soak
def test_all_is_led_each_time(cluster: Cluster) -> None:
    stands_still(cluster, 15)


def stands_still(cluster: Cluster, times: int) -> None:
    """Leaders lead on meanwhile. Who looks for its registration hears what was true before it registered again."""
    with Round(cluster, settings.seed(), copies=False) as load:
        topic = f"{load.prefix}many"
        load.admin.create_topics([admin.NewTopic(topic, PARTITIONS, 3)])[topic].result(PATIENCE_S)
        cluster.all_led(topic)
        before = {member.id: cluster.observer.registration(member.id) for member in cluster.brokers}
        for _ in range(times):
            over = time.monotonic() + STALL_S
            with cluster.zookeepers[0].paused():
                load.writes()
                eventually("all sessions are over", lambda over=over: time.monotonic() > over)  # type: ignore[misc]
            for member in cluster.brokers:
                cluster.returns(member)
            cluster.all_led(topic, *load.topics)
            load.writes()
        assert {member.id: cluster.observer.registration(member.id) for member in cluster.brokers} != before
        load.finish()
    load.judge(at_least=300)
