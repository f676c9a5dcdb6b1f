"""How large a request may be. Brokers close the connection of one that is larger: Kafka's protocol has no answer to it,
and the reason stands in the broker's log alone.
"""

from __future__ import annotations

import trio

from ottla.client.cluster import Address, Cluster
from ottla.errors import KafkaError, MessageTooLarge, ProtocolError, counted
from ottla.kafka import BROKER_RESOURCE
from ottla.wire.k32_describe_configs import DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResource

SETTING = "socket.request.max.bytes"
OVERHEAD_BYTES = 1024
"""More than a request adds to a batch."""
TIMEOUT_S = 10
"""A broker that is there answers, late if its machine is busy; one that is gone refuses the connection at once. So only
one that takes connections and does nothing costs as long, during which what it closed goes nowhere else.
"""


async def request_bytes_max(cluster: Cluster, broker: Address) -> int | None:
    """How many bytes of batches a request to this broker may have; None if it does not say so."""
    number = next((number for number, address in cluster.metadata.brokers.items() if address == broker), None)
    asked = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name=str(number), configuration_keys=[SETTING]
    )
    try:
        with trio.fail_after(TIMEOUT_S):
            connection = await cluster.connection(broker)
            answer = await connection.call(DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=[asked]))
    except (KafkaError, ProtocolError, OSError, trio.TooSlowError):
        return None
    values = [int(each.value) for row in answer.results for each in row.configs if each.name == SETTING and each.value]
    return values[0] - OVERHEAD_BYTES if values else None


def too_large(what: str, size: int, bytes_max: int) -> MessageTooLarge:
    """The error of a batch that no request to this broker may hold."""
    return MessageTooLarge(
        f"{what} in {counted(size, 'byte')}, and the broker closes the connection of a request with more than "
        f"{counted(bytes_max + OVERHEAD_BYTES, 'byte')} ({SETTING})"
    )
