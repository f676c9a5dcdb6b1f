"""Three brokers, replication factor 3, acks=all, two in sync at least: what was acknowledged is there, whichever broker
dies. The tests share a cluster; each asserts that its fault bit, and that load ran through it.
"""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka import admin

from tests.cluster import asking
from tests.cluster.kinds import JUDGED, OTTLA, THREE
from tests.cluster.network import need_namespaces
from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster
from tests.cluster.workers import PARTITIONS, Book, Worker, facts, whole
from tests.faults.broker import settings
from tests.peers.processes import ask
from tests.peers.segments import cleaned_offset
from tests.peers.skips import module
from tests.support import transactions
from tests.support.waiting import PATIENCE_S, eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
OFFSETS, STATE = "__consumer_offsets", "__transaction_state"
#: Where all brokers are Ottla's, other tests have them in each role.
MIXED = [*THREE[:2], pytest.param(OTTLA, id="ottla", marks=pytest.mark.soak)]
API_VERSIONS_V0 = bytes.fromhex("0000000a 0012 0000 00000001 ffff")


@pytest.fixture(scope="module", params=THREE)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("three"), request.param) as made:
        yield made


@pytest.mark.parametrize("cluster", JUDGED, indirect=True)
def test_without_a_fault(cluster: Cluster) -> None:
    with (
        Round(cluster, settings.seed(), churns=True) as load,
        cluster.observer.follow(*load.topics, load.compacted) as chronicle,
    ):
        load.flows(500)
        load.finish()
    assert chronicle.moved() == 0
    assert all(chronicle.watermarks[partition] for partition in chronicle.partitions)
    chronicle.check()
    load.judge(at_least=1000)
    everybody_says_the_same(cluster, load.plain)
    logs_equal(cluster.directories, *load.topics)
    for directory in cluster.directories:
        eventually(f"{directory} was cleaned", lambda: cleaned_offset(directory, load.compacted) > 0)  # noqa: B023
    logs_equal(cluster.directories, load.compacted, compacted=True)


def everybody_says_the_same(cluster: Cluster, topic: str) -> None:
    """Each broker of leaders, epochs and in-sync replicas, as they are in the tree; each replica of its end."""
    observer = cluster.observer
    for index, state in observer.states(topic).items():
        assert state is not None
        end = observer.high_watermark(topic, index)
        assert end
        for member in cluster.brokers:
            eventually(
                f"{member.name} knows {topic}-{index}",
                lambda: observer.states_known_to(member.id, topic)[index] == replace(state, version=-1),  # noqa: B023
            )
            assert observer.log_end(member.id, topic, index) == end


@pytest.mark.parametrize("cluster", MIXED, indirect=True)
def test_the_first_broker_has_every_role(cluster: Cluster) -> None:
    """It is the controller, leads and follows, and coordinates a group and transactions, all at once."""
    first, second, third = cluster.brokers
    group, name = "of-the-first", "of-the-first"
    asking.created(cluster, OFFSETS, group, asking.GROUP)
    asking.created(cluster, STATE, name, asking.TRANSACTIONAL_ID)
    asking.make_controller(cluster, first)
    asking.elect_first_of(cluster, [OFFSETS, STATE], [first.id, second.id, third.id])
    asking.comes_to(cluster, group, asking.GROUP, first)
    asking.comes_to(cluster, name, asking.TRANSACTIONAL_ID, first)
    seed, book = settings.seed(), Book()
    with Round(cluster, seed, copies=False, led_by=first.id) as load:
        led = load.another_topic("led", [first.id, second.id, third.id])
        followed = load.another_topic("followed", [second.id, first.id, third.id])
        shared = f"{load.prefix}shared"
        load.admin.create_topics([admin.NewTopic(shared, PARTITIONS, 3)])[shared].result(PATIENCE_S)
        workers = [Worker(f"worker-{number}", cluster, book, seed, group, shared) for number in range(2)]
        for worker in workers:
            worker.start()
        with asking.client(cluster, first) as client, asking.client(cluster, second) as other:
            producer = transactions.init(client, name)
            for number in range(10):
                for topic, connection in ((led, client), (followed, other)):
                    assert transactions.add(client, name, producer, 0, topic=topic) == [0]
                    assert asking.wrote(connection, topic, name, producer, b"%d" % number, number) == 0
                assert transactions.end(client, name, producer, commit=number % 2 == 0) == 0
        eventually("the group is whole", lambda: whole(workers, 0.0), facts=lambda: facts(workers))
        eventually("offsets are committed", lambda: book.commits > 20, facts=lambda: facts(workers))
        for worker in workers:
            worker.ending.set()
        for worker in workers:
            worker.join(PATIENCE_S)
        load.writes()
        load.finish()
    for topic in (led, followed):
        assert asking.committed(cluster, topic) == [b"%d" % number for number in range(0, 10, 2)]
    assert book.wrong == []
    load.judge(at_least=300)
    # It has had all of its roles to the end.
    assert cluster.observer.controller()[0] == first.id
    states = {topic: cluster.observer.states(topic).values() for topic in (*load.topics, led, OFFSETS, STATE)}
    assert {state.leader for each in states.values() for state in each if state} == {first.id}
    assert cluster.observer.state(followed).leader == second.id
    assert asking.open_transactions(cluster, led, followed) == []
    logs_equal(cluster.directories, *load.topics, led, followed, OFFSETS, STATE)


def test_the_leader_is_killed_again_and_again(cluster: Cluster) -> None:
    """A new one leads within the session's end and two seconds, and writes go on before the old one is back."""
    with Round(cluster, settings.seed()) as load, cluster.observer.follow(*load.topics) as chronicle:
        for kill in range(2):
            partition = kill % 2
            before = cluster.observer.state(load.plain, partition)
            leader = cluster.broker(before.leader)
            leader.kill()
            killed = time.monotonic()
            after = cluster.led_by_another(load.plain, partition, than=leader.id)
            print(f"broker {leader.id} killed, broker {after.leader} leads {time.monotonic() - killed:.1f} s later")
            assert after.leader_epoch > before.leader_epoch
            assert leader.id not in after.isr
            load.writes()
            assert not leader.running
            leader.start()
            cluster.all_in_sync(*load.topics)
        load.flows()
        load.finish()
    assert chronicle.moved() >= 2
    chronicle.check()
    load.judge(at_least=500)
    logs_equal(cluster.directories, *load.topics)


def test_a_client_does_not_reach_what_it_is_cut_from(cluster: Cluster) -> None:
    need_namespaces()
    broker = cluster.broker(2)

    def answered(timeout_s: float) -> bool:
        with cluster.clients.inside():
            return bool(ask(broker.port, API_VERSIONS_V0, timeout_s, host=broker.node.address))

    assert answered(PATIENCE_S)
    with cluster.network.cut("clients", broker.name):
        start = time.monotonic()
        assert not answered(1)
        assert time.monotonic() - start >= 1  # it waited in vain, and was not refused
        assert cluster.observer.brokers_known_to(broker.id) == {1, 2, 3}
    assert answered(PATIENCE_S)


@pytest.mark.parametrize("cluster", JUDGED, indirect=True)
def test_a_follower_is_cut_from_its_leader(cluster: Cluster) -> None:
    """It leaves the in-sync replicas, though it is alive for ZooKeeper; writes go on with the other; it comes back."""
    need_namespaces()
    with Round(cluster, settings.seed()) as load, cluster.observer.follow(*load.topics) as chronicle:
        leader = cluster.leader(load.plain)
        # The leader asks the controller to change the in-sync replicas, so the two are not cut from each other.
        spared = {leader.id, cluster.observer.controller()[0]}
        follower = next(member for member in cluster.brokers if member.id not in spared)
        with cluster.network.cut(leader.name, follower.name):
            cut = time.monotonic()
            eventually(
                "the follower leaves",
                lambda: follower.id not in cluster.observer.state(load.plain).isr,
                facts=lambda: cluster.observer.states(load.plain),
            )
            print(f"broker {follower.id} left the in-sync replicas {time.monotonic() - cut:.1f} s after the cut")
            assert follower.id in cluster.observer.registered()
            assert cluster.observer.state(load.plain).leader == leader.id
            load.writes()
        healed = time.monotonic()
        cluster.all_in_sync(*load.topics)
        print(f"all are in sync {time.monotonic() - healed:.1f} s after the cut's end")
        load.flows()
        load.finish()
    assert follower.id in chronicle.shrank(cut)[load.plain, 0]
    chronicle.check()
    load.judge(at_least=500)
    logs_equal(cluster.directories, *load.topics)
