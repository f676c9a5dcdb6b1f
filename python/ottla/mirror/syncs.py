"""Which offset of a mirror is which in the source: offset syncs, and what follows from them for groups (KIP-382).

The mirror of a partition has other offsets: it begins later, and has no markers and no gaps. So pairs of offsets are
noted now and then, in a compacted topic that MirrorMaker 2 writes and reads as well. A group's offset becomes that of
the mirror by the last pair that is not after it: exactly, or the offset after that pair's, which is never too far. What
lies between is read twice.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from ottla.client.batches import Receipt
from ottla.kafka import TopicPartition
from ottla.mirror.formats import OffsetSync

#: Of one partition. Where more are noted every second one is forgotten, the oldest first.
PAIRS_MAX: Final = 64


class Pair(NamedTuple):
    """The offsets of one record."""

    upstream: int
    downstream: int


class Syncs:
    """The pairs of one flow. `lag_max` is how far offsets may move until the next pair is noted."""

    def __init__(self, lag_max: int) -> None:
        self._lag_max = lag_max
        self._pairs: dict[TopicPartition, list[Pair]] = {}
        self._written: dict[TopicPartition, Pair] = {}
        self._sent: dict[TopicPartition, tuple[int, Receipt]] = {}

    def sent(self, partition: TopicPartition, upstream: int, receipt: Receipt) -> None:
        """The record with this offset in the source is on its way to the mirror; the receipt is its."""
        self._sent[partition] = upstream, receipt

    async def take(self, *, all_of_them: bool = False) -> list[OffsetSync]:
        """The pairs that are to be written, of what was sent; it is acknowledged. With `all_of_them` also those that
        are near the last that was written. Raises KafkaError: some of it was not delivered.
        """
        sent, self._sent = self._sent, {}
        for partition, (upstream, receipt) in sent.items():
            delivered = await receipt.wait()
            if delivered.offset >= 0:
                self.add(OffsetSync(partition, upstream, delivered.offset), is_written=False)
        found = []
        for partition, pairs in self._pairs.items():
            pair = pairs[-1]
            if self._is_news(self._written.get(partition), pair, 1 if all_of_them else self._lag_max):
                self._written[partition] = pair
                found.append(OffsetSync(partition, *pair))
        return found

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
