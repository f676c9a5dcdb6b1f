"""Leases: the hub appends to a partition and reads from it without asking, for as long as nothing happens to it.

What `k00_produce` decides about a plain Produce, and `k01_fetch` about a plain Fetch, is the same from one to the next
until the partition's terms change (`Partition.terms`), or quotas are set. So the first plain Produce with acks=0 or 1,
or the first plain Fetch, grants a lease, and those that follow are served by the hub (`rust/direct`, where a table says
what is plain and where each check is made). A change of the terms ends the lease before anything else can run.
Everything else, and every error, comes to Python with a lease as without.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ottla.errors import InvalidConfig, KafkaError
from ottla.replication.lease import Lease

if TYPE_CHECKING:
    from ottla._core import Hub
    from ottla.replication.partition import Partition

#: `OTTLA_LEASES=off` has Python decide about every request, for tests, and to look for a fault.
SWITCH = "OTTLA_LEASES"


class Leases:
    """The leases granted by one broker. All methods are for the loop's thread."""

    def __init__(self, hub: Hub, fetch_bytes_max: int) -> None:
        self._hub = hub
        hub.limit_leased_fetches(fetch_bytes_max)
        #: In the order in which they were granted.
        self._granted: dict[Lease, Partition] = {}
        self._are_on = _are_on()
        self._are_allowed = True
        #: Writes what the hub appended in this turn; then `answer` is to be called. Of each partition: itself, whether
        #: a flush is due, and from which offset on it could not be written, and why. Turns in which Python has no part,
        #: and of which nobody there has to hear, the hub ends itself.
        self.write = hub.write_leased

    def grant(self, partition: Partition) -> None:
        """Lets the hub serve a partition until its terms change, if it may be served so at all."""
        terms = partition.terms()
        if terms is None or not self._are_on or not self._are_allowed:
            return
        native = self._hub.lease(
            partition.topic,
            partition.index,
            terms.log,
            terms.leader_epoch,
            partition,
            terms.is_alone,
            terms.acknowledges_all,
            terms.everyone_may_read,
            terms.everyone_may_write,
        )
        lease = Lease(terms, native, self._granted.pop)
        self._granted[lease] = partition
        partition.leased(lease)

    def allow(self, allowed: bool) -> None:
        """Whether there may be any from now on."""
        self._are_allowed = allowed
        if not allowed:
            for partition in tuple(self._granted.values()):
                partition.end_lease()

    def answer(self, lost: dict[tuple[str, int], tuple[int, KafkaError]]) -> None:
        """Answers what the hub appended in this turn. `lost` says from which offset on, and why, a partition could not
        be written.
        """
        self._hub.answer_leased([(*place, offset, error.code) for place, (offset, error) in lost.items()])


def _are_on() -> bool:
    value = os.environ.get(SWITCH, "on")
    if value not in ("on", "off"):
        raise InvalidConfig(f"the environment variable {SWITCH} is {value!r}: it may be on (as without it) or off")
    return value == "on"
