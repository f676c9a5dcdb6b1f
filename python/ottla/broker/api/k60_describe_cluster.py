"""DescribeCluster (key 60): the brokers and the controller, without a topic (KIP-700). Later than 2.7."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.api.k03_metadata import cluster_operations
from ottla.errors import MismatchedEndpointType
from ottla.wire.k60_describe_cluster import (
    BROKERS,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import ClusterRooms

    DescribeCluster: TypeAlias = "Call[DescribeClusterRequest, DescribeClusterResponse]"

#: There are no controllers of their own in a cluster with a coordination tree.
NO_CONTROLLERS = "The request was sent to an endpoint of type BROKER, but it asks for endpoints of another type."


async def handle(call: DescribeCluster, rooms: ClusterRooms) -> None:
    asked = call.message
    if asked.endpoint_type != BROKERS:
        refused = DescribeClusterResponse(error_code=MismatchedEndpointType.code, error_message=NO_CONTROLLERS)
        call.reply(refused)
        return
    cache = rooms.metadata
    if not cache.is_known:
        await cache.known()
    answer = DescribeClusterResponse(
        cluster_id=rooms.cluster_id,
        controller_id=cache.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=other.broker_id, host=endpoint[0], port=endpoint[1], rack=other.rack)
            for other in cache.brokers.values()
            if (endpoint := rooms.endpoint(other, call.session)) is not None
        ],
    )
    if asked.include_cluster_authorized_operations:
        answer.cluster_authorized_operations = cluster_operations(call.rights)
    call.reply(answer)
