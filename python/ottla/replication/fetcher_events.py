"""The events of replica fetchers, each a class of its own. `event_of` makes them from the rows that the native threads
report (`rust/replication/table.rs`), where these come in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from ottla.kafka import PartitionKey
from ottla.replication.questions import EpochEnd

if TYPE_CHECKING:
    from ottla._core import FetcherEvent as Row


class OfPartition(msgspec.Struct, frozen=True):
    """The base of what happened to one partition. All but `Delayed` have paused it until it is added again."""

    key: PartitionKey
    leader_epoch: int
    """With which the partition was added. An event with another one is old news."""
    code: int
    """Kafka's error code; 0 for none, -1 where Kafka has no code."""
    message: str


class Diverged(OfPartition, frozen=True):
    """The logs part: the follower has something else where its leader's log ends an epoch (KIP-595)."""

    end: EpochEnd
    """The leader's largest epoch that is not above the follower's."""


class OutOfRange(OfPartition, frozen=True):
    """The leader has nothing where the follower's log ends."""


class NewerEpoch(OfPartition, frozen=True):
    """The leader sent records of a newer leader epoch than its own."""

    epoch: int
    """That of the records."""


class Fenced(OfPartition, frozen=True):
    """Another leader epoch is known, at the leader or in the follower's log."""


class NotWritable(OfPartition, frozen=True):
    """The follower's log cannot be written to."""


class Refused(OfPartition, frozen=True):
    """The follower's log does not take the records: they are damaged, too large, or not those that come next."""


class Panicked(OfPartition, frozen=True):
    """A mistake of ours, made while the partition's records were appended."""


class Delayed(OfPartition, frozen=True):
    """The leader cannot serve the partition yet. The fetcher asks again by itself."""


class OfFetcher(msgspec.Struct, frozen=True):
    """The base of what happened to a whole fetcher, which goes on by itself."""

    message: str


class NoConnection(OfFetcher, frozen=True):
    """The leader is not reached, or what it says is not understood."""


class FetcherPanicked(OfFetcher, frozen=True):
    """A mistake of ours."""


Event: TypeAlias = OfPartition | OfFetcher

_OF_PARTITIONS: Final[Mapping[str, Callable[[Row, PartitionKey], OfPartition]]] = {
    "diverged": lambda row, key: Diverged(
        key, row.leader_epoch, row.code, row.message, EpochEnd(row.epoch, row.offset)
    ),
    "newer_epoch": lambda row, key: NewerEpoch(key, row.leader_epoch, row.code, row.message, row.epoch),
    "out_of_range": lambda row, key: OutOfRange(key, row.leader_epoch, row.code, row.message),
    "fenced": lambda row, key: Fenced(key, row.leader_epoch, row.code, row.message),
    "storage": lambda row, key: NotWritable(key, row.leader_epoch, row.code, row.message),
    "corrupt": lambda row, key: Refused(key, row.leader_epoch, row.code, row.message),
    "panic": lambda row, key: Panicked(key, row.leader_epoch, row.code, row.message),
    "delayed": lambda row, key: Delayed(key, row.leader_epoch, row.code, row.message),
}
_CONNECTION: Final = "connection"
_OF_FETCHERS: Final[Mapping[str, type[OfFetcher]]] = {_CONNECTION: NoConnection, "panic": FetcherPanicked}


def event_of(row: Row) -> Event:
    """The event that a row tells of; one without a topic is about the whole fetcher."""
    if not row.topic:
        return _OF_FETCHERS[row.kind](row.message)
    return _OF_PARTITIONS[row.kind](row, (row.topic, row.partition))


def is_connection_lost(rows: Iterable[Row]) -> bool:
    """One of the rows becomes `NoConnection`. They may be very many, so none is made into an event for this."""
    return any(row.kind == _CONNECTION for row in rows)
