"""ElectLeaders and reassignments on one broker, asked by confluent-kafka, kafka-python, and byte by byte."""

import confluent_kafka
import confluent_kafka.admin
import pytest

from ottla.errors import (
    ElectionNotNeeded,
    InvalidReplicaAssignment,
    InvalidRequest,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
)
from ottla.wire.k43_elect_leaders import ELECT_LEADERS, ElectLeadersRequest, TopicPartitions
from ottla.wire.k46_list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.peers.ottla import Broker
from tests.support.client import Client
from tests.support.waiting import PATIENCE_S


def test_confluent_elects_leaders(client: Client, shared_broker: Broker) -> None:
    client.create("elected", partitions=2)
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": shared_broker.bootstrap})
    known = [confluent_kafka.TopicPartition("elected", index) for index in range(2)]
    unknown = confluent_kafka.TopicPartition("elected", 7)
    for kind in confluent_kafka.ElectionType:
        answer = admin.elect_leaders(kind, [*known, unknown]).result(PATIENCE_S)
        codes = {(row.topic, row.partition): error and error.code() for row, error in answer.items()}
        assert codes == {
            ("elected", 0): ElectionNotNeeded.code,
            ("elected", 1): ElectionNotNeeded.code,
            ("elected", 7): UnknownTopicOrPartition.code,
        }


@pytest.mark.parametrize("version", range(3))
def test_an_election_of_all_names_only_what_was_elected(client: Client, version: int) -> None:
    client.create(f"all-{version}")
    answer = client.call(ELECT_LEADERS, ElectLeadersRequest(topic_partitions=None), version)
    assert (answer.error_code, answer.replica_election_results) == (0, [])


def test_another_kind_of_election_is_refused(client: Client) -> None:
    rows = [TopicPartitions(topic="any", partition_id=[0])]
    answer = client.call(ELECT_LEADERS, ElectLeadersRequest(election_type=7, topic_partitions=rows))
    assert answer.error_code == InvalidRequest.code


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kafka_python_reassigns(client: Client, shared_broker: Broker) -> None:
    import kafka

    python_admin = kafka.KafkaAdminClient(bootstrap_servers=shared_broker.bootstrap)
    client.create("moved", partitions=3)
    here, to_nobody, unmoved = shared_broker.id, [4711], None
    names = [kafka.TopicPartition("moved", index) for index in (0, 1, 2, 9)]
    answer = python_admin.alter_partition_reassignments(
        dict(zip(names, ([here], to_nobody, [here, here], unmoved), strict=True))
    )
    codes = {name.partition: getattr(error, "errno", 0) or 0 for name, error in answer.items()}
    assert codes == {
        0: 0,
        1: InvalidReplicaAssignment.code,
        2: InvalidReplicaAssignment.code,
        9: NoReassignmentInProgress.code,
    }
    assert python_admin.list_partition_reassignments() == {}
    python_admin.close()


def test_nothing_moves_on_one_broker(client: Client) -> None:
    rows = [ListPartitionReassignmentsTopics(name="moved", partition_indexes=[0, 1])]
    for topics in (rows, None, []):
        answer = client.call(LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsRequest(topics=topics))
        assert (answer.error_code, answer.topics) == (0, [])
