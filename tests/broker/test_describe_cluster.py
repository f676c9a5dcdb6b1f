"""DescribeCluster says what Metadata says."""

from ottla.wire.k03_metadata import METADATA, MetadataRequest
from ottla.wire.k60_describe_cluster import DESCRIBE_CLUSTER, DescribeClusterRequest
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
