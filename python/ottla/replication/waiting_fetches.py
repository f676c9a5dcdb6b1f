"""The requests that wait for one partition to move on: Fetches, and DeleteRecords, which wait for other replicas.

Nothing here knows the partition: it is handed on to those that are woken.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Generic, Protocol, TypeVar

from ottla.net.guard import failed

#: The partition that is waited for.
P = TypeVar("P")
_P = TypeVar("_P", contravariant=True)


class Waiter(Protocol[_P]):
    """A request that waits for a partition to move on."""

    def advanced(self, partition: _P) -> None:
        """The high watermark moved, or the role changed."""

    def expire(self) -> None:
        """Waiting is over: answer with what there is."""


class WaitingFetches(Generic[P]):
    """The requests that wait for one partition, each kind in the order of arrival.

    Those that are woken may stop waiting, or let others begin, while the rest is woken. An exception of one is logged
    with the partition's name, and the others are woken all the same.
    """

    __slots__ = ("consumers", "deletions", "followers")

    def __init__(self) -> None:
        #: Fetches of consumers: they wait for the high watermark.
        self.consumers: dict[Waiter[P], None] = {}
        #: Fetches of followers: they wait for the log's end.
        self.followers: dict[Waiter[P], None] = {}
        #: DeleteRecords: they wait for the log starts of other replicas. None until there is one, for they are rare.
        self.deletions: dict[Waiter[P], None] | None = None

    @property
    def has_fetches(self) -> bool:
        """A consumer or a follower waits."""
        return bool(self.consumers or self.followers)

    def park(self, fetch: Waiter[P], is_follower: bool) -> None:
        """A Fetch waits from now on, until `unpark`."""
        (self.followers if is_follower else self.consumers)[fetch] = None

    def park_deletion(self, deletion: Waiter[P]) -> None:
        """A DeleteRecords waits from now on, until `unpark`."""
        if self.deletions is None:
            self.deletions = {}
        self.deletions[deletion] = None

    def unpark(self, waiter: Waiter[P]) -> None:
        """A request does not wait any more, if it did."""
        self.consumers.pop(waiter, None)
        self.followers.pop(waiter, None)
        if self.deletions is not None:
            self.deletions.pop(waiter, None)

    def wake_consumers(self, partition: P) -> None:
        """The high watermark moved."""
        _wake(self.consumers, partition, "a Fetch")

    def wake_followers(self, partition: P) -> None:
        """The log has grown."""
        _wake(self.followers, partition, "a Fetch")

    def wake_deletions(self, partition: P) -> None:
        """The log of another replica starts elsewhere."""
        if self.deletions:
            _wake(self.deletions, partition, "a DeleteRecords")

    def look_again(self, partition: P) -> None:
        """Every Fetch reads the partition again, and is answered: its client may not be allowed to read any more."""
        for fetch in (*self.consumers, *self.followers):
            try:
                fetch.advanced(partition)
                fetch.expire()
            except BaseException as error:
                failed(f"a Fetch that waited for {partition}", error)

    def release(self, partition: P) -> None:
        """Every request is answered with what there is."""
        for waiter in (*self.consumers, *self.followers, *(self.deletions or ())):
            try:
                waiter.expire()
            except BaseException as error:
                failed(f"the release of a request that waited for {partition}", error)


def _wake(waiters: Iterable[Waiter[P]], partition: P, kind: str) -> None:
    for waiter in tuple(waiters):
        try:
            waiter.advanced(partition)
        except BaseException as error:
            failed(f"{kind} that waited for {partition}", error)


class _Nobody(WaitingFetches[Any]):
    """Nobody waits, and nobody can begin to: all partitions that nobody waits for share one."""

    __slots__ = ()

    def park(self, fetch: Waiter[Any], is_follower: bool) -> None:
        raise TypeError("a partition that is waited for has WaitingFetches of its own")

    def park_deletion(self, deletion: Waiter[Any]) -> None:
        raise TypeError("a partition that is waited for has WaitingFetches of its own")


#: In place of the WaitingFetches of a partition for which nobody has waited yet.
NOBODY: Final = _Nobody()
