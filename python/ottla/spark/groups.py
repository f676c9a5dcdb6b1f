"""Commits the offsets that a query has read to a consumer group."""

from collections.abc import Mapping

import trio

from ottla.client import Cluster, Security, TopicPartition
from ottla.client.groups import Committed, Groups

# The query waits for this, so not long.
TIMEOUT_MS = 5_000


def commit(
    servers: str, group: str, offsets: Mapping[TopicPartition, int], client_id: str, security: Security | None
) -> None:
    """Stores offsets for a group that has no members.

    Raises:
        KafkaError, OSError, ProtocolError: they are not stored, or not all.
        ValueError: what `security` names cannot be read.
    """

    async def store() -> None:
        async with Cluster(servers, client_id=client_id, timeout_ms=TIMEOUT_MS, security=security) as cluster:
            await Groups(cluster).commit(group, {each: Committed(offset) for each, offset in offsets.items()})

    trio.run(store)
