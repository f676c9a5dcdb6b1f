"""The faults that the stand makes, tried with two of our own that hold one replica of each partition, since they start
in a moment: once in namespaces, once on 127.0.0.1.
"""

from collections.abc import Iterator

import pytest

from tests.cluster.network import need_namespaces
from tests.cluster.replicas import logs_equal, partitions
from tests.cluster.rounds import Round
from tests.cluster.stand import SINGLE, Cluster
from tests.faults.broker import settings
from tests.peers.skips import module, require
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]


@pytest.fixture(scope="module", params=[pytest.param("namespaces", marks=pytest.mark.judge), "loopback"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    namespaces = request.param == "namespaces"
    if namespaces:
        need_namespaces()
    directory = tmp_path_factory.mktemp("stand")
    with Cluster(directory, ("ottla", "ottla"), settings=SINGLE, proxied=True, namespaces=namespaces) as made:
        assert made.network.cuts == namespaces
        yield made


def test_a_kill_under_load(cluster: Cluster) -> None:
    member = cluster.broker(1)
    with Round(cluster, settings.seed(), replicas=1) as load:
        pid, address = member.server.pid, member.address
        member.kill()
        cluster.leaves(member)
        member.start()
        assert member.server.pid != pid
        assert member.address == address
        cluster.knows_all(member)
        load.flows()
        load.finish()
    load.judge(at_least=300)
    logs_equal(cluster.directories, *load.topics, replicas=1)
    assert sorted(partitions(cluster.directories, load.plain)) == [0, 1]


def test_a_clean_restart(cluster: Cluster) -> None:
    member = cluster.broker(2)
    pid = member.server.pid
    member.restart()
    assert member.server.pid != pid
    cluster.knows_all(member)


def test_a_pause_ends_a_session(cluster: Cluster) -> None:
    member = cluster.broker(1)
    with member.paused():
        cluster.leaves(member)
    cluster.returns(member)


def test_the_controller_moves(cluster: Cluster) -> None:
    before, epoch = cluster.observer.controller()
    cluster.broker(before).kill()
    eventually(
        "another controls",
        lambda: cluster.observer.controller()[0] not in (-1, before),
        facts=cluster.observer.controller,
    )
    _, later = cluster.observer.controller()
    assert later > epoch
    cluster.broker(before).start()
    cluster.knows_all(cluster.broker(before))


def test_answers_of_zookeeper_are_lost(cluster: Cluster) -> None:
    """Those of one broker, whose session ends so, while the other keeps its own."""
    member, other = cluster.broker(2), cluster.broker(1)
    for way in member.ways:
        way.deaf = True
    cluster.leaves(member)
    assert all(way.lost.is_set() for way in member.ways)
    assert other.id in cluster.observer.registered()
    for way in member.ways:
        way.cut()
    cluster.returns(member)


def test_zookeeper_is_slow(cluster: Cluster) -> None:
    """For both brokers, which work on."""
    ways = [way for member in cluster.brokers for way in member.ways]
    for way in ways:
        way.delay_ms = 100
    try:
        with Round(cluster, settings.seed(), replicas=1) as load:
            load.finish()
        load.judge(at_least=100)
    finally:
        for way in ways:
            way.delay_ms = 0


def test_a_cut_from_zookeeper(cluster: Cluster) -> None:
    """Where there are no namespaces, the test is skipped, or fails if they are required."""
    member = cluster.broker(1)
    if not cluster.network.cuts:
        with pytest.raises((pytest.skip.Exception, pytest.fail.Exception)), cluster.network.cut(member.name, "clients"):
            require("netns", "not reached")
        return
    with cluster.network.cut(member.name, "zookeeper-1"):
        cluster.leaves(member)
        assert cluster.observer.brokers_known_to(member.id)
    cluster.returns(member)
