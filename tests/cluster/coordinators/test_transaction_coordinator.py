"""The ends of transactions where brokers fail in the middle of them: what was decided is carried out, and what comes
too late changes nothing.
"""

from typing import Any

import pytest

from ottla.errors import InvalidProducerEpoch, ProducerFenced
from ottla.wire.k26_end_txn import END_TXN, EndTxnRequest
from tests.cluster import asking
from tests.cluster.network import need_namespaces
from tests.cluster.replicas import logs_equal, partitions, rows
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster, Member
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support import transactions
from tests.support.client import Client
from tests.support.waiting import eventually, still

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
STATE = "__transaction_state"
#: One record, then its marker.
FIRST = 2


def coordinators(cluster: Cluster, name: str) -> tuple[Member, Member, Member]:
    """The broker that coordinates the id, and the others."""
    coordinator = asking.coordinator(cluster, name, asking.TRANSACTIONAL_ID)
    first, second = (member for member in cluster.brokers if member is not coordinator)
    return coordinator, first, second


def state_of(client: Client, name: str) -> str:
    """Empty while the broker does not coordinate it, or has not read of it yet."""
    state: str = transactions.describe(client, name).transaction_state
    return state


def begun(client: Client, name: str, topic: str) -> Any:
    """A transaction with the topic's only partition."""
    producer = transactions.init(client, name)
    assert producer.error_code == 0
    assert transactions.add(client, name, producer, 0, topic=topic) == [0]
    return producer


def test_a_marker_is_lost_with_its_leader(cluster: Cluster) -> None:
    """No replica but the leader had it. The coordinator does not take the transaction for complete, and the next leader
    is sent the marker again.
    """
    need_namespaces()
    with Round(cluster, settings.seed(), copies=False) as load:
        name = load.prefix + "marked"
        coordinator, leader, follower = coordinators(cluster, name)
        # The coordinator has no replica and is cut from nobody: an answer that came too early would reach it.
        topic = load.another_topic("marked", [leader.id, follower.id], {"min.insync.replicas": "1"})
        before = cluster.observer.state(topic)
        with asking.client(cluster, coordinator) as client:
            producer = begun(client, name, topic)
            with asking.client(cluster, leader) as there:
                assert asking.wrote(there, topic, name, producer, b"first") == 0
                assert transactions.end(client, name, producer) == 0
                eventually("it is committed", lambda: asking.last_offset(there, topic, level=1) == FIRST)
                assert transactions.add(client, name, producer, 0, topic=topic) == [0]
                assert asking.wrote(there, topic, name, producer, b"second", 1) == 0
                with cluster.network.cut_one_way(leader.name, follower.name):
                    assert transactions.end(client, name, producer) == 0
                    eventually(
                        "the leader has the marker",
                        lambda: cluster.observer.log_end(leader.id, topic) == FIRST + 2,
                    )
                    assert still("the state of the transaction", lambda: state_of(client, name)) == "PrepareCommit"
                    assert asking.last_offset(there, topic) == FIRST + 1
                    assert asking.last_offset(there, topic, level=1) == FIRST
                    assert cluster.observer.state(topic).isr == {leader.id, follower.id}
                    leader.kill()
                    # What the dead process had sent is still on its way: the cut outlives it.
                    after = cluster.led_by_another(topic, 0, than=leader.id)
                    assert after.leader == follower.id
                    eventually("the transaction is complete", lambda: state_of(client, name) == "CompleteCommit")
                    assert not leader.running
            with asking.client(cluster, follower) as there:
                assert asking.last_offset(there, topic, level=1) == FIRST + 2
            assert asking.committed(cluster, topic) == [b"first", b"second"]
            leader.start()
            cluster.all_in_sync(*load.topics, topic, STATE)
            load.writes()
            load.finish()
    load.judge(at_least=200)
    assert asking.open_transactions(cluster, topic) == []
    logs_equal(cluster.directories, *load.topics, STATE)
    logs_equal(cluster.directories, topic, replicas=2)
    # The marker that is there is not the one that was lost.
    stored = rows(partitions(cluster.directories, topic)[0][0])
    epochs = {row.base_offset: row.leader_epoch for row in stored}
    assert epochs[FIRST] == before.leader_epoch
    assert epochs[FIRST + 1] == after.leader_epoch


@pytest.mark.soak
def test_the_next_coordinator_sends_markers(cluster: Cluster) -> None:
    """The one that decided could not, since nobody led the partition, and is dead when somebody does."""
    with Round(cluster, settings.seed(), copies=False) as load:
        name = load.prefix + "decided"
        coordinator, leader, _ = coordinators(cluster, name)
        topic = load.another_topic("decided", [leader.id], {"min.insync.replicas": "1"})
        with asking.client(cluster, coordinator) as client:
            producer = begun(client, name, topic)
            with asking.client(cluster, leader) as there:
                assert asking.wrote(there, topic, name, producer, b"decided") == 0
            leader.kill()
            cluster.leaves(leader)
            assert transactions.end(client, name, producer) == 0
            assert still("the state of the transaction", lambda: state_of(client, name)) == "PrepareCommit"
        coordinator.kill()
        leader.start()
        eventually("another one coordinates", lambda: coordinators(cluster, name)[0] is not coordinator)
        with asking.client(cluster, coordinators(cluster, name)[0]) as client:
            eventually("the transaction is complete", lambda: state_of(client, name) == "CompleteCommit")
        assert not coordinator.running
        assert asking.committed(cluster, topic) == [b"decided"]
        coordinator.start()
        cluster.all_in_sync(*load.topics, topic, STATE)
        load.writes()
        load.finish()
    load.judge(at_least=200)
    assert asking.open_transactions(cluster, topic) == []
    logs_equal(cluster.directories, *load.topics, STATE)


def test_an_end_comes_late(cluster: Cluster) -> None:
    """A producer's commit lies with a coordinator that stands still. Meanwhile another producer of its name has the
    next transaction, with the next coordinator: the commit is refused wherever it comes, and so is what the old
    producer writes.

    (An end that comes late from the same producer epoch cannot be told from the next one before KIP-890's second part.)
    """
    with Round(cluster, settings.seed(), copies=False) as load:
        name = load.prefix + "late"
        coordinator, leader, follower = coordinators(cluster, name)
        topic = load.another_topic("late", [leader.id, follower.id])
        with asking.client(cluster, coordinator) as waiting, asking.client(cluster, leader) as there:
            old = begun(waiting, name, topic)
            assert asking.wrote(there, topic, name, old, b"old") == 0
            commit = EndTxnRequest(
                transactional_id=name,
                producer_id=old.producer_id,
                producer_epoch=old.producer_epoch,
                committed=True,
            )
            with coordinator.paused():
                waiting.send(END_TXN, commit, 2)
                cluster.leaves(coordinator)
                running = [leader, follower]

                def another() -> bool:
                    with asking.client(cluster, leader) as client:
                        return transactions.find(client, name).node_id in [member.id for member in running]

                eventually("another one coordinates", another)
                with asking.client(cluster, leader) as client:
                    later = cluster.broker(transactions.find(client, name).node_id)
                with asking.client(cluster, later) as client:
                    new = begun(client, name, topic)
                    assert (new.producer_id, new.producer_epoch > old.producer_epoch) == (old.producer_id, True)
                    assert asking.wrote(there, topic, name, new, b"new") == 0
            try:
                error = asking.name_of(waiting.receive().error_code)
            except OSError:
                error = "LOST"
            print(f"figures: {later.name} coordinates after {coordinator.name}, which answered the commit with {error}")
            assert error != "NONE"
            with asking.client(cluster, later) as client:
                assert client.call(END_TXN, commit, 2).error_code == ProducerFenced.code
                assert client.call(END_TXN, commit, 1).error_code == InvalidProducerEpoch.code
                assert asking.wrote(there, topic, name, old, b"older", 1) == InvalidProducerEpoch.code
                assert still("the state of the transaction", lambda: state_of(client, name)) == "Ongoing"
                assert asking.committed(cluster, topic) == []
                assert transactions.end(client, name, new) == 0
                eventually("the transaction is complete", lambda: state_of(client, name) == "CompleteCommit")
            assert asking.committed(cluster, topic) == [b"new"]
        cluster.returns(coordinator)
        cluster.all_in_sync(*load.topics, topic, STATE)
        load.writes()
        load.finish()
    load.judge(at_least=200)
    assert asking.open_transactions(cluster, topic) == []
    logs_equal(cluster.directories, *load.topics, STATE)
    logs_equal(cluster.directories, topic, replicas=2)
