"""A broker that runs loses its power: what it had not synced is gone, and what was acknowledged is there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.kinds import THREE
from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import SINGLE, Cluster
from tests.faults.broker import settings
from tests.peers.skips import module

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]


KAFKA, MIXED, OTTLAS = THREE
LESS_OFTEN = pytest.param(*MIXED.values, id=MIXED.id, marks=pytest.mark.judge)


@pytest.fixture(params=[KAFKA, LESS_OFTEN, OTTLAS])
def three(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, request.param, forgetful=True) as made:
        yield made


def test_the_leader_of_three_loses_power(three: Cluster) -> None:
    """The records that it forgot are on the others, which lead on; it takes them from there and is in sync again."""
    with Round(three, settings.seed()) as load, three.observer.follow(*load.topics) as chronicle:
        leader = three.leader(load.plain)
        lost = leader.lose_power()
        print(f"broker {leader.id} lost {lost}")
        assert lost.bytes > 0
        three.led_by_another(load.plain, 0, than=leader.id)
        load.writes()
        leader.start()
        three.all_in_sync(*load.topics)
        load.flows()
        load.finish()
    assert chronicle.moved() >= 1
    chronicle.check()
    load.judge(at_least=500)
    logs_equal(three.directories, *load.topics)


@pytest.mark.soak
def test_a_broker_that_does_not_sync_is_noticed(tmp_path: Path) -> None:
    """Kafka as it is without settings, with one replica: the disk forgets, and the round says so."""
    with Cluster(tmp_path, ("kafka",), settings=SINGLE, forgetful=True) as single:
        member = single.broker(1)
        with Round(single, settings.seed(), replicas=1) as load:
            load.flows(200)
            for writer in load.writers:
                writer.end()
            assert member.lose_power().bytes > 0
            member.start()
            with pytest.raises(AssertionError):  # noqa: PT012
                load.finish()
                load.judge(at_least=1)


@pytest.mark.judge
def test_the_only_replica_loses_power_again_and_again(tmp_path: Path) -> None:
    """Of a broker of our own, which syncs before it acknowledges where nobody else has what it has."""
    with Cluster(tmp_path, ("ottla",), settings=SINGLE, forgetful=True) as single:
        member = single.broker(1)
        forgotten = 0
        with Round(single, settings.seed(), replicas=1) as load:
            for _ in range(3):
                lost = member.lose_power()
                print(f"lost {lost}")
                forgotten += lost.bytes + lost.names
                member.start()
                load.flows()
            load.finish()
        load.judge(at_least=300)
        assert forgotten > 0
