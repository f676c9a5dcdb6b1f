"""Groups on a real broker: the protocol in all its versions, what is refused, and what a restart keeps."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.errors import (
    CoordinatorLoadInProgress,
    FencedInstanceId,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    InvalidTopic,
    InvalidTxnState,
    MemberIdRequired,
    NonEmptyGroup,
    NotCoordinator,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    UnknownMemberId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from ottla.wire.k08_offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.k09_offset_fetch import OFFSET_FETCH, OffsetFetchRequest, OffsetFetchRequestTopic
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.wire.k13_leave_group import LEAVE_GROUP, LeaveGroupRequest, MemberIdentity
from ottla.wire.k15_describe_groups import DESCRIBE_GROUPS, DescribedGroup, DescribeGroupsRequest
from ottla.wire.k16_list_groups import LIST_GROUPS, ListGroupsRequest
from ottla.wire.k20_delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from ottla.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from ottla.wire.k25_add_offsets_to_txn import ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest
from ottla.wire.k26_end_txn import END_TXN, EndTxnRequest
from ottla.wire.k28_txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.wire.k42_delete_groups import DELETE_GROUPS, DeleteGroupsRequest
from ottla.wire.k47_offset_delete import (
    OFFSET_DELETE,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tests.peers.ottla import Broker, Brokers
from tests.support import group_client
from tests.support.client import Client, batch, connect
from tests.support.group_client import SUBSCRIPTION, Member
from tests.support.transactions import again
from tests.support.waiting import PATIENCE_S, eventually

#: The codes of a restarted coordinator until it has read its partition.
LOADING = {CoordinatorLoadInProgress.code, NotCoordinator.code}

SETTINGS = {"group.initial.rebalance.delay.ms": 0}


@pytest.fixture(scope="module")
def group_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Brokers(tmp_path_factory.mktemp("groups")) as brokers:
        broker = brokers(settings=SETTINGS)
        with connect(broker) as client:
            client.create("t", 3)
        yield broker


@pytest.fixture(autouse=True)
def close() -> Iterator[None]:
    yield
    while group_client.OPENED:
        group_client.OPENED.pop().close()


@pytest.fixture
def admin(group_broker: Broker) -> Iterator[Client]:
    with connect(group_broker) as client:
        yield client


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A group that no other test uses."""
    return str(request.node.name)


def describe(client: Client, group: str, version: int = 5) -> DescribedGroup:
    (row,) = client.call(DESCRIBE_GROUPS, DescribeGroupsRequest([group]), version).groups
    return row


def delete(client: Client, group: str) -> int:
    (row,) = client.call(DELETE_GROUPS, DeleteGroupsRequest([group])).results
    return row.error_code


def delete_offset(client: Client, group: str, topic: str) -> OffsetDeleteResponse:
    topics = [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(0)])]
    return client.call(OFFSET_DELETE, OffsetDeleteRequest(group, topics))


def stable(broker: Broker, group: str, instance: str | None = None) -> Member:
    """The only member of a stable group."""
    member = Member.connect(broker, group, instance)
    assert member.join() == 0
    assert member.sync({member.id: b"all"}).assignment == b"all"
    return member


@pytest.mark.parametrize("version", range(8))
def test_a_member_joins_syncs_and_leaves_in_every_version(group_broker: Broker, group: str, version: int) -> None:
    member = Member.connect(group_broker, group)
    member.send_join(version=version)
    if version >= 4:
        assert member.receive_join() == MemberIdRequired.code
        assert member.id.startswith(f"client-{group}-")
        member.send_join(version=version)
    assert member.receive_join() == 0
    joined = member.joined
    assert (joined.generation_id, joined.protocol_name, joined.leader) == (1, "range", member.id)
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    assert [(row.member_id, row.metadata) for row in joined.members] == [(member.id, SUBSCRIPTION)]
    assert member.sync({member.id: b"parts"}, version=min(version, 5)).assignment == b"parts"
    assert member.heartbeat(min(version, 4)) == 0
    assert member.leave(min(version, 4)) == 0
    assert member.heartbeat() == UnknownMemberId.code


def test_members_share_the_work(group_broker: Broker, group: str, admin: Client) -> None:
    first = stable(group_broker, group)
    second = Member.connect(group_broker, group)
    second.send_join()
    assert second.receive_join() == MemberIdRequired.code
    assert first.heartbeat() == 0, "an id alone is no member"
    second.send_join()
    eventually("a rebalance", lambda: first.heartbeat() == RebalanceInProgress.code)
    assert first.commit("t", 5) == 0, "what it owns until the rebalance, it may commit"
    assert describe(admin, group).group_state == "PreparingRebalance"
    first.send_join()
    assert (first.receive_join(), second.receive_join()) == (0, 0)
    assert (first.generation, second.generation, first.leads, second.leads) == (2, 2, True, False)
    assert {row.member_id for row in first.joined.members} == {first.id, second.id}
    assert second.joined.members == []
    second.send_sync()
    eventually(
        "the state CompletingRebalance",
        lambda: describe(admin, group).group_state == "CompletingRebalance",
    )
    assert first.commit("t", 6) == RebalanceInProgress.code
    first.send_sync({first.id: b"1", second.id: b"2"})
    assert [member.client.receive().assignment for member in (first, second)] == [b"1", b"2"]
    described = describe(admin, group)
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    assert {(row.member_id, row.member_assignment, row.client_host) for row in described.members} == {
        (first.id, b"1", "/127.0.0.1"),
        (second.id, b"2", "/127.0.0.1"),
    }
    assert second.leave() == 0
    assert first.heartbeat() == RebalanceInProgress.code
    assert first.join() == 0
    assert first.sync().assignment == b"", "a member that the leader forgot gets nothing, not nobody's answer"


def test_a_member_that_falls_silent_is_given_up(brokers: Brokers, group: str) -> None:
    broker = brokers(settings={**SETTINGS, "group.min.session.timeout.ms": 100})
    with connect(broker) as admin:
        member = Member.connect(broker, group)
        assert member.join(session_timeout_ms=200) == 0
        member.sync({})
        eventually("an empty group", lambda: describe(admin, group).group_state == "Empty")
    assert member.heartbeat() == UnknownMemberId.code


def test_a_static_member_comes_back_without_a_rebalance(group_broker: Broker, group: str) -> None:
    old = stable(group_broker, group, instance="one")
    assert old.id.startswith("one-"), "some clients look for the instance in the id"
    new = Member.connect(group_broker, group, instance="one")
    assert new.join() == 0
    assert (new.generation, new.id == old.id) == (old.generation, False)
    assert new.sync().assignment == b"all"
    assert new.heartbeat() == 0
    assert old.heartbeat() == FencedInstanceId.code
    assert old.commit("t", 1) == FencedInstanceId.code
    assert old.join() == FencedInstanceId.code
    assert old.sync().error_code == FencedInstanceId.code
    assert old.leave() == FencedInstanceId.code


def test_members_leave_together(group_broker: Broker, group: str, admin: Client) -> None:
    member = stable(group_broker, group, instance="one")
    # An administrator removes static members by their instance.
    leaving = [MemberIdentity("", "one"), MemberIdentity("", "two"), MemberIdentity("unknown", None)]
    rows = admin.call(LEAVE_GROUP, LeaveGroupRequest(group, members=leaving)).members
    assert [(row.member_id, row.group_instance_id, row.error_code) for row in rows] == [
        ("", "one", 0),
        ("", "two", UnknownMemberId.code),
        ("unknown", None, UnknownMemberId.code),
    ]
    assert member.heartbeat() == UnknownMemberId.code


def test_what_is_refused(group_broker: Broker, group: str, admin: Client) -> None:
    member = stable(group_broker, group)
    stranger = Member.connect(group_broker, group)
    stranger.id, stranger.generation = "stranger", 1
    assert stranger.join() == UnknownMemberId.code
    assert stranger.heartbeat() == UnknownMemberId.code
    assert stranger.sync().error_code == UnknownMemberId.code
    assert stranger.commit("t", 1) == UnknownMemberId.code
    assert stranger.leave() == UnknownMemberId.code
    member.generation = 7
    assert member.heartbeat() == IllegalGeneration.code
    assert member.sync().error_code == IllegalGeneration.code
    assert member.commit("t", 1) == IllegalGeneration.code
    nobody = Member.connect(group_broker, "never heard of")
    nobody.generation = 0
    assert nobody.commit("t", 1) == IllegalGeneration.code
    nameless = Member(admin, "")
    assert nameless.join() == InvalidGroupId.code
    assert nameless.heartbeat() == InvalidGroupId.code
    assert nameless.sync().error_code == InvalidGroupId.code
    newcomer = Member.connect(group_broker, group)
    assert newcomer.join(session_timeout_ms=1) == InvalidSessionTimeout.code
    found = admin.call(FIND_COORDINATOR, FindCoordinatorRequest("k", 9))
    assert (found.error_code, found.node_id) == (InvalidRequest.code, -1)


def test_a_sync_must_say_the_protocol_of_its_join(group_broker: Broker, group: str) -> None:
    member = stable(group_broker, group)
    assert member.sync(version=4).error_code == 0
    member.send_sync(version=5)
    assert member.client.receive().error_code == 0
    from ottla.wire.k14_sync_group import SYNC_GROUP, SyncGroupRequest

    for names in ((None, None), ("consumer", None), ("connect", "range"), ("consumer", "sticky")):
        request = SyncGroupRequest(group, member.generation, member.id, None, *names)
        assert member.client.call(SYNC_GROUP, request, 5).error_code == InconsistentGroupProtocol.code


@pytest.mark.parametrize("version", range(1, 9))
def test_offsets_are_kept_in_every_version(group_broker: Broker, group: str, version: int) -> None:
    alone = Member.connect(group_broker, group)
    assert alone.committed("t") == (-1, 0)
    assert alone.commit("t", 10 + version, version=version) == 0
    for read in range(1, 8):
        assert alone.committed("t", version=read) == (10 + version, 0)


def test_all_offsets_of_a_group_are_told_at_once(group_broker: Broker, group: str, admin: Client) -> None:
    alone = Member.connect(group_broker, group)
    for partition in range(3):
        assert alone.commit("t", 5, partition=partition) == 0
    for version in range(2, 8):
        answer = admin.call(OFFSET_FETCH, OffsetFetchRequest(group, None), version)
        (topic,) = answer.topics
        assert topic.name == "t"
        assert {(row.partition_index, row.committed_offset, row.metadata) for row in topic.partitions} == {
            (partition, 5, "note") for partition in range(3)
        }


def test_commits_that_cannot_be(group_broker: Broker, group: str) -> None:
    alone = Member.connect(group_broker, group)
    assert alone.commit("no such topic", 1) == UnknownTopicOrPartition.code
    assert alone.commit("t", 1, partition=3) == UnknownTopicOrPartition.code
    assert alone.commit("t", 1, committed_metadata="x" * 4097) == OffsetMetadataTooLarge.code
    assert alone.commit("t", 1, committed_metadata="x" * 4096) == 0
    assert alone.commit("t", 2, committed_metadata=None) == 0
    assert alone.committed("t") == (2, 0)


def test_who_was_not_given_partitions_yet_commits_nothing(group_broker: Broker, group: str) -> None:
    """Between joining and the leader's sync nobody knows whose the partitions are."""
    member = Member.connect(group_broker, group)
    assert member.join() == 0
    assert member.commit("t", 5) == RebalanceInProgress.code
    assert member.committed("t") == (-1, 0)
    assert member.sync({member.id: b"all"}).error_code == 0
    assert member.commit("t", 6) == 0
    assert member.committed("t") == (6, 0)


def test_commits_that_come_together_are_answered_in_turn(group_broker: Broker, group: str) -> None:
    alone = Member.connect(group_broker, group)
    for offset in range(50):
        rows = [OffsetCommitRequestPartition(offset % 3, offset)]
        alone.client.send(OFFSET_COMMIT, OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("t", rows)]))
        alone.client.send(OFFSET_FETCH, OffsetFetchRequest(group, [OffsetFetchRequestTopic("t", [offset % 3])]))
    for offset in range(50):
        assert alone.client.receive().topics[0].partitions[0].error_code == 0
        assert alone.client.receive().topics[0].partitions[0].committed_offset == offset


def test_version_0_keeps_offsets_in_the_tree(group_broker: Broker, group: str) -> None:
    alone = Member.connect(group_broker, group)
    assert alone.committed("t", version=0) == (-1, UnknownTopicOrPartition.code)
    assert alone.commit("t", 17, version=0) == 0
    assert alone.commit("t", 18, version=0) == 0
    assert alone.committed("t", version=0) == (18, 0)
    assert alone.committed("t", version=1) == (-1, 0), "the topic's offsets are others"
    assert Member(alone.client, "a/b").commit("t", 1, version=0) == InvalidGroupId.code


def test_groups_are_listed_and_deleted(group_broker: Broker, group: str, admin: Client) -> None:
    member = stable(group_broker, group)
    assert member.commit("t", 3) == 0
    rows = {row.group_id: row for row in admin.call(LIST_GROUPS, ListGroupsRequest(["Stable"])).groups}
    assert (rows[group].protocol_type, rows[group].group_state) == ("consumer", "Stable")
    assert delete(admin, group) == NonEmptyGroup.code
    deleted = delete_offset(admin, group, "t")
    assert deleted.topics[0].partitions[0].error_code == GroupSubscribedToTopic.code
    assert member.leave() == 0
    assert describe(admin, group).group_state == "Empty"
    assert delete(admin, group) == 0
    assert delete(admin, group) == GroupIdNotFound.code
    assert describe(admin, group).group_state == "Dead"
    assert group not in {row.group_id for row in admin.call(LIST_GROUPS, ListGroupsRequest(), 0).groups}
    assert Member(admin, group).committed("t") == (-1, 0)


def test_offsets_of_a_topic_are_deleted(group_broker: Broker, group: str, admin: Client) -> None:
    assert delete_offset(admin, group, "t").error_code == GroupIdNotFound.code
    alone = Member.connect(group_broker, group)
    assert alone.commit("t", 3) == 0
    assert alone.commit("t", 4, partition=1) == 0
    assert delete_offset(admin, group, "t").topics[0].partitions[0].error_code == 0
    assert (alone.committed("t"), alone.committed("t", partition=1)) == ((-1, 0), (4, 0))
    rows = delete_offset(admin, group, "unknown").topics
    assert rows[0].partitions[0].error_code == UnknownTopicOrPartition.code


def test_a_deleted_topic_takes_its_offsets_along(group_broker: Broker, group: str, admin: Client) -> None:
    admin.create(f"{group}-topic")
    alone = Member.connect(group_broker, group)
    assert alone.commit(f"{group}-topic", 3) == 0
    request = DeleteTopicsRequest(topic_names=[f"{group}-topic"], timeout_ms=60_000)
    assert admin.call(DELETE_TOPICS, request, 3).responses[0].error_code == 0
    assert alone.committed(f"{group}-topic") == (-1, 0)


def test_offsets_of_a_transaction_need_one(group_broker: Broker, group: str, admin: Client) -> None:
    """A transaction that its coordinator has not heard of is refused: nobody would ever end it."""
    member = Member.connect(group_broker, group)
    found = admin.call(FIND_COORDINATOR, FindCoordinatorRequest("transactional", 1))
    assert found.error_code == 0
    begun = again(lambda: admin.call(INIT_PRODUCER_ID, InitProducerIdRequest("transactional", 60_000)))
    assert begun.error_code == 0

    def commit(offset: int) -> int:
        row = TxnOffsetCommitRequestPartition(0, offset)
        request = TxnOffsetCommitRequest(
            "transactional",
            group,
            begun.producer_id,
            begun.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic("t", [row])],
        )
        (topic,) = admin.call(TXN_OFFSET_COMMIT, request).topics
        return topic.partitions[0].error_code

    def end(*, commit: bool) -> None:
        request = EndTxnRequest("transactional", begun.producer_id, begun.producer_epoch, commit)
        assert admin.call(END_TXN, request).error_code == 0

    def add() -> None:
        request = AddOffsetsToTxnRequest("transactional", begun.producer_id, begun.producer_epoch, group)
        assert again(lambda: admin.call(ADD_OFFSETS_TO_TXN, request)).error_code == 0

    assert commit(5) == InvalidTxnState.code
    add()
    assert commit(5) == 0
    assert member.committed("t") == (-1, 0)
    assert member.committed("t", require_stable=True) == (-1, UnstableOffsetCommit.code)
    end(commit=True)
    eventually(
        "a stable offset",
        lambda: member.committed("t", require_stable=True)[1] != UnstableOffsetCommit.code,
    )
    assert member.committed("t") == (5, 0)
    add()
    assert commit(9) == 0
    end(commit=False)
    eventually(
        "a stable offset",
        lambda: member.committed("t", require_stable=True)[1] != UnstableOffsetCommit.code,
    )
    assert member.committed("t") == (5, 0)


def test_nobody_else_writes_what_coordinators_keep(group_broker: Broker, group: str, admin: Client) -> None:
    Member.connect(group_broker, group)
    for acks in (1, -1):
        (row,) = admin.produce("__consumer_offsets", batch(b"forged"), acks=acks).responses
        assert row.partitions[0].error_code == InvalidTopic.code


def test_a_restart_keeps_groups_and_offsets(brokers: Brokers, group: str, tmp_path: Path) -> None:
    broker = brokers(settings=SETTINGS)
    with connect(broker) as admin:
        admin.create("t", 1)
        member = stable(broker, group, instance="one")
        assert member.commit("t", 33) == 0
        alone = Member.connect(broker, "alone")
        assert alone.commit("t", 44) == 0
        deleted = Member.connect(broker, "deleted")
        assert deleted.commit("t", 55) == 0
        assert delete(admin, "deleted") == 0
    for stop in (signal.SIGTERM, signal.SIGKILL):
        broker.process.send_signal(stop)
        broker.process.wait(PATIENCE_S)
        broker = brokers.restart(broker)
        with connect(broker) as admin:
            member.client = admin
            eventually("a coordinator", lambda: member.committed("t")[1] not in LOADING)
            assert member.heartbeat() == 0, "the member has not even noticed"
            assert member.committed("t") == (33, 0)
            described = describe(admin, group)
            assert (described.group_state, described.protocol_data) == ("Stable", "range")
            assert [(row.group_instance_id, row.member_assignment) for row in described.members] == [("one", b"all")]
            for name, offset in (("alone", 44), ("deleted", -1)):
                other = Member(admin, name)
                eventually("a coordinator", lambda: other.committed("t")[1] not in LOADING)  # noqa: B023 called at once
                assert other.committed("t") == (offset, 0), "a deleted group does not come back"
            assert member.sync().assignment == b"all"


def test_compaction_leaves_the_last_word(brokers: Brokers, group: str) -> None:
    """Thousands of commits of a few partitions, in small segments: what is left after them says the same."""
    settings = {
        **SETTINGS,
        "offsets.topic.num.partitions": 1,
        "offsets.topic.segment.bytes": 20_000,
        "log.cleaner.backoff.ms": 20,
        "log.cleaner.min.cleanable.ratio": 0.01,
    }
    broker = brokers(settings=settings)
    with connect(broker) as client:
        client.create("t", 3)
    member = stable(broker, group, instance="one")
    for offset in range(900):
        assert member.commit("t", offset, partition=offset % 3) == 0
    (folder,) = broker.data.glob("__consumer_offsets-*")

    def is_compacted() -> bool:
        assert member.heartbeat() == 0
        return sum(file.stat().st_size for file in folder.glob("*.log")) <= 60_000

    eventually("the compaction", is_compacted)
    broker.kill()
    broker = brokers.restart(broker, settings=settings)
    with connect(broker) as member.client:
        eventually(
            "a heartbeat and an offset without an error",
            lambda: not (member.heartbeat() or member.committed("t")[1]),
        )
        assert [member.committed("t", partition=n) for n in range(3)] == [(897 + n, 0) for n in range(3)]
        assert member.sync().assignment == b"all"


def test_who_waits_is_answered_when_the_broker_stops(brokers: Brokers, group: str) -> None:
    broker = brokers()  # with Kafka's delay of three seconds before the first generation
    member = Member.connect(broker, group)
    member.send_join(version=3)
    broker.process.send_signal(signal.SIGTERM)
    assert member.receive_join() == NotCoordinator.code
    assert broker.process.wait(PATIENCE_S) == 0
