"""Which of the brokers that Metadata name are alive: a broker that has just died is named for a while, so that clients
keep what they have of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ottla.errors import LocalProtocolError
from ottla.wire.k03_metadata import MetadataResponse
from ottla.wire.k60_describe_cluster import DESCRIBE_CLUSTER, DescribeClusterRequest, DescribeClusterResponse


async def leave_out_the_dead(answer: MetadataResponse, ask: Callable[[Any, Any], Awaitable[Any]]) -> None:
    """Takes the brokers out of a Metadata answer that DescribeCluster does not name. `ask` puts a request to the broker
    that gave the answer, and raises LocalProtocolError if that has no such API (Kafka before 2.8): then all stay.
    """
    try:
        described: DescribeClusterResponse = await ask(DESCRIBE_CLUSTER, DescribeClusterRequest())
    except LocalProtocolError:
        return
    if described.error_code == 0:
        alive = {row.broker_id for row in described.brokers}
        answer.brokers = [row for row in answer.brokers if row.node_id in alive]
