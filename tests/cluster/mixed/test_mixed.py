"""One cluster of Ottla, Apache Kafka 2.7.2 and 3.9.2: every kind of broker in every role beside every other, each under
load and with a fault. What was acknowledged is there once, and the replicas are equal.

The judges have two of the combinations, the soak all of them: `pytest -m soak tests/cluster/mixed/test_mixed.py`. The
gate has `test_three_brokers`, with one broker of Ottla and two of Kafka 2.7.2.
"""

import itertools
import shutil
import time
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import admin

from tests.cluster import asking
from tests.cluster.bank import STATE, TELLERS, Teller, transfers
from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import OTTLA, VERSIONS, Cluster, Member
from tests.cluster.workers import PARTITIONS, Book, Worker, facts, whole
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support.waiting import PATIENCE_S, eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
KINDS = (OTTLA, *VERSIONS)
OFFSETS = "__consumer_offsets"
#: Kinds of the controller, the leader and its follower. The third replica is the controller's broker.
ROLES = [*itertools.product(KINDS, repeat=3)]
#: In `make judges`: each kind of Kafka is led by Ottla once, leads it once, and controls it once.
JUDGES = {(OTTLA, "kafka", "kafka-3.9.2"), ("kafka-3.9.2", OTTLA, "kafka")}
#: Kinds of the coordinator that fails, and of the next one; of the coordinator and the partitions' leader.
PAIRS = [*itertools.product(KINDS, repeat=2)]
COMMITS = 20


def cases(combinations: Sequence[tuple[str, ...]], judges: set[tuple[str, ...]]) -> list[object]:
    """For `parametrize` of the cluster and the roles: those that share a cluster follow each other."""
    found = []
    for roles in sorted(combinations, key=sorted):
        marks = [pytest.mark.judge if roles in judges else pytest.mark.soak]
        kinds = (*sorted(roles), OTTLA)[:3]
        found.append(pytest.param(kinds, roles, id="-".join(roles), marks=marks))
    return found


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("mixed"), request.param) as made:
        yield made


def members(cluster: Cluster, roles: Sequence[str]) -> list[Member]:
    """Different brokers of these kinds, then the rest."""
    left = [*cluster.brokers]
    found = []
    for kind in roles:
        member = next(member for member in left if member.kind == kind)
        left.remove(member)
        found.append(member)
    return found + left


@pytest.mark.parametrize(("cluster", "roles"), cases(ROLES, JUDGES), indirect=["cluster"])
def test_a_leader_is_killed(cluster: Cluster, roles: tuple[str, str, str]) -> None:
    """Its follower leads, by the controller's word, and it comes back to follow."""
    controller, leader, follower = members(cluster, roles)
    asking.make_controller(cluster, controller)
    replicas = [leader.id, follower.id, controller.id]
    with (
        Round(cluster, settings.seed(), copies=False, led_by=replicas) as load,
        cluster.observer.follow(load.plain) as chronicle,
    ):
        assert {state.leader for state in cluster.observer.states(load.plain).values() if state} == {leader.id}
        purged = load.another_topic("purged", replicas=replicas)
        asking.delete_inside_a_batch(cluster, leader, purged)
        leader.kill()
        after = cluster.led_by_another(load.plain, 0, than=leader.id)
        assert after.leader == follower.id
        assert leader.id not in after.isr
        cluster.led_by_another(purged, 0, than=leader.id)
        shutil.rmtree(leader.data / f"{purged}-0")
        load.writes()
        assert not leader.running
        leader.start()
        cluster.all_in_sync(load.plain, purged)
        asking.elect_first_of(cluster, [purged], replicas)
        assert asking.log_range(cluster, leader, purged) == asking.AFTER_DELETION
        load.flows()
        assert cluster.observer.controller()[0] == controller.id
        load.finish()
    assert chronicle.moved() >= 1
    assert chronicle.unclean() == []
    chronicle.check()
    load.judge(at_least=300)
    logs_equal(cluster.directories, load.plain, purged)


@pytest.mark.soak
@pytest.mark.parametrize(("cluster", "roles"), cases(PAIRS, set()), indirect=["cluster"])
def test_a_group_is_taken_over(cluster: Cluster, roles: tuple[str, str]) -> None:
    """Its members go on with the generation's owners and offsets that they know, and back again."""
    old, new, third = members(cluster, roles)
    group = f"taken-over-{old.id}-{new.id}-{time.monotonic_ns()}"
    asking.created(cluster, OFFSETS, group, asking.GROUP)
    asking.elect_first_of(cluster, [OFFSETS], [old.id, new.id, third.id])
    asking.comes_to(cluster, group, asking.GROUP, old)
    seed, book = settings.seed(), Book()
    with Round(cluster, seed, writers=1, copies=False) as load:
        topic = f"{load.prefix}committed"
        load.admin.create_topics([admin.NewTopic(topic, PARTITIONS, 3)])[topic].result(PATIENCE_S)
        workers = [Worker(f"worker-{number}", cluster, book, seed, group, topic) for number in range(3)]
        for worker in workers:
            worker.start()

        def commits() -> None:
            most = book.commits + COMMITS
            eventually("offsets are committed", lambda: book.commits > most, facts=lambda: facts(workers))

        eventually("the group is whole", lambda: whole(workers, 0.0), facts=lambda: facts(workers))
        commits()
        old.kill()
        killed = time.monotonic()
        eventually("the group is whole again", lambda: whole(workers, killed), facts=lambda: facts(workers))
        asking.comes_to(cluster, group, asking.GROUP, new)
        commits()
        load.writes(20)
        assert not old.running
        old.start()
        cluster.all_in_sync(OFFSETS, *load.topics)
        asking.elect_first_of(cluster, [OFFSETS], [old.id, new.id, third.id])
        elected = time.monotonic()
        eventually("the group is whole at home", lambda: whole(workers, elected), facts=lambda: facts(workers))
        commits()
        for worker in workers:
            worker.ending.set()
        for worker in workers:
            worker.join(PATIENCE_S)
        load.finish()
    assert book.wrong == []
    load.judge(at_least=20)
    logs_equal(cluster.directories, OFFSETS, *load.topics)


@pytest.mark.soak
@pytest.mark.parametrize(("cluster", "roles"), cases(PAIRS, set()), indirect=["cluster"])
def test_money_under_a_coordinator_and_a_leader(cluster: Cluster, roles: tuple[str, str]) -> None:
    """Transactions of one kind's coordinator over partitions that the other kind leads: each of the two is killed."""
    coordinator, leader, third = members(cluster, roles)
    asking.created(cluster, STATE, "any", asking.TRANSACTIONAL_ID)
    asking.elect_first_of(cluster, [STATE], [coordinator.id, leader.id, third.id])

    def first(tellers: Sequence[Teller]) -> Member:
        for teller in tellers:
            asking.comes_to(cluster, teller.name, asking.TRANSACTIONAL_ID, coordinator)
        return coordinator

    names = [f"teller-{coordinator.id}-{leader.id}-{number}" for number in range(TELLERS)]
    transfers(cluster, [first, lambda _: leader], replicas=[leader.id, coordinator.id, third.id], names=names)
