"""`broker.power_loss()`: what was promised to be on disk is there afterwards, and what was not flushed is gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.embedded import BrokerFailed, NotRunning
from tests.support.client import batch
from tests.support.faulty import connect, end, produced
from tests.support.waiting import eventually

FLUSHED = {"log.flush.interval.messages": 1}
#: How long a broker that died is waited for.
SESSION = {"zookeeper.session.timeout.ms": 500}
#: acks=all waits for the disk where there is no other replica; 1 does not.
LEADER, ALL = 1, -1


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker() as broker:
        yield broker


def write(broker: ottla.Broker, *values: bytes, acks: int = LEADER) -> None:
    with connect(broker) as client:
        for value in values:
            ((row,),) = [one.partitions for one in client.produce("t", batch(value), acks=acks).responses]
            assert row.error_code == 0


def values(broker: ottla.Broker, topic: str = "t") -> list[bytes | None]:
    with broker.log(topic) as log:
        return [record.value for record in log.records()]


def test_what_was_not_flushed_is_gone(broker: ottla.Broker) -> None:
    broker.create_topic("t")
    write(broker, b"1", acks=ALL)
    write(broker, b"2", b"3")
    assert values(broker) == [b"1", b"2", b"3"]
    broker.power_loss()
    assert not broker.is_running
    broker.start()
    assert values(broker) == [b"1"]
    write(broker, b"4", acks=ALL)
    assert values(broker) == [b"1", b"4"]


def test_a_killed_broker_has_lost_nothing_until_the_power_goes_too(broker: ottla.Broker) -> None:
    broker.create_topic("t")
    write(broker, b"1", acks=ALL)
    write(broker, b"2")
    broker.kill()
    broker.start()
    assert values(broker) == [b"1", b"2"]
    broker.kill()
    broker.power_loss()
    broker.start()
    # The recovery after the first kill may have flushed what it found.
    assert values(broker)[:1] == [b"1"]


def test_each_record_that_was_flushed_is_there() -> None:
    with ottla.Broker(FLUSHED) as broker:
        broker.create_topic("t")
        write(broker, b"1", b"2", b"3")
        broker.power_loss()
        broker.start()
        assert values(broker) == [b"1", b"2", b"3"]


def test_a_clean_stop_flushes(broker: ottla.Broker) -> None:
    broker.create_topic("t")
    write(broker, b"1", b"2")
    broker.restart()
    broker.power_loss()
    broker.start()
    assert values(broker) == [b"1", b"2"]


def test_a_lost_fsync_is_seen_when_the_power_goes() -> None:
    with ottla.Broker(FLUSHED) as broker:
        broker.create_topic("t")
        write(broker, b"1")
        with broker.faults.add(disk="sync", lost=True, topic="t") as lost:
            write(broker, b"2")
            assert lost.hits == 1
        broker.power_loss()
        broker.start()
        assert values(broker) == [b"1"]


def test_sessions_are_cut_and_topics_stay(broker: ottla.Broker) -> None:
    broker.create_topic("t", 3, {"retention.ms": 3_600_000})
    with connect(broker) as client:
        assert produced(client) == 0
        broker.power_loss()
        with pytest.raises(ConnectionError):
            produced(client)
    broker.start()
    with connect(broker) as client:
        assert [produced(client, partition=partition) for partition in range(3)] == [0, 0, 0]


def test_a_seed_leaves_a_part(broker: ottla.Broker) -> None:
    """Which may end in the middle of a batch: the start cuts that off."""
    broker.create_topic("t")
    found = set()
    for seed in range(8):
        write(broker, *[b"x" * 100] * 3)
        before = end(broker)
        broker.power_loss(seed)
        broker.start()
        found.add(before - end(broker))
        with connect(broker) as client:
            assert produced(client, acks=ALL) == 0
    assert max(found) <= 3
    assert len(found) > 1


def test_a_broker_that_failed_can_lose_its_power(tmp_path: Path) -> None:
    broker = ottla.Broker(FLUSHED, data_dir=tmp_path)
    with pytest.raises(NotRunning, match="has never run"):
        broker.power_loss()
    broker.start()
    broker.create_topic("t")
    write(broker, b"1")
    broker.faults.add(disk="sync", error="EIO", topic="t", times=1)
    with connect(broker) as client:
        assert produced(client) != 0
    eventually("it has ended", lambda: not broker.is_running)
    with pytest.raises(BrokerFailed, match="Input/output error"):
        broker.power_loss()
    with broker:
        assert values(broker) == [b"1"]


def test_groups_keep_what_they_have_committed(broker: ottla.Broker) -> None:
    ck = pytest.importorskip("confluent_kafka")
    broker.create_topic("t")
    write(broker, b"1", b"2", acks=ALL)
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = ck.Consumer(settings)
    consumer.subscribe(["t"])
    assert len(consumer.consume(2, 60)) == 2
    consumer.commit(offsets=[ck.TopicPartition("t", 0, 1)], asynchronous=False)
    broker.power_loss()
    broker.start()
    (place,) = consumer.committed([ck.TopicPartition("t", 0)], 60)
    assert place.offset == 1
    consumer.close()


def test_a_member_that_loses_its_power_gets_back_what_the_others_have() -> None:
    with ottla.Cluster(3, SESSION) as cluster:
        cluster.create_topic("t")
        leader = cluster.leader("t")
        assert leader is not None
        write(leader, b"1", b"2", acks=ALL)
        leader.power_loss()
        leader.start()
        eventually("all have all", lambda: [values(each) for each in cluster] == [[b"1", b"2"]] * 3)


def test_a_cluster_that_loses_its_power_has_what_a_disk_had(caplog: pytest.LogCaptureFixture) -> None:
    with ottla.Cluster(3, {**FLUSHED, **SESSION}) as cluster:
        cluster.create_topic("t")
        leader = cluster.leader("t")
        assert leader is not None
        write(leader, b"1", b"2", acks=ALL)
        for broker in cluster:
            broker.power_loss()
        for broker in cluster:
            broker.start()
        assert "the machine started anew" in caplog.text
        eventually("all have all", lambda: [values(each) for each in cluster] == [[b"1", b"2"]] * 3)
