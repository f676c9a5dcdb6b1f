"""Ids that are as long as texts can be, and times that are as late as numbers can be, spoil nothing."""

from ottla.wire.k08_offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.k09_offset_fetch import OFFSET_FETCH, OffsetFetchRequest, OffsetFetchRequestTopic
from tests.peers.ottla import Broker
from tests.support.client import Client
from tests.support.group_client import Member
from tests.support.waiting import eventually


def commit(client: Client, group: str, retention_ms: int) -> int:
    rows = [OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
    asked = OffsetCommitRequest(
        group_id=group,
        retention_time_ms=retention_ms,
        topics=[OffsetCommitRequestTopic("times", rows)],
    )
    return client.call(OFFSET_COMMIT, asked, 3).topics[0].partitions[0].error_code


def test_any_retention_is_taken(client: Client, shared_broker: Broker) -> None:
    """The connection was closed, and the offset was about to change for ever: readers that wait for stable offsets did
    not begin.
    """
    client.create("times")
    for number, retention_ms in enumerate((2**63 - 1, 2**62, -(2**63), -2, 0)):
        group = f"times-{number}"
        Member.connect(shared_broker, group)
        assert commit(client, group, retention_ms) == 0
        asked = OffsetFetchRequest(
            group_id=group,
            topics=[OffsetFetchRequestTopic(name="times", partition_indexes=[0])],
            require_stable=True,
        )
        (topic,) = client.call(OFFSET_FETCH, asked, 7).topics
        assert (topic.partitions[0].error_code, topic.partitions[0].committed_offset) == (0, 7)


def test_an_instance_id_as_long_as_a_text_hurts_nobody(shared_broker: Broker) -> None:
    """The id of a member begins with it, and has to fit into the answer of every other member's leader."""
    honest = Member.connect(shared_broker, "long-ids")
    assert honest.join() == 0
    assert honest.sync({honest.id: b"all"}).error_code == 0
    long = Member.connect(shared_broker, "long-ids", "i" * 32_767)
    long.send_join()
    eventually("a rebalance", lambda: honest.heartbeat() == 27)
    assert honest.join() == 0
    assert long.receive_join() == 0
    assert len(long.id) < 32_767
    leader, other = (honest, long) if honest.leads else (long, honest)
    leader.send_sync({honest.id: b"half", long.id: b"half"})
    other.send_sync()
    assert [member.client.receive().assignment for member in (honest, long)] == [b"half", b"half"]


def test_so_does_a_client_id(shared_broker: Broker) -> None:
    with Client.connect("127.0.0.1", shared_broker.port, "\u2603" * 10_900) as client:
        Member.connect(shared_broker, "long-client")
        member = Member(client, "long-client")
        assert member.join(version=3) == 0
        assert len(member.id.encode()) < 32_767
