"""Which markers are still to be written, and to whom they go. No I/O, no clock.

A decided transaction (an `Ending`) needs one marker in each of its partitions. Markers wait here for their partition's
leader, one request at a time is under way to each broker, and what failed comes back and waits for the next round:

    add ──▶ new ──route──▶ queued for a broker ──take──▶ under way ──answered──▶ written
                                 ▲                                      └──▶ waiting ──┐
                                 └──────────────────────route(again)───────────────────┘

Markers are written at least once, never too seldom: a second one finds no transaction open and ends nothing. When the
last partition of an ending is done, `answered` (or `route`) hands the ending back: its Complete record may be written.

Source: Apache Kafka 2.7's TransactionMarkerChannelManager and TransactionMarkerRequestCompletionHandler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ottla.errors import (
    InvalidProducerEpoch,
    TransactionCoordinatorFenced,
    UnsupportedForMessageFormat,
    UnsupportedVersion,
    error,
)
from ottla.kafka import NO_LEADER, TopicPartition
from ottla.transaction.shard import Shard
from ottla.transaction.transaction import State, Transaction, Transition

logger = logging.getLogger("ottla.transactions")

#: Partitions in one request: about 20 bytes each for those of one topic.
PARTITIONS_MAX = 10_000


class Ending:
    """A decided transaction on its way from Prepare to Complete."""

    __slots__ = ("commit", "epoch", "producer_id", "shard", "stopped", "transaction", "transition")

    def __init__(self, shard: Shard, transaction: Transaction, transition: Transition) -> None:
        self.shard = shard
        self.transaction = transaction
        #: To Complete, to be appended once every marker is written.
        self.transition = transition
        self.commit = transition.state is State.COMPLETE_COMMIT
        self.producer_id = transaction.producer_id
        self.epoch = transaction.epoch
        #: A later coordinator was met: it writes the markers.
        self.stopped = False

    def __repr__(self) -> str:
        return f"{'commit' if self.commit else 'abort'} of {self.transaction}"

    @property
    def is_over(self) -> bool:
        """Nothing more is to be sent."""
        return self.stopped or not self.shard.current


class Marker(NamedTuple):
    """The end of one transaction in some partitions that have one leader (or none yet)."""

    ending: Ending
    partitions: list[TopicPartition]


Results = Mapping[tuple[int, TopicPartition], int]
"""The error code of each (producer id, partition) of a request."""


class Outbox:
    def __init__(self) -> None:
        self._new: list[Marker] = []
        self._waiting: list[Marker] = []
        self._queued: dict[int, list[Marker]] = {}
        self._under_way: dict[int, list[Marker]] = {}

    def __len__(self) -> int:
        """Markers to be written, in (transaction, broker) pairs."""
        return sum(map(len, [self._new, self._waiting, *self._queued.values(), *self._under_way.values()]))

    @property
    def is_waiting(self) -> bool:
        """True if something is to be routed again after a while."""
        return bool(self._waiting)

    def add(self, ending: Ending) -> None:
        """Each of its partitions is to have its marker."""
        self._new.append(Marker(ending, sorted(ending.transaction.partitions)))

    def route(self, leader: Callable[[TopicPartition], int | None], *, again: bool = False) -> list[Ending]:
        """Queues what is new, and with `again` what waits, for the brokers that lead.

        `leader` says NO_LEADER for what must wait on, and None for a partition that does not exist any more: nobody
        will ever read there, so it needs no marker. Gives the endings that thereby have nothing left to be written.
        """
        markers, self._new = self._new, []
        if again:
            markers += self._waiting
            self._waiting = []
        done = []
        for ending, partitions in markers:
            if ending.is_over:
                continue
            by_leader: dict[int | None, list[TopicPartition]] = {}
            for partition in partitions:
                by_leader.setdefault(leader(partition), []).append(partition)
            gone = by_leader.pop(None, [])
            if gone:
                logger.info("%s: dropping markers for %s, which does not exist any more", ending, gone)
            for broker, led in by_leader.items():
                if broker is None or broker == NO_LEADER:
                    self._waiting.append(Marker(ending, led))
                else:
                    self._queued.setdefault(broker, []).append(Marker(ending, led))
            if self._written(ending, gone):
                done.append(ending)
        return done

    def brokers(self) -> list[int]:
        """Those that `take` has something for."""
        return [broker for broker in self._queued if broker not in self._under_way]

    def take(self, broker: int) -> list[Marker]:
        """Takes the markers of the next request to this broker; none if a request is under way."""
        if broker in self._under_way:
            return []
        queued = self._queued.pop(broker, [])
        taken: list[Marker] = []
        left: list[Marker] = []
        count = 0
        for marker in queued:
            if count >= PARTITIONS_MAX:
                left.append(marker)
            elif not marker.ending.is_over:
                taken.append(marker)
                count += len(marker.partitions)
        if left:
            self._queued[broker] = left
        if taken:
            self._under_way[broker] = taken
        return taken

    def lost(self, broker: int) -> None:
        """The request failed as a whole: all of it waits for the next round, when others may lead."""
        self._waiting += self._under_way.pop(broker)

    def answered(self, broker: int, results: Results) -> list[Ending]:
        """Takes the broker's answer about each marker. Returns the endings that have nothing left to be written."""
        done = []
        for marker in self._under_way.pop(broker):
            ending = marker.ending
            if ending.is_over:
                continue
            written, again = [], []
            for partition in marker.partitions:
                code = results.get((ending.producer_id, partition))
                if code in _DONE:
                    written.append(partition)
                    if code:
                        logger.warning("%s: no marker in %s: %s", ending, partition, error(code or 0))
                elif code == TransactionCoordinatorFenced.code:
                    logger.warning("%s: a later coordinator has written to %s, so it ends this one", ending, partition)
                    ending.stopped = True
                else:
                    again.append(partition)
            if ending.stopped:
                continue
            if again:
                self._waiting.append(Marker(ending, again))
            if self._written(ending, written):
                done.append(ending)
        return done

    def drop(self, shard: Shard) -> None:
        """This broker does not coordinate these any more."""
        self._new, self._waiting = _without(self._new, shard), _without(self._waiting, shard)
        self._queued = {broker: kept for broker, markers in self._queued.items() if (kept := _without(markers, shard))}

    def _written(self, ending: Ending, partitions: Iterable[TopicPartition]) -> bool:
        ending.transaction.markers_written(list(partitions))
        return not ending.transaction.partitions


_DONE = {
    0,
    # The log has a later epoch of this producer: the transaction cannot be open there.
    InvalidProducerEpoch.code,
    # The log cannot hold a transaction.
    UnsupportedForMessageFormat.code,
    UnsupportedVersion.code,
}
"""Everything else passes, or the partition goes: it is tried again until then."""


def _without(markers: list[Marker], shard: Shard) -> list[Marker]:
    return [marker for marker in markers if marker.ending.shard is not shard]
