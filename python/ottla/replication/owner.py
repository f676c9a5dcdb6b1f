"""The ReplicaManager, as its partitions see it: what a partition cannot do alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from ottla.replication.in_sync import Proposal

P = TypeVar("P", contravariant=True)


class Owner(Protocol[P]):
    """The owner of partitions of type P. A partition calls it in the middle of its own changes, so no method waits."""

    def propose(self, partition: P, proposal: Proposal) -> None:
        """The partition wants this change of its ISR."""

    def came_near(self, partition: P) -> None:
        """The high watermark begins to wait for a follower that is not in the ISR. `leading.look_at_near` is to be
        called until it is false.
        """

    def listen_to(self, partition: P) -> None:
        """Somebody waits for a high watermark that a fetcher moves. `heard` is to be called after its next move."""

    def flush(self, partition: P) -> None:
        """The high watermark waits for the disk. `flushed` is to be called when the log was flushed."""

    def storage_error(self, partition: P, error: BaseException) -> None:
        """An operation on the partition's log failed at the disk."""


class Unowned:
    """Stands for the owner of a partition that is by itself: it does nothing."""

    def propose(self, partition: object, proposal: Proposal) -> None: ...

    def came_near(self, partition: object) -> None: ...

    def listen_to(self, partition: object) -> None: ...

    def flush(self, partition: object) -> None: ...

    def storage_error(self, partition: object, error: BaseException) -> None: ...


UNOWNED = Unowned()
