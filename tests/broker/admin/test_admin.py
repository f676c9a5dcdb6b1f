"""Topics, settings, metadata and producer ids on a real broker."""

import msgspec
import pytest

from ottla.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    LeaderNotAvailable,
    NotCoordinator,
    StaleBrokerEpoch,
    StaleControllerEpoch,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from ottla.wire import k33_alter_configs as alter_configs
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR, LeaderAndIsrRequest
from ottla.wire.k06_update_metadata import (
    UPDATE_METADATA,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.wire.k18_api_versions import API_VERSIONS, ApiVersionsRequest
from ottla.wire.k19_create_topics import (
    CREATE_TOPICS,
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.k20_delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from ottla.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from ottla.wire.k23_offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.wire.k32_describe_configs import DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.k37_create_partitions import CREATE_PARTITIONS, CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.k44_incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.peers.ottla import Broker, Brokers
from tests.support.client import Client, batch, connect, values
from tests.support.operations import list_offset
from tests.support.waiting import eventually

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1


def metadata(client: Client, *names: str, create: bool = False) -> MetadataResponse:
    topics = [MetadataRequestTopic(name=name) for name in names] if names else None
    return client.call(METADATA, MetadataRequest(topics=topics, allow_auto_topic_creation=create))


def test_api_versions_are_those_of_kafka_2_7(client: Client) -> None:
    answer = client.call(API_VERSIONS, ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
    ranges = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
    wanted = {
        0: (0, 8),
        1: (0, 12),
        2: (0, 5),
        3: (0, 9),
        8: (0, 8),
        9: (0, 7),
        10: (0, 3),
        11: (0, 7),
        12: (0, 4),
        13: (0, 4),
        14: (0, 5),
        15: (0, 5),
        16: (0, 4),
        18: (0, 3),
        19: (0, 6),
        20: (0, 5),
        21: (0, 2),
        22: (0, 4),
        23: (0, 3),
        27: (0, 1),
        28: (0, 3),
        32: (0, 3),
        33: (0, 1),
        34: (0, 1),
        35: (0, 2),
        37: (0, 3),
        42: (0, 2),
        44: (0, 1),
        47: (0, 0),
        60: (0, 1),
        61: (0, 0),
    }
    assert {key: ranges.get(key) for key in wanted} == wanted
    bad = client.call(API_VERSIONS, ApiVersionsRequest(client_software_name="-", client_software_version=""), 3)
    assert bad.error_code == InvalidRequest.code


def test_a_topic_lives_and_dies(client: Client) -> None:
    client.create("lives", 3)
    (topic,) = metadata(client, "lives").topics
    assert [(p.partition_index, p.error_code, p.leader_epoch) for p in topic.partitions] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, 0, 0),
    ]
    client.produce("lives", batch(b"old"), partition=1)
    answer = client.call(DELETE_TOPICS, DeleteTopicsRequest(topic_names=["lives", "never-was"], timeout_ms=60_000))
    assert {row.name: row.error_code for row in answer.responses} == {
        "lives": 0,
        "never-was": UnknownTopicOrPartition.code,
    }
    assert metadata(client, "lives").topics[0].error_code == UnknownTopicOrPartition.code
    client.create("lives", 2)
    assert values(client.fetch("lives", partition=1)) == [], "a topic of the same name begins empty"


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (CreatableTopic(name="exists", num_partitions=1, replication_factor=1), TopicAlreadyExists),
        (CreatableTopic(name="no spaces", num_partitions=1, replication_factor=1), InvalidTopic),
        (CreatableTopic(name="a", num_partitions=0, replication_factor=1), InvalidPartitions),
        (CreatableTopic(name="a", num_partitions=1, replication_factor=0), InvalidReplicationFactor),
        (CreatableTopic(name="a", num_partitions=1, replication_factor=3), InvalidReplicationFactor),
        (
            CreatableTopic(
                name="a",
                num_partitions=-1,
                replication_factor=-1,
                assignments=[CreatableReplicaAssignment(partition_index=5, broker_ids=[1])],
            ),
            InvalidReplicaAssignment,
        ),
        (
            CreatableTopic(
                name="a",
                num_partitions=1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name="retention.mz", value="1")],
            ),
            InvalidConfig,
        ),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_topics_that_are_refused(client: Client, topic: CreatableTopic, error: type) -> None:
    if topic.name == "exists":
        client.create("exists")
    answer = client.call(CREATE_TOPICS, CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 5)
    assert answer.topics[0].error_code == error.code, answer
    assert answer.topics[0].error_message
    if topic.name == "a":
        assert metadata(client, "a").topics[0].error_code == UnknownTopicOrPartition.code


def test_defaults_and_validate_only(client: Client) -> None:
    row = CreatableTopic(name="defaults", num_partitions=-1, replication_factor=-1)
    answer = client.call(CREATE_TOPICS, CreateTopicsRequest(topics=[row], timeout_ms=60_000, validate_only=True), 5)
    assert (answer.topics[0].error_code, answer.topics[0].num_partitions) == (0, 1)
    assert {config.name for config in answer.topics[0].configs or []} >= {"retention.ms", "segment.bytes"}
    assert metadata(client, "defaults").topics[0].error_code == UnknownTopicOrPartition.code


def test_a_topic_is_created_by_asking_for_it(client: Client) -> None:
    first = metadata(client, "asked-for", create=True).topics[0]
    assert first.error_code in (0, LeaderNotAvailable.code)
    eventually(
        "a leader",
        lambda: metadata(client, "asked-for", create=True).topics[0].error_code != LeaderNotAvailable.code,
    )
    assert client.produce("asked-for", batch(b"a")).responses[0].partitions[0].error_code == 0
    assert metadata(client, "not/a/name", create=True).topics[0].error_code == InvalidTopic.code


def test_partitions_are_added(client: Client) -> None:
    client.create("grows", 1)

    def grow(count: int) -> int:
        row = CreatePartitionsTopic(name="grows", count=count, assignments=None)
        answer = client.call(CREATE_PARTITIONS, CreatePartitionsRequest(topics=[row], timeout_ms=60_000))
        return answer.results[0].error_code

    assert grow(3) == 0
    assert len(metadata(client, "grows").topics[0].partitions) == 3
    assert grow(2) == InvalidPartitions.code
    assert client.produce("grows", batch(b"a"), partition=2).responses[0].partitions[0].error_code == 0


def configs(client: Client, kind: int, name: str) -> dict[str, tuple[str | None, int]]:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    answer = client.call(DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=[resource], include_synonyms=True))
    assert answer.results[0].error_code == 0, answer
    return {config.name: (config.value, config.config_source) for config in answer.results[0].configs}


def alter(client: Client, kind: int, name: str, operation: int, setting: str, value: str | None) -> int:
    change = AlterableConfig(name=setting, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    answer = client.call(INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest(resources=[resource]))
    return answer.responses[0].error_code


def test_settings_of_a_topic_take_effect_while_it_is_used(client: Client) -> None:
    client.create("settings", retention_ms="1000")
    described = configs(client, TOPIC, "settings")
    assert described["retention.ms"] == ("1000", 1)
    assert described["segment.bytes"] == ("1073741824", 5)
    assert alter(client, TOPIC, "settings", SET, "max.message.bytes", "200") == 0
    assert configs(client, TOPIC, "settings")["max.message.bytes"] == ("200", 1)
    eventually(
        "the change, of which the broker hears through the tree,",
        lambda: client.produce("settings", batch(b"x" * 500)).responses[0].partitions[0].error_code != 0,
    )
    assert alter(client, TOPIC, "settings", DELETE, "max.message.bytes", None) == 0
    assert configs(client, TOPIC, "settings")["max.message.bytes"] == ("1048588", 5)
    assert alter(client, TOPIC, "settings", SET, "max.message.bytes", "-7") == InvalidRequest.code
    assert alter(client, TOPIC, "settings", SET, "no.such.setting", "1") == InvalidConfig.code


def test_a_topic_whose_settings_are_replaced_twice_in_a_request_keeps_them(client: Client) -> None:
    """As with Kafka since 3.2: its AdminClient names each once, and what another one meant is not known."""
    names = ("replaced-twice", "replaced-once")
    for name in names:
        client.create(name, retention_ms="1000")
    rows = [
        alter_configs.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name,
            configs=[alter_configs.AlterableConfig(name="retention.ms", value=value)],
        )
        for name, value in ((names[0], "2000"), (names[1], "3000"), (names[0], "4000"))
    ]
    answer = client.call(alter_configs.ALTER_CONFIGS, alter_configs.AlterConfigsRequest(resources=rows))
    assert [(row.resource_name, row.error_code) for row in answer.responses] == [
        (names[0], InvalidRequest.code),
        (names[1], 0),
        (names[0], InvalidRequest.code),
    ]
    assert [configs(client, TOPIC, name)["retention.ms"][0] for name in names] == ["1000", "3000"]


def test_settings_of_the_broker(client: Client, shared_broker: Broker) -> None:
    name = str(shared_broker.id)
    described = configs(client, BROKER, name)
    assert len(described) > 200
    assert described["log.segment.bytes"] == ("1073741824", 5)
    assert alter(client, BROKER, name, SET, "log.retention.ms", "123456") == 0
    eventually(
        "the new retention",
        lambda: configs(client, BROKER, name)["log.retention.ms"] == ("123456", 2),
    )
    assert alter(client, BROKER, name, SET, "zookeeper.connect", "elsewhere:1") == InvalidRequest.code
    assert alter(client, BROKER, "4711", SET, "log.retention.ms", "1") == InvalidRequest.code


def test_offsets_are_found_by_time(client: Client) -> None:
    client.create("times")
    for timestamp_ms in (1000, 3000, 2000, 5000):
        client.produce("times", batch(b"v", timestamp_ms=timestamp_ms))

    def found(timestamp: int) -> tuple[int, int]:
        row = list_offset(client, "times", timestamp)
        assert row.error_code == 0
        return row.offset, row.timestamp

    assert found(-2) == (0, -1)
    assert found(-1) == (4, -1)
    assert found(1000) == (0, 1000)
    assert found(1001) == (1, 3000)
    assert found(3001) == (3, 5000)
    assert found(5001) == (-1, -1)
    assert list_offset(client, "times", -1, version=0).old_style_offsets == [4]
    assert list_offset(client, "times", -1, current_leader_epoch=9).error_code == 75
    assert list_offset(client, "nobody-made-this", -1).error_code == UnknownTopicOrPartition.code


def test_where_an_epoch_ends(client: Client) -> None:
    client.create("epoch-ends")
    client.produce("epoch-ends", batch(b"a", b"b"))

    def ends(epoch: int) -> tuple[int, int, int]:
        row = OffsetForLeaderPartition(partition_index=0, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(name="epoch-ends", partitions=[row])])
        found = client.call(OFFSET_FOR_LEADER_EPOCH, request, 3).topics[0].partitions[0]
        return found.error_code, found.leader_epoch, found.end_offset

    assert ends(0) == (0, 0, 2)
    assert ends(5) == (0, -1, -1)


def test_producer_ids_are_never_given_twice(brokers: Brokers) -> None:
    def take(broker: Broker, count: int) -> list[int]:
        with connect(broker) as client:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
            return [client.call(INIT_PRODUCER_ID, request).producer_id for _ in range(count)]

    broker = brokers()
    first = take(broker, 1005)
    broker.kill()
    broker = brokers.restart(broker)
    second = take(broker, 5)
    assert len({*first, *second}) == 1010
    assert min(second) > max(first)


def test_coordinators_are_found(client: Client, shared_broker: Broker) -> None:
    for version in range(4):
        answer = client.call(FIND_COORDINATOR, FindCoordinatorRequest("group"), version)
        found = (answer.error_code, answer.node_id, answer.host, answer.port)
        assert found == (0, shared_broker.id, "127.0.0.1", shared_broker.port)
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000)
    assert client.call(INIT_PRODUCER_ID, request).error_code == NotCoordinator.code, "nobody has asked for one yet"


def test_controllers_of_the_past_are_ignored(client: Client) -> None:
    before = metadata(client)
    old = LeaderAndIsrRequest(controller_id=77, controller_epoch=0)
    assert client.call(LEADER_AND_ISR, old, 4).error_code == StaleControllerEpoch.code
    stale = UpdateMetadataRequest(controller_id=77, controller_epoch=99, broker_epoch=0)
    assert client.call(UPDATE_METADATA, stale, 6).error_code == StaleBrokerEpoch.code
    assert msgspec.structs.asdict(metadata(client))["controller_id"] == before.controller_id


def test_a_controller_that_was_never_elected_is_ignored(client: Client) -> None:
    """The tree does not have its epoch. The true controller is heard as before."""
    before = metadata(client)
    brokers = [UpdateMetadataBroker(id=666, endpoints=[UpdateMetadataEndpoint(port=1, host="6.6.6.6", listener="X")])]
    false = UpdateMetadataRequest(controller_id=666, controller_epoch=2**31 - 1, broker_epoch=-1, live_brokers=brokers)
    assert client.call(UPDATE_METADATA, false, 6).error_code == StaleControllerEpoch.code
    assert metadata(client).brokers == before.brokers
    client.create("heard-by-the-true-controller")


def test_everything_is_there_after_a_restart_and_after_a_crash(brokers: Brokers) -> None:
    broker = brokers()
    with connect(broker) as client:
        client.create("stays", 2, retention_ms="-1")
        client.produce("stays", batch(b"one"), partition=1)
    broker.stop()
    broker = brokers.restart(broker)
    with connect(broker) as client:
        assert values(client.fetch("stays", partition=1)) == [b"one"]
        client.produce("stays", batch(b"two"), partition=1)
    broker.kill()
    broker = brokers.restart(broker)
    with connect(broker) as client:
        assert values(client.fetch("stays", partition=1)) == [b"one", b"two"]
        assert configs(client, TOPIC, "stays")["retention.ms"] == ("-1", 1)


def test_a_log_that_cannot_be_opened_fails_alone(brokers: Brokers) -> None:
    broker = brokers()
    with connect(broker) as client:
        client.create("half", 2)
        client.produce("half", batch(b"one"), partition=1)
    broker.stop()
    segment = broker.data / "half-0" / "00000000000000000000.log"
    segment.unlink()
    segment.mkdir()
    broker = brokers.restart(broker)
    with connect(broker) as client:
        assert values(client.fetch("half", partition=1)) == [b"one"]
        assert client.fetch("half", partition=0).responses[0].partition_responses[0].error_code != 0
