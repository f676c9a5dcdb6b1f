"""Answers that a leader does not give before its followers have come as far: the end of a partition that it leads since
a moment ago (KIP-207), and that records are deleted (KIP-107).
"""

import pytest

from ottla.wire.k21_delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.cluster import asking
from tests.cluster.network import need_namespaces
from tests.cluster.observer import DEBUGGER
from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster, Member
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support.client import Client, batch, values
from tests.support.operations import EARLIEST, list_offset
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
LATEST = -1
RECORDS = 10


def three(cluster: Cluster) -> tuple[Member, Member, Member]:
    """The broker that is to lead, the controller, and the third."""
    controller, _ = cluster.observer.controller()
    leader, third = (member for member in cluster.brokers if member.id != controller)
    return leader, cluster.broker(controller), third


def test_a_new_leader_does_not_know_the_end(cluster: Cluster) -> None:
    """It has records of which it does not know whether they were committed: it tells no end of the partition, since the
    one that it knows may be less than what its predecessor told. It does once the others have them too.
    """
    need_namespaces()
    with Round(cluster, settings.seed(), copies=False) as load:
        leader, new, third = three(cluster)
        topic = load.another_topic("ends", [leader.id, new.id, third.id])
        with asking.client(cluster, leader) as client:
            for number in range(RECORDS):
                assert asking.produced(client.produce(topic, batch(b"%d" % number))) == ("NONE", number)
            eventually("all is committed", lambda: cluster.observer.high_watermark(topic) == RECORDS)
        # The third does not get what comes now, neither from this leader nor from the next one.
        with (
            cluster.network.cut_one_way(leader.name, third.name),
            cluster.network.cut_one_way(new.name, third.name),
        ):
            with asking.client(cluster, leader) as client:
                asking.sent(client, topic, b"pending")
                eventually("two have it", lambda: cluster.observer.log_end(new.id, topic) == RECORDS + 1)
                assert cluster.observer.log_end(third.id, topic) == RECORDS
                assert cluster.observer.high_watermark(topic) == RECORDS
                leader.kill()
            state = cluster.led_by_another(topic, 0, than=leader.id)
            assert state.leader == new.id
            with asking.client(cluster, new) as client:
                told: list[str] = []

                def refused() -> bool:
                    told.append(asking.name_of(list_offset(client, topic, LATEST).error_code))
                    return told[-1] == "OFFSET_NOT_AVAILABLE"

                eventually("the new leader does not know the end", refused, facts=lambda: told[-5:])
                before = list_offset(client, topic, LATEST, version=4)
                earliest = list_offset(client, topic, EARLIEST)
                # For as long as the third is in sync and has not fetched: its leader asks to take it out after a while.
                again = list_offset(client, topic, LATEST)
                assert cluster.observer.state(topic).isr == {new.id, third.id}
                assert asking.name_of(before.error_code) == "LEADER_NOT_AVAILABLE"
                assert asking.name_of(again.error_code) == "OFFSET_NOT_AVAILABLE"
                assert (earliest.error_code, earliest.offset) == (0, 0)
                assert set(told) <= {"OFFSET_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER"}
        with asking.client(cluster, new) as client:

            def known() -> bool:
                row = list_offset(client, topic, LATEST)
                assert asking.name_of(row.error_code) in ("NONE", "OFFSET_NOT_AVAILABLE")
                assert row.error_code or row.offset == RECORDS + 1
                return not row.error_code

            eventually("the new leader knows the end", known)
            assert values(client.fetch(topic, RECORDS)) == [b"pending"]
        load.writes()
        assert not leader.running
        leader.start()
        cluster.all_in_sync(*load.topics, topic)
        load.writes()
        load.finish()
    load.judge(at_least=200)
    logs_equal(cluster.directories, *load.topics, topic)


def deleted(client: Client, topic: str, offset: int, timeout_ms: int = 20_000) -> tuple[str, int]:
    """The error and the low watermark."""
    rows = [DeleteRecordsPartition(partition_index=0, offset=offset)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=rows)], timeout_ms=timeout_ms)
    ((row,),) = [one.partitions for one in client.call(DELETE_RECORDS, request).topics]
    return asking.name_of(row.error_code), row.low_watermark


def test_records_are_deleted_by_all_that_live(cluster: Cluster) -> None:
    """The answer waits for a follower that does not hear its leader, but not for a broker that is gone. Each takes the
    start of its log from its leader when it can.
    """
    need_namespaces()
    with Round(cluster, settings.seed(), copies=False) as load:
        leader, other, cut = three(cluster)
        topic = load.another_topic("deleted", [leader.id, other.id, cut.id])

        def starts() -> list[int]:
            return [start_of(cluster, member, topic) for member in cluster.brokers if member.running]

        with asking.client(cluster, leader) as client:
            for number in range(RECORDS):
                assert asking.produced(client.produce(topic, batch(b"%d" % number))) == ("NONE", number)
            assert deleted(client, topic, 2) == ("NONE", 2)
            assert starts() == [2, 2, 2]
            with cluster.network.cut_one_way(leader.name, cut.name):
                # Its position with its leader stays as it was.
                assert deleted(client, topic, 4, 1000) == ("REQUEST_TIMED_OUT", 2)
                eventually("the one that hears deletes", lambda: start_of(cluster, other, topic) == 4)
                assert start_of(cluster, cut, topic) == 2
            eventually("it hears again, and deletes", lambda: start_of(cluster, cut, topic) == 4)
            assert deleted(client, topic, 5) == ("NONE", 5)
            assert starts() == [5, 5, 5]
            cut.kill()
            cluster.leaves(cut)
            assert deleted(client, topic, 7) == ("NONE", 7)
            assert len(starts()) == 2
            assert starts() == [7, 7]
        load.writes()
        cut.start()
        cluster.all_in_sync(*load.topics, topic)
        eventually("who was gone deletes", lambda: starts() == [7, 7, 7], facts=starts)
        load.writes()
        load.finish()
    load.judge(at_least=200)
    logs_equal(cluster.directories, *load.topics, topic)


def start_of(cluster: Cluster, member: Member, topic: str) -> int:
    """Of the broker's own replica, as a debugger is told."""
    with asking.client(cluster, member) as client:
        row = list_offset(client, topic, EARLIEST, replica_id=DEBUGGER)
    return row.offset if row.error_code == 0 else -1
