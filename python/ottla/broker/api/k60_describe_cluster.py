"""DescribeCluster (key 60): the brokers and the controller, without a topic (KIP-700). Later than 2.7."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.k03_metadata import CLUSTER_OPERATIONS
from ottla.broker.replies import reply
from ottla.errors import MismatchedEndpointType
from ottla.wire.k60_describe_cluster import (
    BROKERS,
    DESCRIBE_CLUSTER,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import ClusterContext

#: There are no controllers of their own in a cluster with a coordination tree.
NO_CONTROLLERS = "The request was sent to an endpoint of type BROKER, but it asks for endpoints of another type."


async def handle(broker: ClusterContext, request: Request) -> None:
    version = request.api_version
    asked: DescribeClusterRequest = DESCRIBE_CLUSTER.decode_request(version, request)
    if asked.endpoint_type != BROKERS:
        refused = DescribeClusterResponse(error_code=MismatchedEndpointType.code, error_message=NO_CONTROLLERS)
        reply(broker, request, DESCRIBE_CLUSTER, refused)
        return
    cache = broker.metadata
    if not cache.is_known:
        await cache.known()
    answer = DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=cache.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=other.broker_id, host=endpoint[0], port=endpoint[1], rack=other.rack)
            for other in cache.brokers.values()
            if (endpoint := broker.endpoint(other, request)) is not None
        ],
    )
    if asked.include_cluster_authorized_operations:
        answer.cluster_authorized_operations = CLUSTER_OPERATIONS
    reply(broker, request, DESCRIBE_CLUSTER, answer)
