"""Requests of many rows, different and repeated: they are answered or refused, and others are answered meanwhile.

How much of the loop they take in one go is counted in `test_loop_turns.py`.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ottla import _core
from ottla.broker.admin import SETTINGS_MAX
from ottla.broker.api.k32_describe_configs import REMEMBERED_MAX
from ottla.client.errors import ConnectionLost
from ottla.controller.asked import REPLICAS_MAX
from ottla.controller.topic_changes import NEW_PARTITIONS_MAX
from ottla.errors import InvalidReplicaAssignment, InvalidRequest, UnknownTopicOrPartition
from ottla.replication.internal_topic import partition_for
from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic
from ottla.wire.k08_offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.k09_offset_fetch import OFFSET_FETCH, OffsetFetchRequest, OffsetFetchRequestTopic
from ottla.wire.k15_describe_groups import DESCRIBE_GROUPS, DescribeGroupsRequest
from ottla.wire.k19_create_topics import (
    CREATE_TOPICS,
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.k23_offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.wire.k32_describe_configs import DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.k33_alter_configs import ALTER_CONFIGS, AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from ottla.wire.k37_create_partitions import (
    CREATE_PARTITIONS,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.wire.k44_incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.k44_incremental_alter_configs import AlterableConfig as IncrementalConfig
from ottla.wire.k44_incremental_alter_configs import AlterConfigsResource as IncrementalResource
from ottla.wire.k47_offset_delete import (
    OFFSET_DELETE,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.k51_alter_user_scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from tests.peers.ottla import Broker
from tests.support.client import Client, batch, connect
from tests.support.group_client import Member
from tests.support.waiting import PATIENCE_S, eventually


class Honest(threading.Thread):
    """Produces one record after the other on a connection of its own, and counts the answers."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(daemon=True)
        self._broker = broker
        self._over = threading.Event()
        self.count = 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with connect(self._broker) as client:
                while not self._over.wait(0.001):
                    ((row,),) = [each.partitions for each in client.produce("honest", batch(b"x"), acks=1).responses]
                    assert row.error_code == 0
                    self.count += 1
        except Exception as error:
            self.error = error

    def stop(self) -> None:
        self._over.set()
        self.join(PATIENCE_S)
        if self.error is not None:
            raise self.error


@contextmanager
def beside(broker: Broker) -> Iterator[None]:
    """An honest client is answered before the block and after it, on one connection; a longer wait than that of any
    test is its error.
    """
    honest = Honest(broker)
    honest.start()
    try:
        eventually("a first answer", lambda: honest.count or honest.error)
        yield
        before = honest.count
        eventually("one more answer", lambda: honest.count > before or honest.error)
    finally:
        honest.stop()


@pytest.fixture(scope="module", autouse=True)
def topics(shared_broker: Broker) -> None:
    with connect(shared_broker) as client:
        client.create("honest")
        client.create("t", 2)
        client.produce("t", batch(b"x"))


def offsets(version: int, *names: str, count: int) -> Callable[[Client], Any]:
    rows = [ListOffsetsPartition(partition_index=0, timestamp=-1, max_num_offsets=1) for _ in range(count)]
    asked = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=rows) for name in names])
    return lambda client: client.call(LIST_OFFSETS, asked, version)


def test_list_offsets(client: Client, shared_broker: Broker) -> None:
    with beside(shared_broker):
        rows = offsets(5, "t", count=30_000)(client).topics[0].partitions
        assert {row.error_code for row in rows} == {InvalidRequest.code}
        rows = offsets(0, "t", count=30_000)(client).topics[0].partitions
        assert len(rows) == 30_000
        assert {tuple(row.old_style_offsets) for row in rows} == {(1,)}
        names = [f"unknown-{number}" for number in range(20_000)]
        answer = offsets(5, *names, count=1)(client)
        assert {row.partitions[0].error_code for row in answer.topics} == {UnknownTopicOrPartition.code}


def test_metadata(client: Client, shared_broker: Broker) -> None:
    names = [MetadataRequestTopic(name=f"unknown-{number}") for number in range(60_000)]
    with beside(shared_broker):
        answer = client.call(METADATA, MetadataRequest(topics=names, allow_auto_topic_creation=False), 8)
    assert {topic.error_code for topic in answer.topics} == {UnknownTopicOrPartition.code}
    assert len(answer.topics) == 60_000


def test_offset_for_leader_epoch(client: Client, shared_broker: Broker) -> None:
    rows = [OffsetForLeaderPartition(partition_index=number, leader_epoch=0) for number in range(40_000)]
    asked = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(name="t", partitions=rows)])
    with beside(shared_broker):
        (topic,) = client.call(OFFSET_FOR_LEADER_EPOCH, asked, 2).topics
    assert [row.error_code for row in topic.partitions[:3]] == [0, 0, UnknownTopicOrPartition.code]


def test_committed_offsets(client: Client, shared_broker: Broker) -> None:
    assert Member.connect(shared_broker, "many-rows").commit("t", 1) == 0
    indexes = [*range(40_000), *range(40_000)]
    asked = OffsetFetchRequest(
        group_id="many-rows", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=indexes)]
    )
    wanted = [OffsetDeleteRequestTopic(f"t-{number}", [OffsetDeleteRequestPartition(0)]) for number in range(20_000)]
    with beside(shared_broker):
        (topic,) = client.call(OFFSET_FETCH, asked, 5).topics
        assert len(topic.partitions) == 40_000
        deleted = client.call(OFFSET_DELETE, OffsetDeleteRequest(group_id="many-rows", topics=wanted), 0)
    assert len(deleted.topics) == 20_000


def test_credentials_of_many_users(client: Client, shared_broker: Broker) -> None:
    """It searched the whole list for each: four times as many took sixteen times as long."""
    rows = [ScramCredentialDeletion(name=f"user-{number}", mechanism=1) for number in range(3_000)]
    with beside(shared_broker):
        answer = client.call(
            ALTER_USER_SCRAM_CREDENTIALS, AlterUserScramCredentialsRequest(deletions=rows, upsertions=[]), 0
        )
    assert [row.user for row in answer.results] == [f"user-{number}" for number in range(3_000)]


def test_unknown_settings_of_many_topics(client: Client, shared_broker: Broker) -> None:
    setting = [CreatableTopicConfig(name="retentoin.ms", value="1")]
    rows = [
        CreatableTopic(name=f"refused-{number}", num_partitions=1, replication_factor=1, configs=setting)
        for number in range(1_000)
    ]
    with beside(shared_broker):
        answer = client.call(CREATE_TOPICS, CreateTopicsRequest(topics=rows, timeout_ms=1000), 4)
    assert all("retention.ms" in (row.error_message or "") for row in answer.topics)


def test_a_broker_is_described_as_often_as_it_is_named(client: Client, shared_broker: Broker) -> None:
    """As in Kafka. What it takes is added up before it is made: a few kilobytes could ask for gigabytes."""
    resource = DescribeConfigsResource(resource_type=4, resource_name=str(shared_broker.id), configuration_keys=None)

    def describe(client: Client, count: int) -> Any:
        asked = DescribeConfigsRequest(resources=[resource] * count, include_synonyms=True, include_documentation=True)
        return client.call(DESCRIBE_CONFIGS, asked, 3)

    with beside(shared_broker):
        results = describe(client, 20).results
        assert len(results) == 20
        assert all(result == results[0] for result in results)
        with connect(shared_broker) as other, pytest.raises((ConnectionLost, OSError)):
            describe(other, 10_000)
    reason = "the answer would have more than socket.request.max.bytes"
    eventually("a line about it", lambda: reason in shared_broker.output())


def test_a_group_is_described_as_often_as_it_is_named(client: Client, shared_broker: Broker) -> None:
    member = Member.connect(shared_broker, "large")
    assert member.join(metadata=b"x" * 800_000) == 0
    assert member.sync({member.id: b"all"}).error_code == 0
    with beside(shared_broker):
        answer = client.call(DESCRIBE_GROUPS, DescribeGroupsRequest(groups=["large", "none", "large"]), 5)
        assert [group.group_state for group in answer.groups] == ["Stable", "Dead", "Stable"]
        assert answer.groups[0] == answer.groups[2]
        with connect(shared_broker) as other, pytest.raises((ConnectionLost, OSError)):
            other.call(DESCRIBE_GROUPS, DescribeGroupsRequest(groups=["large"] * 500), 5)


def test_more_rows_than_a_cluster_has_are_no_message(client: Client, shared_broker: Broker) -> None:
    for call in (
        lambda client: client.call(METADATA, MetadataRequest(topics=[MetadataRequestTopic(name="a")] * 400_001), 8),
        lambda client: client.call(
            OFFSET_COMMIT,
            OffsetCommitRequest(
                group_id="g",
                topics=[OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0, 1)] * 400_000)],
            ),
            2,
        ),
    ):
        with connect(shared_broker) as other, pytest.raises((ConnectionLost, OSError)):
            call(other)
    assert client.produce("t", batch(b"x")).responses[0].partitions[0].error_code == 0


def test_more_than_there_can_be_of_one_resource_is_refused(client: Client, shared_broker: Broker) -> None:
    topics = [CreatePartitionsTopic("t", 2, [CreatePartitionsAssignment([0])] * (NEW_PARTITIONS_MAX + 1))]
    (grown,) = client.call(CREATE_PARTITIONS, CreatePartitionsRequest(topics=topics, timeout_ms=1000), 1).results
    assert (grown.error_code, "are more than" in grown.error_message) == (InvalidReplicaAssignment.code, True)
    one = [CreatableReplicaAssignment(number, [0]) for number in range(NEW_PARTITIONS_MAX + 1)]
    wide = [CreatableReplicaAssignment(0, list(range(REPLICAS_MAX + 1)))]
    settings = [CreatableTopicConfig(name="retention.ms", value="1")] * (SETTINGS_MAX + 1)
    rows = [
        CreatableTopic("many-assignments", -1, -1, one),
        CreatableTopic("many-replicas", -1, -1, wide),
        CreatableTopic("many-settings", 1, 1, configs=settings),
    ]
    refused = client.call(CREATE_TOPICS, CreateTopicsRequest(topics=rows, timeout_ms=1000), 4).topics
    assert [row.error_code for row in refused] == [*[InvalidReplicaAssignment.code] * 2, InvalidRequest.code]
    assert all("more than" in (row.error_message or "") for row in refused)
    replaced = AlterConfigsResource(2, "t", [AlterableConfig("retention.ms", "1")] * (SETTINGS_MAX + 1))
    (row,) = client.call(ALTER_CONFIGS, AlterConfigsRequest(resources=[replaced]), 1).responses
    assert (row.error_code, "are more than" in row.error_message) == (InvalidRequest.code, True)
    altered = IncrementalResource(2, "t", [IncrementalConfig(str(number)) for number in range(SETTINGS_MAX + 1)])
    (row,) = client.call(INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest(resources=[altered]), 1).responses
    assert (row.error_code, "are more than" in row.error_message) == (InvalidRequest.code, True)


def test_a_topic_is_described_by_any_number_of_names(client: Client, shared_broker: Broker) -> None:
    names = ["retention.ms", *(f"no.{number}" for number in range(REMEMBERED_MAX))]
    asked = [DescribeConfigsResource(2, "t", names), DescribeConfigsResource(2, "t", names[:1])] * 2
    results = client.call(DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=asked), 3).results
    assert [[config.name for config in result.configs] for result in results] == [["retention.ms"]] * 4


@pytest.mark.parametrize("key", ["", "group", "a" * 32_000, "snow\u2603", "\U0001f600 pair", "\ud83d lone"])
def test_java_and_ours_agree_on_who_coordinates(key: str) -> None:
    """Python, which reads one character after the other, would need milliseconds for a long one."""
    code = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >> 31 else code
    assert _core.java_hash(units) == signed
    assert partition_for(key, 50) == abs(signed) % 50
