"""When access rules change, what was allowed by those before ends.

Leases of the topics that a rule may concern end at once, and with them what the hub knows of clients' rights there. A
Fetch that waits in the hub is answered, and the next one is asked about. A Fetch that waits in Python reads again, and
is answered with what its client may have now.

Kafka looks at a client's rights when a Fetch comes, and not again before its answer.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import trio

from ottla.slices import Slices
from ottla.wire.acls import ANY_NAME, Pattern, PatternType
from ottla.wire.needs import Resource

if TYPE_CHECKING:
    from ottla.replication.leases import Leases
    from ottla.replication.replicas import Replicas


class ServedBefore:
    """The clients that one broker has begun to serve, or lets the hub serve."""

    def __init__(self, replicas: Replicas, leases: Leases) -> None:
        self._replicas = replicas
        self._leases = leases
        self._changed = trio.Event()

    def rules_changed(self, pattern: Pattern | None) -> None:
        """Other rules hold from now on: those of a pattern, or any for None."""
        for topic in concerned(pattern, self._leases.topics):
            self._leases.end_of(topic)
        self._changed.set()

    async def run(self) -> None:
        """Has the Fetches read again after each change, until cancelled. Many changes at once are one."""
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            slices = Slices(own=True)
            for partition in list(self._replicas.partitions.values()):
                partition.waiting_fetches.look_again(partition)
                await slices.row()


def concerned(pattern: Pattern | None, topics: Collection[str]) -> list[str]:
    """Those of the topics to which clients may have other rights when the rules of a pattern change; all for None."""
    if pattern is None or pattern.resource is Resource.CLUSTER:
        # Only by the cluster's rules a client may write with a producer id.
        return list(topics)
    if pattern.resource is not Resource.TOPIC:
        return []
    if pattern.kind is PatternType.PREFIXED:
        return [topic for topic in topics if topic.startswith(pattern.name)]
    if pattern.name == ANY_NAME:
        return list(topics)
    return [pattern.name] if pattern.name in topics else []
