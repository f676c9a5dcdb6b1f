"""Which replica a consumer reads from (KIP-392): one in its own rack, so that its records cross no border.

The leader decides for each Fetch that names a rack, by what followers told it with their own Fetches. No I/O and no
clock. The rules are Kafka's `RackAwareReplicaSelector` and those by which a leader finds its candidates:

* The leader itself, if it is in the rack, or nobody else there can be read from.
* Else a follower in the rack, of those that are alive and whose log has the offset: from its start to its end, as it
  told when it last fetched. So none that has not fetched in this leader epoch.
* Of several the most caught up: the furthest end, then the last to have had everything, then the highest id.

A candidate is in sync, too. Kafka 2.7 also takes followers that are not; since KAFKA-14372 it does not. One that has
stopped copying would be chosen again and again for consumers that have read all it has, and they would not get on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.replication.in_sync import InSync


def nearest(rack: str, offset: int, in_sync: InSync, rack_of: Callable[[int], str | None]) -> int | None:
    """The follower that a consumer in `rack` is to read `offset` from; None: the leader. `rack_of` says where a broker
    stands; None: it is not alive, or nobody knows.
    """
    if rack_of(in_sync.leader) == rack:
        return None
    there = [
        (one.end_offset, -1 if one.caught_up_ms is None else one.caught_up_ms, broker)
        for broker, one in in_sync.followers.items()
        if broker in in_sync.isr and one.has(offset) and rack_of(broker) == rack
    ]
    return max(there)[2] if there else None
