"""DescribeCluster says what Metadata says."""

import pytest

from ottla.errors import MismatchedEndpointType
from ottla.wire.k03_metadata import METADATA, MetadataRequest
from ottla.wire.k60_describe_cluster import DESCRIBE_CLUSTER, DescribeClusterRequest
from tests.peers.ottla import Broker
from tests.peers.skips import module
from tests.support.client import Client


def test_brokers_and_controller(client: Client) -> None:
    metadata = client.call(METADATA, MetadataRequest(topics=[], include_cluster_authorized_operations=True), 8)
    cluster = client.call(DESCRIBE_CLUSTER, DescribeClusterRequest(include_cluster_authorized_operations=True), 0)
    assert cluster.error_code == 0
    assert (cluster.cluster_id, cluster.controller_id) == (metadata.cluster_id, metadata.controller_id)
    assert [(each.broker_id, each.host, each.port) for each in cluster.brokers] == [
        (each.node_id, each.host, each.port) for each in metadata.brokers
    ]
    assert len(cluster.brokers) == 1
    assert cluster.cluster_authorized_operations == metadata.cluster_authorized_operations > 0


def test_operations_are_told_to_those_who_ask(client: Client) -> None:
    cluster = client.call(DESCRIBE_CLUSTER, DescribeClusterRequest(), 0)
    assert cluster.cluster_authorized_operations == -(2**31)


def test_only_endpoints_of_brokers_are_told(client: Client) -> None:
    asked = DescribeClusterRequest(endpoint_type=1)
    assert client.call(DESCRIBE_CLUSTER, asked, 1).brokers == client.call(DESCRIBE_CLUSTER, asked, 0).brokers
    refused = client.call(DESCRIBE_CLUSTER, DescribeClusterRequest(endpoint_type=2), 1)
    assert (refused.error_code, refused.brokers) == (MismatchedEndpointType.code, [])


@pytest.mark.clients
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kafka_python_asks_for_it(shared_broker: Broker) -> None:
    admin = module("clients", "kafka").KafkaAdminClient(bootstrap_servers=shared_broker.bootstrap)
    try:
        assert [broker["broker_id"] for broker in admin.describe_cluster()["brokers"]] == [shared_broker.id]
    finally:
        admin.close()
