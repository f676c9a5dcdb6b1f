"""DescribeCluster: the brokers and the controller (KIP-700). Later than 2.7, and optional for every client.

Version 1: which kind of endpoints is asked for (KIP-919).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int8, Int16, Int32, Message, V

BROKERS = 1
"""The endpoint type of brokers; 2 is KRaft's controllers (KIP-919)."""


class DescribeClusterRequest(Message):
    include_cluster_authorized_operations: bool = False
    endpoint_type: Annotated[Int8, V("1+")] = BROKERS


class DescribeClusterBroker(Message):
    broker_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: Annotated[str | None, V(nullable="0+")] = None


class DescribeClusterResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None
    endpoint_type: Annotated[Int8, V("1+")] = BROKERS
    cluster_id: str = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = []
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
