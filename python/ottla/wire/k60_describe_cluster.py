"""DescribeCluster: the brokers and the controller (KIP-700). Later than 2.7, and optional for every client.

It took the place of a Metadata request without topics.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int8, Int16, Int32, Message, V

BROKERS = 1
"""The endpoint type of brokers; 2 is KRaft's controllers (KIP-919)."""


class DescribeClusterRequest(Message):
    """Nothing but options."""

    #: Asks for the bits below, which take time to find out (KIP-430).
    include_cluster_authorized_operations: bool = False
    #: Whose addresses are asked for. A broker that is asked for controllers answers MISMATCHED_ENDPOINT_TYPE (KIP-919).
    endpoint_type: Annotated[Int8, V("1+")] = BROKERS


class DescribeClusterBroker(Message):
    """A broker's address on the listener through which the request came."""

    #: Its broker.id.
    broker_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    #: Its broker.rack; null without one (KIP-36).
    rack: Annotated[str | None, V(nullable="0+")] = None


class DescribeClusterResponse(Message):
    """The cluster as one broker sees it."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None
    #: As in the request.
    endpoint_type: Annotated[Int8, V("1+")] = BROKERS
    #: As in Metadata (KIP-78).
    cluster_id: str = ""
    #: -1 if this broker knows none.
    controller_id: Int32 = -1
    #: Those that are alive. A broker without this listener is left out.
    brokers: list[DescribeClusterBroker] = []
    #: As in Metadata. -2147483648 if it was not asked for.
    cluster_authorized_operations: Int32 = -(2**31)


DESCRIBE_CLUSTER = Api(
    60,
    "DescribeCluster",
    "0-1",
    flexible=0,
    request=DescribeClusterRequest,
    response=DescribeClusterResponse,
    # What a client may do to the cluster is told to clients with DESCRIBE on CLUSTER.
    needs="",
)
