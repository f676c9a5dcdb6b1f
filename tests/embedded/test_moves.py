"""Leaders and coordinators that move on purpose: clients find the new ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ottla
from ottla.errors import NotCoordinator, NotLeaderOrFollower, UnknownTopicOrPartition
from ottla.wire.k12_heartbeat import HEARTBEAT, HeartbeatRequest
from tests.support.faulty import connect, produced
from tests.support.waiting import PATIENCE_S, eventually


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(3) as cluster:
        yield cluster


def test_a_leader_moves(cluster: ottla.Cluster) -> None:
    cluster.create_topic("t", 2)
    first = cluster.leader("t", 1)
    second = cluster.move_leader("t", 1)
    assert second is not first
    assert cluster.leader("t", 1) is second
    assert first is not None
    with connect(first) as client:
        eventually("it knows", lambda: produced(client, partition=1) == NotLeaderOrFollower.code)
    with connect(second) as client:
        eventually("it knows", lambda: produced(client, partition=1) == 0)
    assert cluster.move_leader("t", 1, to=1) is cluster[1]
    assert cluster.move_leader("t", 1, to=1) is cluster[1]
    assert sorted(cluster.in_sync("t", 1)) == [1, 2, 3]


def test_each_is_reached_in_turn(cluster: ottla.Cluster) -> None:
    cluster.create_topic("round")
    found = {cluster.move_leader("round").port for _ in range(3)}
    assert found == {each.port for each in cluster}


def test_a_coordinator_of_a_group_moves_and_its_members_go_on(cluster: ottla.Cluster) -> None:
    ck = pytest.importorskip("confluent_kafka")
    cluster.create_topic("orders")
    consumer = ck.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers})

    def comes(value: bytes) -> None:
        producer.produce("orders", value)
        assert producer.flush(PATIENCE_S) == 0
        (message,) = consumer.consume(1, PATIENCE_S)
        assert message.value() == value
        consumer.commit(asynchronous=False)

    comes(b"1")
    old = cluster.coordinator(group="g")
    new = cluster.move_coordinator(group="g")
    assert new is cluster.coordinator(group="g")
    assert new is not old
    assert old is not None
    with connect(old) as client:
        heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="nobody")
        eventually("it knows", lambda: client.call(HEARTBEAT, heartbeat).error_code == NotCoordinator.code)
    comes(b"2")
    (place,) = consumer.committed([ck.TopicPartition("orders", 0)], PATIENCE_S)
    assert place.offset == 2
    consumer.close()


def test_a_coordinator_of_transactions_moves_in_the_middle_of_one(cluster: ottla.Cluster) -> None:
    ck = pytest.importorskip("confluent_kafka")
    cluster.create_topic("paid")
    producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "x"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("paid", b"1")
    assert producer.flush(PATIENCE_S) == 0
    old = cluster.coordinator(transactional_id="x")
    assert cluster.move_coordinator(transactional_id="x", to=3 if old is not cluster[3] else 2) is not old
    producer.commit_transaction(PATIENCE_S)
    consumer = ck.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "auditors", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["paid"])
    (message,) = consumer.consume(1, PATIENCE_S)
    assert message.value() == b"1"
    consumer.close()


def test_mistakes_are_told(cluster: ottla.Cluster) -> None:
    cluster.create_topic("alone", replicas=1)
    with pytest.raises(ValueError, match="alone-0 cannot move to another broker: no other one is in sync and running"):
        cluster.move_leader("alone")
    cluster.create_topic("all")
    leader = cluster.leader("all")
    ids = [number for number in (1, 2, 3) if cluster[number] is not leader]
    with pytest.raises(ValueError, match=f"cannot move to broker 4: in sync and running are {ids[0]}, {ids[1]}"):
        cluster.move_leader("all", to=4)
    with pytest.raises(UnknownTopicOrPartition, match="there is no all-1"):
        cluster.move_leader("all", 1)
    for both in ({}, {"group": "g", "transactional_id": "x"}):
        with pytest.raises(ValueError, match="say group or transactional_id, one of both"):
            cluster.move_coordinator(**both)
