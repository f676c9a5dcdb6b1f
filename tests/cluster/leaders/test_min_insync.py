"""Two of three brokers are gone, with min.insync.replicas 2: what was acknowledged can be read, and nothing is
acknowledged that only one has. Who lowers min.insync.replicas decides otherwise, and needs no restart for it.
"""

import time

import pytest

from tests.cluster import asking
from tests.cluster.observer import PartitionState
from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster, Member
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support.client import batch, values
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]


def test_reads_go_on_and_writes_are_refused(cluster: Cluster) -> None:
    last = cluster.broker(1)
    with (
        Round(cluster, settings.seed(), copies=False, led_by=last.id) as load,
        cluster.observer.follow(*load.topics) as chronicle,
    ):
        for other in cluster.brokers[1:]:
            other.kill()
        alone(cluster, last, load.plain)
        acknowledged = load.acknowledged
        with asking.client(cluster, last) as client:
            end = high_watermark(cluster, load.plain)
            # Transactions are not in this topic, so its last record is the one before the high watermark.
            assert values(client.fetch(load.plain, end - 1)) != []
            written = values(client.fetch(load.plain, 0))
            assert written != []
            error, _ = asking.produced(client.produce(load.plain, batch(b"1")))
            assert error == "NOT_ENOUGH_REPLICAS"
            assert high_watermark(cluster, load.plain) == end
            assert load.acknowledged == acknowledged

            lowered = time.monotonic()
            pid = last.server.pid
            client.alter_topic(load.plain, {"min.insync.replicas": "1"})
            load.writes()
            print(f"writes go on {time.monotonic() - lowered:.1f} s after min.insync.replicas was lowered")
            assert last.server.pid == pid
            assert cluster.observer.state(load.plain).isr == {last.id}
        for other in cluster.brokers[1:]:
            other.start(wait=False)
        for other in cluster.brokers[1:]:
            other.ready()
        cluster.all_in_sync(*load.topics)
        load.writes()
        load.finish()
    assert chronicle.moved() == 0
    chronicle.check()
    load.judge(at_least=300)
    logs_equal(cluster.directories, *load.topics)


def high_watermark(cluster: Cluster, topic: str) -> int:
    """Waits until the leader tells it: a busy one may not at once."""
    told: list[int | None] = []

    def is_told() -> bool:
        told.append(cluster.observer.high_watermark(topic))
        return told[-1] is not None

    eventually("the leader tells its high watermark", is_told)
    assert told[-1] is not None
    return told[-1]


def alone(cluster: Cluster, last: Member, topic: str) -> None:
    """Waits until the broker is the only one in sync for both partitions, and writers have noticed."""

    def is_alone() -> bool:
        # The leader hears of it after the tree, and its metadata after that.
        there, known = cluster.observer.states(topic), cluster.observer.states_known_to(last.id, topic)
        states = [*there.values(), *known.values()]
        return all(isinstance(state, PartitionState) and state.isr == {last.id} for state in states)

    eventually(
        f"{last.name} is alone",
        is_alone,
        facts=lambda: (cluster.observer.states(topic), cluster.observer.controller(), cluster.observer.registered()),
    )
