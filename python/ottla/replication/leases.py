"""Leases: the hub appends to a partition and reads from it without asking, for as long as nothing happens to it.

What `k00_produce` decides about a plain Produce (one partition, current format, no transaction; acks=0 or 1, or all
where that asks for no more than the append), and `k01_fetch` about a plain Fetch (of a consumer without session, that
reads everything), is the same from one to the next until the partition's role, epoch, log, directory or settings
change, or quotas are set. So the first of them grants a lease, those that follow are served by the hub, and each of
these events ends the lease before anything else can run. What is not plain, and every error, comes to Python with a
lease as without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla._core import Hub
    from ottla.replication.partition import Partition


class Leases:
    """Those of one broker. All methods are for the loop's thread."""

    def __init__(self, hub: Hub, fetch_bytes_max: int) -> None:
        self._hub = hub
        hub.limit_leased_fetches(fetch_bytes_max)
        self._granted: set[Partition] = set()
        self._are_allowed = True
        #: Writes what the hub appended in this turn; then `answer` is to be called. Of each partition: itself, whether
        #: a flush is due, and from which offset on it could not be written, and why. Turns in which Python has no part,
        #: and of which nobody there has to hear, the hub ends itself.
        self.write = hub.write_leased

    def grant(self, partition: Partition) -> None:
        """Lets the hub serve a partition, which this broker leads, until `partition.end_lease`."""
        if self._are_allowed and not partition.is_internal:
            alone = partition.is_alone
            acknowledges_all = alone and partition.has_enough_replicas and not partition.needs_flush
            self._hub.lease(
                partition.topic,
                partition.index,
                partition.log,
                partition.leader_epoch,
                partition,
                partition.fetches,
                alone,
                acknowledges_all,
            )
            self._granted.add(partition)
            partition.lease = self

    def allow(self, allowed: bool) -> None:
        """Whether there may be any from now on."""
        self._are_allowed = allowed
        if not allowed:
            for partition in tuple(self._granted):
                partition.end_lease()

    def end(self, partition: Partition) -> None:
        """Everything of this partition is decided one by one from now on. Fetches that wait in the hub are answered."""
        self._granted.remove(partition)
        self._hub.end_lease(partition.topic, partition.index)

    def advanced(self, partition: Partition) -> None:
        """The high watermark moved: Fetches that wait in the hub are looked at."""
        self._hub.wake_leased(partition.topic, partition.index)

    def answer(self, lost: dict[tuple[str, int], tuple[int, KafkaError]]) -> None:
        """Answers what the hub appended in this turn. `lost` says from which offset on, and why, a partition could not
        be written.
        """
        self._hub.answer_leased([(*place, offset, error.code) for place, (offset, error) in lost.items()])
