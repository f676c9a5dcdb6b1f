"""Offset syncs, and the OffsetSyncStore that translates the offsets of groups by them (KIP-382).

The mirror of a partition has other offsets: it begins later, and has no markers and no gaps. So pairs of offsets are
noted now and then, in a compacted topic that MirrorMaker 2 writes and reads as well. A group's offset becomes that of
the mirror by the last pair that is not after it: exactly, or the offset after that pair's, which is never too far. What
lies between is read twice.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.client.batches import Receipt
from ottla.kafka import TopicPartition
from ottla.mirror.formats import OffsetSync

#: Of one partition. Where more are noted every second one is forgotten, the oldest first.
PAIRS_MAX: Final = 64
#: Of one partition between two commits. Where more are sent every second one is forgotten.
SENT_MAX: Final = 16


class Pair(NamedTuple):
    """An offset sync: one record's offset in the source (upstream) and in the mirror (downstream)."""

    upstream: int
    downstream: int


@dataclass(slots=True)
class _Sent:
    """A record on its way to the mirror. The receipt is that of the record which is so many behind it there. It is let
    go as soon as it is known, since it holds on to its batch.
    """

    upstream: int
    back: int
    receipt: Receipt | None
    downstream: int = -1

    @property
    def is_known(self) -> bool:
        """Whether `settle` would not wait."""
        return self.receipt is None or self.receipt.is_over

    async def settle(self) -> None:
        """Waits until it is known where the record is; `downstream` stays -1 if the broker does not know it."""
        if self.receipt is not None:
            delivered = await self.receipt.wait()
            self.receipt = None
            if delivered.offset >= 0:
                self.downstream = delivered.offset - self.back


class Syncs:
    """The pairs of one flow. `lag_max` is how far offsets may move until the next pair is noted."""

    def __init__(self, lag_max: int) -> None:
        self._lag_max = lag_max
        self._pairs: dict[TopicPartition, list[Pair]] = {}
        self._written: dict[TopicPartition, Pair] = {}
        self._sent: dict[TopicPartition, list[_Sent]] = {}

    async def sent(self, partition: TopicPartition, first: int, last: int, records: int, receipt: Receipt) -> None:
        """A batch of so many records is on its way to the mirror, the first and the last of which have these offsets in
        the source; the receipt is that of the last. Raises KafkaError: an earlier one was not delivered.
        """
        sent = self._sent.setdefault(partition, [])
        for each in sent:
            if each.receipt is not None and each.receipt.is_over:
                await each.settle()
        places = [(first, records - 1), (last, 0)]
        if last - first + 1 == records:  # nothing is missing between them
            step = max(self._lag_max, records // SENT_MAX, 1)
            places[1:1] = [(upstream, last - upstream) for upstream in range(first + step, last, step)]
        for upstream, back in places:
            if len(sent) > 1 and sent[-1].upstream - sent[-2].upstream < self._lag_max:
                # The newest is kept, and those before it that are far enough from each other.
                sent.pop()
            if not sent or sent[-1].upstream < upstream:
                sent.append(_Sent(upstream, back, receipt))
        while len(sent) > SENT_MAX:
            del sent[1:-1:2]

    async def take(self, *, all_of_them: bool = False) -> list[OffsetSync]:
        """The pairs that are to be written, of what was sent and is acknowledged. With `all_of_them` also those that
        are near the last that was written. Raises KafkaError: some of it was not delivered.
        """
        found: list[OffsetSync] = []

        def write(partition: TopicPartition, pair: Pair) -> None:
            self._written[partition] = pair
            found.append(OffsetSync(partition, *pair))

        written = dict(self._written)
        for partition, sent in list(self._sent.items()):
            # The others are waited for by their partition alone.
            places = list(itertools.takewhile(lambda place: place.is_known, sent))
            self._sent[partition] = sent[len(places) :]
            if not places:
                continue
            for place in places:
                await place.settle()
            *between, last = (Pair(each.upstream, each.downstream) for each in places)
            for pair in between:
                if pair.downstream >= 0 and self._is_news(self._last(partition), pair, self._lag_max):
                    self.add(OffsetSync(partition, *pair), is_written=False)
                    write(partition, pair)
            if last.downstream >= 0:
                self.add(OffsetSync(partition, *last), is_written=False)
        for partition in self._pairs:
            pair = self._pairs[partition][-1]
            if pair != self._written.get(partition) and self._is_news(
                written.get(partition), pair, 1 if all_of_them else self._lag_max
            ):
                write(partition, pair)
        return found

    def _last(self, partition: TopicPartition) -> Pair | None:
        pairs = self._pairs.get(partition)
        return pairs[-1] if pairs else None

    def add(self, sync: OffsetSync, *, is_written: bool = True) -> None:
        """A pair that somebody wrote, or will write."""
        pairs = self._pairs.setdefault(sync.partition, [])
        pair = Pair(sync.upstream, sync.downstream)
        if is_written:
            self._written[sync.partition] = pair
        if pairs and pair.upstream <= pairs[-1].upstream:
            # The source has begun anew, or this is known already.
            del pairs[bisect_right(pairs, pair.upstream - 1, key=lambda known: known.upstream) :]
        pairs.append(pair)
        if len(pairs) > PAIRS_MAX:
            half = PAIRS_MAX // 2
            pairs[:half] = pairs[1:half:2]

    def forget(self, partition: TopicPartition) -> None:
        """Another instance copies the partition."""
        for known in (self._pairs, self._written, self._sent):
            known.pop(partition, None)

    def before(self, partition: TopicPartition, offset: int) -> Pair | None:
        """The last pair of a record before this offset in the source; None if there is none."""
        pairs = self._pairs.get(partition, [])
        found = bisect_left(pairs, offset, key=lambda pair: pair.upstream)
        return pairs[found - 1] if found else None

    def translated(self, partition: TopicPartition, offset: int) -> int | None:
        """Where a group goes on in the mirror that goes on at `offset` in the source; None if nothing is known."""
        pairs = self._pairs.get(partition, [])
        found = bisect_right(pairs, offset, key=lambda pair: pair.upstream)
        if not found:
            return None
        pair = pairs[found - 1]
        return pair.downstream if pair.upstream == offset else pair.downstream + 1

    @staticmethod
    def _is_news(before: Pair | None, now: Pair, lag: int) -> bool:
        if before is None or now.upstream < before.upstream:
            return True
        moved, shift = now.upstream - before.upstream, now.downstream - before.downstream
        return moved > 0 and (moved >= lag or abs(shift - moved) >= lag)
