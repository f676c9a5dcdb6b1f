"""Clusters that keep the protocol between brokers of 2.6, as while they are upgraded: leaders write the in-sync
replicas into the tree themselves, and followers ask where leader epochs end before they fetch.

Each broker leads once, and is followed once, while load runs through a leader that dies and a follower that stands
still.
"""

from collections.abc import Iterator, Mapping

import pytest

from tests.cluster.observer import PartitionState
from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster, Member
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper, pytest.mark.soak]

#: A broker that stands still for so long is alive for ZooKeeper: it is its leaders who take it out.
LAG_MS = 1500


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("ottla", "kafka", "kafka"), id="one-ottla"),
        pytest.param(("ottla", "ottla", "kafka"), id="one-kafka"),
        pytest.param(("ottla", "ottla", "ottla"), id="ottla"),
    ],
)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    changed = {"inter.broker.protocol.version": "2.6", "replica.lag.time.max.ms": LAG_MS}
    with Cluster(tmp_path_factory.mktemp("old"), request.param, settings=changed) as made:
        yield made


def test_each_broker_dies(cluster: Cluster) -> None:
    with Round(cluster, settings.seed()) as load, cluster.observer.follow(*load.topics) as chronicle:
        for member in cluster.brokers:
            before = cluster.observer.states(load.plain)
            member.kill()
            for index, state in before.items():
                assert state is not None
                if state.leader == member.id:
                    after = cluster.led_by_another(load.plain, index, than=member.id)
                    assert after.leader_epoch > state.leader_epoch
            load.writes()
            member.start()
            cluster.all_in_sync(*load.topics)
        load.flows()
        load.finish()
    assert chronicle.moved() >= 2
    chronicle.check()
    load.judge(at_least=500)
    logs_equal(cluster.directories, *load.topics)


def test_each_broker_stands_still_as_a_follower(cluster: Cluster) -> None:
    """Shorter than its session lives and longer than it may lag: its leaders take it out, and in again."""
    with Round(cluster, settings.seed()) as load, cluster.observer.follow(*load.topics) as chronicle:
        for member in cluster.brokers:
            before = cluster.observer.states(load.plain)

            def is_out(member: Member = member, before: Mapping[int, PartitionState | None] = before) -> bool:
                """Of a partition whose leader epoch is as it was: no controller has done it."""
                now = cluster.observer.states(load.plain)
                return any(
                    was is not None
                    and (state := now[index]) is not None
                    and member.id not in (state.leader, *state.isr)
                    and state.leader_epoch == was.leader_epoch
                    for index, was in before.items()
                )

            with member.paused():
                eventually(f"{member.name} leaves", is_out, facts=lambda: cluster.observer.states(load.plain))
            cluster.all_in_sync(*load.topics)
            everybody_knows(cluster, load.plain)
        load.flows()
        load.finish()
    chronicle.check()
    load.judge(at_least=500)
    logs_equal(cluster.directories, *load.topics)


def everybody_knows(cluster: Cluster, topic: str) -> None:
    """The controller learns what leaders wrote from their notifications, and tells everybody."""

    def knows(member: Member) -> bool:
        told = cluster.observer.states_known_to(member.id, topic)
        return all(len(state.isr) == len(cluster.brokers) for state in told.values())

    for member in cluster.brokers:
        eventually(f"{member.name} knows who is in sync", lambda: knows(member), 90)  # noqa: B023
