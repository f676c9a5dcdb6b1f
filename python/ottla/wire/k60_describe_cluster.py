"""DescribeCluster: the brokers and the controller (KIP-700). Later than 2.7, and optional for every client."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Message, V


class DescribeClusterRequest(Message):
    include_cluster_authorized_operations: bool = False


class DescribeClusterBroker(Message):
    broker_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: Annotated[str | None, V(nullable="0+")] = None


class DescribeClusterResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None
    cluster_id: str = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = []
    cluster_authorized_operations: Int32 = -(2**31)


DESCRIBE_CLUSTER = Api(
    60, "DescribeCluster", "0", flexible=0, request=DescribeClusterRequest, response=DescribeClusterResponse
)
