"""Leases: the hub appends to a partition and reads from it without asking, for as long as nothing happens to it.

What `k00_produce` decides about a plain Produce, and `k01_fetch` about a plain Fetch, is the same from one to the next
until the partition's terms change (`Partition.terms`), or quotas are set. Where there are access rules, it is the same
for one client until rules change that may concern the topic. So the first plain Produce, or the
first plain Fetch, grants a lease, and those that follow are served by the hub (`rust/direct`, where a table says
what is plain and where each check is made). A change of the terms ends the lease before anything else can run.
Everything else, and every error, comes to Python with a lease as without.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ottla._core import Terms
from ottla.errors import InvalidConfig
from ottla.replication.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Callable, Set

    from ottla._core import Hub, Unacknowledged
    from ottla.replication.partition import Partition

#: `OTTLA_LEASES=off` has Python decide about every request, for tests, and to look for a fault.
SWITCH = "OTTLA_LEASES"


class Leases:
    """The leases granted by one broker. All methods are for the loop's thread."""

    def __init__(self, hub: Hub, fetch_bytes_max: int, *, serves_racks: bool = False) -> None:
        """With `serves_racks`, Fetches that name their rack are served as those that do not: nobody is told to read
        elsewhere.
        """
        self._hub = hub
        hub.limit_leased_fetches(fetch_bytes_max, serves_racks)
        #: By the topic.
        self._granted: dict[str, dict[Lease, Partition]] = {}
        self._everyone_may = True
        self._are_on = _are_on()
        self._are_allowed = True
        self._are_aside = False
        #: Writes what the hub appended in this turn; then `answer` is to be called. The owners of what was written are
        #: the partitions. The hub itself ends turns in which Python has no part, and of which nobody there has to hear.
        self.write = hub.write_leased
        #: Answers what the hub appended in this turn, each batch by whether it was written. Returns those that wait and
        #: that the hub does not look after.
        self.answer = hub.answer_leased
        self._wait: Callable[[Unacknowledged], object] = _nobody

    def hand_over_to(self, wait: Callable[[Unacknowledged], object]) -> None:
        """Has `wait` called with each append that waits for other replicas when its lease ends."""
        self._wait = wait

    def grant(self, partition: Partition) -> None:
        """Lets the hub serve a partition until its terms change, if it may be served so at all."""
        terms = partition.terms()
        if terms is None or not self._are_on or not self._are_allowed or self._are_aside:
            return
        if terms.is_internal and not terms.followers:
            # Nobody would be served.
            return
        native = self._hub.lease(
            partition.topic,
            partition.index,
            terms.log,
            Terms(
                leader_epoch=terms.leader_epoch,
                is_alone=terms.is_alone,
                accepts_all=terms.accepts_all,
                everyone_may=self._everyone_may,
                is_zstd=terms.is_zstd,
                is_internal=terms.is_internal,
            ),
            terms.followers,
            partition,
        )
        lease = Lease(partition.topic, terms, native, self._ended, self._wait)
        self._granted.setdefault(partition.topic, {})[lease] = partition
        partition.leased(lease)

    def _ended(self, lease: Lease) -> None:
        others = self._granted[lease.topic]
        del others[lease]
        if not others:
            del self._granted[lease.topic]

    @property
    def topics(self) -> Set[str]:
        """The topics that have leases."""
        return self._granted.keys()

    def allow(self, allowed: bool) -> None:
        """Whether there may be any from now on."""
        self._are_allowed = allowed
        if not allowed:
            self._end_all()

    def ask_for_rights(self) -> None:
        """From now on the hub serves only clients that it was told the rights of (`Lease.allow`)."""
        self._everyone_may = False
        self._end_all()

    def end_of(self, topic: str) -> None:
        """Ends the leases of a topic, and with them what the hub knows of clients' rights."""
        for partition in tuple(self._granted.get(topic, {}).values()):
            partition.end_lease()

    def step_aside(self, are_aside: bool) -> None:
        """While somebody wants to see every request there are none, whatever else allows them."""
        self._are_aside = are_aside
        if are_aside:
            self._end_all()

    def _end_all(self) -> None:
        for topic in tuple(self._granted):
            self.end_of(topic)


def _nobody(unacknowledged: Unacknowledged) -> None:
    raise RuntimeError("an append waits, and nobody was named who waits for it")


def _are_on() -> bool:
    value = os.environ.get(SWITCH, "on")
    if value not in ("on", "off"):
        raise InvalidConfig(f"the environment variable {SWITCH} is {value!r}: it may be on (as without it) or off")
    return value == "on"
