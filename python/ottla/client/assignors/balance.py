"""Sharing partitions where members read different topics: what members have is kept, what is free goes to whoever has
the least, and then partitions move one by one as long as that makes the shares more even (Kafka's
AbstractStickyAssignor, its general case).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping

from ottla.client.assignors.java_order import buckets_for, hash_of_partition, hash_order
from ottla.client.consumer_protocol import Subscription
from ottla.kafka import TopicPartition

Assigned = dict[str, list[TopicPartition]]


def balance(
    existing: Mapping[str, int],
    subscriptions: Mapping[str, Subscription],
    claimed: Mapping[str, list[TopicPartition]],
    previous: Mapping[TopicPartition, str],
) -> Assigned:
    """`existing` counts partitions by topic; `claimed` is who has which now, and `previous` who had one before that."""
    return _Balance(existing, subscriptions, claimed, previous).run()


class _Balance:
    def __init__(
        self,
        existing: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
        claimed: Mapping[str, list[TopicPartition]],
        previous: Mapping[TopicPartition, str],
    ) -> None:
        self.topics = {
            member: frozenset(topic for topic in each.topics if topic in existing)
            for member, each in subscriptions.items()
        }
        self.possible = {member: sum(existing[topic] for topic in topics) for member, topics in self.topics.items()}
        self.readers = {
            topic: [member for member, topics in self.topics.items() if topic in topics] for topic in existing
        }
        self.existing = existing
        self.previous = previous
        self.moves = _Moves()
        #: Dictionaries as sets that keep their order.
        self.has: dict[str, dict[TopicPartition, None]] = {member: {} for member in subscriptions}
        self.is_revoked = False
        self.holder: dict[TopicPartition, str] = {}
        for member, partitions in claimed.items():
            for partition in partitions:
                if partition.topic not in existing or partition.partition >= existing[partition.topic]:
                    continue
                if partition.topic in self.topics[member]:
                    self.has[member][partition] = None
                    self.holder[partition] = member
                else:
                    self.is_revoked = True
        #: (partitions that a member has, member), ascending.
        self.order = sorted((len(partitions), member) for member, partitions in self.has.items())

    def run(self) -> Assigned:
        partitions = sorted(
            (TopicPartition(topic, number) for topic, count in self.existing.items() for number in range(count)),
            key=lambda each: (len(self.readers[each.topic]), each),
        )
        is_first = self.order[-1][0] == 0
        unassigned = [partition for partition in partitions if partition not in self.holder]
        for partition in unassigned:
            member = self._least(partition)
            if member is not None:
                self._add(partition, member)
        movable = [partition for partition in partitions if len(self.readers[partition.topic]) > 1]
        fixed = {member for member in self.has if not self._may_change(member)}
        self.order = [each for each in self.order if each[1] not in fixed]
        before = {member: list(each) for member, each in self.has.items()}
        if self.order:
            if not self.is_revoked:
                self._move([each for each in unassigned if len(self.readers[each.topic]) > 1], fixed)
            has_moved = self._move(movable, fixed)
            after = {member: list(each) for member, each in self.has.items()}
            if is_first or not has_moved or _unevenness(after, fixed) < _unevenness(before, fixed):
                return after
        return before

    def _least(self, partition: TopicPartition) -> str | None:
        """Who has the least of those that may have the partition."""
        return next((member for _, member in self.order if partition.topic in self.topics[member]), None)

    def _may_change(self, member: str) -> bool:
        has = self.has[member]
        return len(has) < self.possible[member] or any(len(self.readers[each.topic]) > 1 for each in has)

    def _move(self, partitions: list[TopicPartition], fixed: set[str]) -> bool:
        """Moves what makes shares more even, again and again; whether anything moved."""
        has_moved = False
        while True:
            has_changed = False
            for partition in partitions:
                if self._is_balanced():
                    break
                has = len(self.has[self.holder[partition]])
                before = self.previous.get(partition)
                if before is not None and before not in fixed and has > len(self.has[before]) + 1:
                    self._give(partition, before)
                elif any(has > len(self.has[other]) + 1 for other in self.readers[partition.topic]):
                    to = self._least(partition)
                    assert to is not None
                    self._give(partition, to)
                else:
                    continue
                has_changed = has_moved = True
            if not has_changed:
                return has_moved

    def _is_balanced(self) -> bool:
        if self.order[0][0] >= self.order[-1][0] - 1:
            return True
        for count, member in self.order:
            if count == self.possible[member]:
                continue
            for topic in self.topics[member]:
                for number in range(self.existing[topic]):
                    other = self.holder[TopicPartition(topic, number)]
                    if other != member and count < len(self.has[other]):
                        return False
        return True

    def _give(self, partition: TopicPartition, to: str) -> None:
        moved = self.moves.instead_of(partition, self.holder[partition], to)
        holder = self.holder[moved]
        self.moves.add(moved, holder, to)
        self._take_out(holder)
        del self.has[holder][moved]
        insort(self.order, (len(self.has[holder]), holder))
        self._add(moved, to)

    def _add(self, partition: TopicPartition, member: str) -> None:
        self._take_out(member)
        self.has[member][partition] = None
        self.holder[partition] = member
        insort(self.order, (len(self.has[member]), member))

    def _take_out(self, member: str) -> None:
        entry = (len(self.has[member]), member)
        index = bisect_left(self.order, entry)
        assert self.order[index] == entry
        del self.order[index]


class _Moves:
    """Which partition has moved from whom to whom. Before a partition of a topic moves from A to B although another has
    moved from B to A, that other one goes back.
    """

    def __init__(self) -> None:
        self._pair: dict[TopicPartition, tuple[str, str]] = {}
        self._partitions: dict[tuple[str, str, str], dict[TopicPartition, None]] = {}
        #: Java's sets never shrink, and a set's order is that of its buckets.
        self._buckets: dict[tuple[str, str, str], int] = {}

    def add(self, partition: TopicPartition, source: str, target: str) -> None:
        if (earlier := self._pair.pop(partition, None)) is not None:
            key = (partition.topic, *earlier)
            del self._partitions[key][partition]
            if not self._partitions[key]:
                del self._partitions[key], self._buckets[key]
            source = earlier[0]
            if source == target:
                return  # it is back where it was
        self._pair[partition] = source, target
        key = (partition.topic, source, target)
        moved = self._partitions.setdefault(key, {})
        moved[partition] = None
        self._buckets[key] = max(self._buckets.get(key, 0), buckets_for(len(moved)))

    def instead_of(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        if (earlier := self._pair.get(partition)) is not None:
            source = earlier[0]
        key = (partition.topic, target, source)
        back: Iterable[TopicPartition] = self._partitions.get(key, ())
        return next(iter(hash_order(back, hash_of_partition, self._buckets.get(key, 0))), partition)


def _unevenness(assigned: Assigned, fixed: set[str]) -> int:
    """The sum of the differences of all pairs of members; 0 is even."""
    counts = [len(partitions) for member, partitions in assigned.items() if member not in fixed]
    return sum(abs(one - other) for index, one in enumerate(counts) for other in counts[index + 1 :])
