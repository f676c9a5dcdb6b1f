"""The finds of the fuzzers, each as a test of its own."""

from collections.abc import Iterator

import pytest

from ottla.errors import InvalidGroupId, InvalidRequest, MemberIdRequired, PolicyViolation, UnknownTopicOrPartition
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from ottla.wire.k09_offset_fetch import OFFSET_FETCH, OffsetFetchRequest, OffsetFetchRequestTopic
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.wire.k11_join_group import JOIN_GROUP, JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreateTopicsRequest
from ottla.wire.k37_create_partitions import CREATE_PARTITIONS, CreatePartitionsRequest, CreatePartitionsTopic
from tests.peers.ottla import Broker, Brokers
from tests.support.client import Client, connect
from tests.support.transactions import again


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Brokers(tmp_path_factory.mktemp("found")) as brokers:
        broker = brokers(settings={"group.initial.rebalance.delay.ms": 0})
        with connect(broker) as client:
            client.create("one")
        yield broker
        assert "Traceback" not in broker.output()


@pytest.fixture
def client(shared_broker: Broker) -> Iterator[Client]:
    with connect(shared_broker) as client:
        yield client


def test_a_protocol_that_is_named_twice(client: Client) -> None:
    """It was counted twice, so that no protocol had as many supporters as the group members: the broker ended."""
    protocols = [JoinGroupRequestProtocol("range", b"first"), JoinGroupRequestProtocol("range", b"second")]
    request = JoinGroupRequest(
        group_id="twice", session_timeout_ms=10_000, rebalance_timeout_ms=1_000, protocol_type="consumer"
    )
    request.protocols = protocols
    again(lambda: client.call(FIND_COORDINATOR, FindCoordinatorRequest(key="twice")))
    answer = again(lambda: client.call(JOIN_GROUP, request, 4))
    assert answer.error_code == MemberIdRequired.code
    request.member_id = answer.member_id
    answer = client.call(JOIN_GROUP, request, 4)
    assert (answer.error_code, answer.protocol_name) == (0, "range")
    assert [row.metadata for row in answer.members] == [b"first"]


@pytest.mark.parametrize(
    ("group", "topic", "error"),
    [("g", "with\0nothing", UnknownTopicOrPartition.code), ("g\0", "one", InvalidGroupId.code)],
)
def test_offsets_in_the_tree_under_names_that_it_does_not_take(
    client: Client, group: str, topic: str, error: int
) -> None:
    request = OffsetFetchRequest(group_id=group, topics=[OffsetFetchRequestTopic(topic, [0])])
    answer = client.call(OFFSET_FETCH, request, 0)
    assert answer.topics[0].partitions[0].error_code == error


@pytest.mark.parametrize("version", [0, 4, 11])
def test_a_fetch_of_less_than_nothing(client: Client, version: int) -> None:
    rows = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=-1)]
    request = FetchRequest(replica_id=-1, topics=[FetchTopic(topic="one", partitions=rows)])
    answer = client.call(FETCH, request, version)
    assert answer.responses[0].partition_responses[0].error_code == InvalidRequest.code


@pytest.mark.parametrize("count", [10_001, 0x7FFFFFFF])
@pytest.mark.parametrize("validate_only", [True, False])
def test_partitions_without_end(client: Client, count: int, validate_only: bool) -> None:
    """Millions were laid out one by one: nobody was served for a minute."""
    topic = CreatableTopic(name="endless", num_partitions=count, replication_factor=1)
    create = CreateTopicsRequest(topics=[topic], timeout_ms=1_000, validate_only=validate_only)
    assert client.call(CREATE_TOPICS, create).topics[0].error_code == PolicyViolation.code
    row = CreatePartitionsTopic(name="one", count=min(count + 1, 0x7FFFFFFF))
    grow = CreatePartitionsRequest(topics=[row], timeout_ms=1_000, validate_only=validate_only)
    assert client.call(CREATE_PARTITIONS, grow).results[0].error_code == PolicyViolation.code
