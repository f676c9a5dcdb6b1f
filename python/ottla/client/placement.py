"""Where replicas should be: plans as values, without a cluster. Each takes the replicas of all partitions, the
preferred leader first, and gives those that are to change.

The usual tools place a topic anew (`kafka-reassign-partitions --generate`), which copies nearly everything. What
operators want is as few copies as will do: what goes away from a broker goes to the least loaded, what is even already
stays (as Cruise Control and topicmappr do). Preferred leaders cost nothing to change, and are made even after that.

Racks: a partition's replicas stay in as many racks as they were in before, or get into more.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from ottla.kafka import TopicPartition

Replicas = tuple[int, ...]
Placement = Mapping[TopicPartition, Replicas]


@dataclass(frozen=True, slots=True)
class Plan:
    """The new replicas of partitions that change, and those that cannot change, each with the reason."""

    targets: dict[TopicPartition, Replicas] = field(default_factory=dict)
    stuck: dict[TopicPartition, str] = field(default_factory=dict)


def copies(before: Placement, after: Placement) -> list[tuple[TopicPartition, int]]:
    """The replicas that a broker gets which it does not have."""
    return [(name, broker) for name, target in after.items() for broker in target if broker not in before[name]]


def without_leaders(
    placement: Placement,
    leaders: Mapping[TopicPartition, int],
    in_sync: Mapping[TopicPartition, Collection[int]],
    brokers: Collection[int],
) -> Plan:
    """Has these brokers preferred for nothing, by another order of the same replicas: they come last. Each partition's
    new first replica is one in sync, of several the one that is preferred for the fewest. What one of these brokers
    leads since the preferred replica is not in sync changes too.
    """
    plan = Plan()
    preferred = Counter(replicas[0] for replicas in placement.values())
    for name, replicas in sorted(placement.items()):
        if replicas[0] not in brokers and (leaders[name] not in brokers or replicas[0] in in_sync[name]):
            continue
        others = [each for each in replicas if each not in brokers]
        able = [each for each in others if each in in_sync[name]]
        if not able:
            plan.stuck[name] = "no other replica is in sync" if others else "it has no other replica"
            continue
        first = min(able, key=lambda each: (preferred[each], replicas.index(each)))
        preferred[replicas[0]] -= 1
        preferred[first] += 1
        rest = [each for each in others if each != first] + [each for each in replicas if each in brokers]
        plan.targets[name] = (first, *rest)
    return plan


def without_replicas(placement: Placement, racks: Mapping[int, str | None], brokers: Collection[int]) -> Plan:
    """Leaves nothing on these brokers. `racks` names the brokers that are there, with their racks: others get nothing.
    A partition that has no other broker to go to keeps what it has.
    """
    plan = Plan()
    loads = _Loads(placement, {broker: rack for broker, rack in racks.items() if broker not in brokers})
    for name, replicas in sorted(placement.items()):
        leaving = [each for each in replicas if each in brokers]
        if not leaving:
            continue
        new = list(replicas)
        for broker in leaving:
            candidates = [each for each in loads.racks if each not in new]
            if not candidates:
                plan.stuck[name] = "there is no other broker that has it not yet"
                break
            place = new.index(broker)
            rest = [each for each in new if each != broker]
            new[place] = loads.best(name.topic, candidates, rest)
        else:
            loads.change(name, replicas, tuple(new))
            plan.targets[name] = tuple(new)
    led = {name for name in plan.targets if placement[name][0] in brokers}
    _even_leaders({**placement, **plan.targets}, loads.racks, plan.targets, led)
    return plan


def spread(
    placement: Placement, racks: Mapping[int, str | None], replication_factor: int | None = None
) -> dict[TopicPartition, Replicas]:
    """Has the partitions on these brokers alone, as many replicas each as before or `replication_factor`, evenly: what
    is there already stays as far as that allows. `racks` names the brokers. Raises ValueError if they are too few.
    """
    loads = _Loads({}, dict(racks))
    kept: dict[TopicPartition, list[int]] = {}
    for name, replicas in sorted(placement.items()):
        wanted = replication_factor or len(replicas)
        if wanted > len(racks):
            raise ValueError(f"{name} is to have {wanted} replicas, but there are only {len(racks)} brokers for them")
        kept[name] = [each for each in replicas if each in racks][:wanted]
        loads.change(name, (), tuple(kept[name]))
    new: dict[TopicPartition, Replicas] = {}
    for name, have in kept.items():
        before = tuple(have)
        while len(have) < (replication_factor or len(placement[name])):
            have.append(loads.best(name.topic, [each for each in racks if each not in have], have))
        loads.change(name, before, tuple(have))
        new[name] = tuple(have)
    _level(new, loads)
    _even_leaders(new, loads.racks, new, new.keys())
    return {name: target for name, target in new.items() if target != tuple(placement[name])}


def balanced(placement: Placement, racks: Mapping[int, str | None]) -> dict[TopicPartition, Replicas]:
    """Evens out how many replicas each broker has, to a difference of one as far as racks allow, and then for how many
    each is preferred. `racks` names the brokers that are there; replicas on others stay where they are.
    """
    new = dict(placement)
    loads = _Loads(placement, dict(racks))
    _level(new, loads)
    _even_leaders(new, loads.racks, new, new.keys())
    return {name: target for name, target in new.items() if target != placement[name]}


def with_even_leaders(
    placement: Placement, brokers: Collection[int], in_sync: Mapping[TopicPartition, Collection[int]]
) -> dict[TopicPartition, Replicas]:
    """Evens out for how many partitions each of these brokers is preferred, by the order of replicas alone. Partitions
    with replicas that are not in sync, which could not lead, are left as they are.
    """
    targets: dict[TopicPartition, Replicas] = {}
    free = {name for name, replicas in placement.items() if set(replicas) <= set(in_sync.get(name, ()))}
    _even_leaders(placement, brokers, targets, free)
    return {name: target for name, target in targets.items() if target != placement[name]}


class _Loads:
    """How many replicas each broker has, in all and of each topic."""

    def __init__(self, placement: Placement, racks: dict[int, str | None]) -> None:
        self.racks = racks
        self.total: Counter[int] = Counter()
        self.of_topic: Counter[tuple[str, int]] = Counter()
        for name, replicas in placement.items():
            self.change(name, (), replicas)

    def change(self, name: TopicPartition, before: Replicas, after: Replicas) -> None:
        for replicas, sign in ((before, -1), (after, 1)):
            for broker in replicas:
                self.total[broker] += sign
                self.of_topic[name.topic, broker] += sign

    def best(self, topic: str, candidates: Iterable[int], others: Collection[int]) -> int:
        """The broker for one more replica of a partition whose `others` are known: in another rack first, then the one
        with the fewest replicas, then with the fewest of this topic.
        """
        used = {self.racks.get(each) for each in others} - {None}
        return min(
            candidates,
            key=lambda each: (self.racks[each] in used, self.total[each], self.of_topic[topic, each], each),
        )

    def rack_count(self, replicas: Collection[int]) -> int:
        return len({self.racks.get(each) for each in replicas} - {None})


_On = dict[int, dict[str, dict[TopicPartition, None]]]
"""The partitions of each broker by topic, in order."""


def _level(new: dict[TopicPartition, Replicas], loads: _Loads) -> None:
    """Moves replicas from the broker that has the most to the one that has the fewest, while that differs by two."""
    on: _On = {broker: {} for broker in loads.racks}
    for name, replicas in sorted(new.items()):
        for broker in replicas:
            if broker in on:
                on[broker].setdefault(name.topic, {})[name] = None
    uneven = _Uneven(loads, on)
    while (found := _next_move(new, loads, uneven)) is not None:
        chosen, source, target = found
        moved = tuple(target if each == source else each for each in new[chosen])
        loads.change(chosen, new[chosen], moved)
        new[chosen] = moved
        del on[source][chosen.topic][chosen]
        on[target].setdefault(chosen.topic, {})[chosen] = None
        uneven.moved(chosen.topic, source, target)


def _next_move(new: Placement, loads: _Loads, uneven: _Uneven) -> tuple[TopicPartition, int, int] | None:
    """A partition, and the brokers from which and to which one of its replicas moves."""
    total = loads.total
    if not uneven.on:
        return None
    # Nearly always these two will do, and there are many pairs.
    source = min(uneven.on, key=lambda broker: (-total[broker], broker))
    target = min(uneven.on, key=lambda broker: (total[broker], broker))
    if total[source] - total[target] <= 1:
        return None
    if (chosen := _movable(new, loads, uneven, source, target)) is not None:
        return chosen, source, target
    pairs = sorted(
        ((source, target) for source in uneven.on for target in uneven.on if total[source] - total[target] > 1),
        key=lambda pair: (total[pair[1]] - total[pair[0]], pair),
    )
    for source, target in pairs[1:]:
        if (chosen := _movable(new, loads, uneven, source, target)) is not None:
            return chosen, source, target
    return None


class _Uneven:
    """Which topics one broker has more of than another, for pairs of brokers.

    A move changes that for one topic, and with many topics and moves nobody can sort all of them each time. So each
    pair that was asked for has a heap. A topic has an entry there with a value that is not above its present one:
    values that grew are put right when they come up, those that fell are entered anew. `on` is what brokers have now.
    """

    def __init__(self, loads: _Loads, on: _On) -> None:
        self.on = on
        self._of_topic = loads.of_topic
        self._heaps: dict[tuple[int, int], list[tuple[int, str]]] = {}

    def topics(self, source: int, target: int) -> Generator[str, None, None]:
        """Those of `source`, first the one that is on `source` more than on `target` by the most. Close it."""
        heap = self._heaps.get((source, target))
        if heap is None:
            heap = [(self._value(source, target, topic), topic) for topic in self.on[source]]
            heapify(heap)
            self._heaps[source, target] = heap
        given: list[tuple[int, str]] = []
        try:
            while heap:
                entry = heappop(heap)
                value, topic = entry
                present = self._value(source, target, topic)
                if present > value:
                    heappush(heap, (present, topic))
                elif present == value and self.on[source].get(topic) and given[-1:] != [entry]:
                    given.append(entry)
                    yield topic
        finally:
            for entry in given:
                heappush(heap, entry)

    def moved(self, topic: str, source: int, target: int) -> None:
        """A replica went from one broker to another."""
        for (one, other), heap in self._heaps.items():
            if one == target or other == source:
                heappush(heap, (self._value(one, other, topic), topic))

    def _value(self, source: int, target: int, topic: str) -> int:
        return self._of_topic[topic, target] - self._of_topic[topic, source]


def _movable(new: Placement, loads: _Loads, uneven: _Uneven, source: int, target: int) -> TopicPartition | None:
    """A partition that may move: of the topic that is on `source` more than on `target`, and rather one that `source`
    is not preferred for.
    """
    with closing(uneven.topics(source, target)) as topics:
        for topic in topics:
            preferred: TopicPartition | None = None
            for name in uneven.on[source][topic]:
                replicas = new[name]
                if target in replicas:
                    continue
                moved = [target if each == source else each for each in replicas]
                if loads.rack_count(moved) < loads.rack_count(replicas):
                    continue
                if replicas[0] != source:
                    return name
                preferred = preferred or name
            if preferred is not None:
                return preferred
    return None


def _even_leaders(
    placement: Placement,
    brokers: Collection[int],
    targets: dict[TopicPartition, Replicas],
    free: Collection[TopicPartition],
) -> None:
    """Evens out for how many partitions each broker is preferred, to a difference of one if that can be, by the order
    of the replicas of the partitions in `free`; writes those that change into `targets`.

    From a broker with the most, the shortest chain of partitions is looked for, each of which can be led by the next
    broker of the chain instead, to a broker with two fewer: so nothing is missed that single changes do not reach.
    """
    led: dict[int, dict[TopicPartition, Replicas]] = {broker: {} for broker in brokers}
    for name, replicas in sorted(placement.items()):
        if name in free and replicas and replicas[0] in led:
            led[replicas[0]][name] = replicas
    fixed = Counter(replicas[0] for name, replicas in placement.items() if name not in free and replicas)
    counts = {broker: len(led[broker]) + fixed[broker] for broker in led}
    while _passed(led, counts, targets):
        pass


def _passed(
    led: Mapping[int, dict[TopicPartition, Replicas]], counts: dict[int, int], targets: dict[TopicPartition, Replicas]
) -> bool:
    """Applies chains until no broker has one, those with the most first. Whether there was any: it may have opened the
    way for a broker that had none before.
    """
    finished: set[int] = set()
    was_any = False
    while unfinished := [broker for broker in sorted(led) if broker not in finished]:
        source = max(unfinished, key=lambda broker: counts[broker])
        chain = _chain(led, counts, source)
        if not chain:
            finished.add(source)
            continue
        was_any = True
        for name, former, new in chain:
            replicas = led[former].pop(name)
            led[new][name] = targets[name] = (new, *(each for each in replicas if each != new))
        counts[source] -= 1
        counts[chain[0][2]] += 1
    return was_any


def _chain(
    led: Mapping[int, Mapping[TopicPartition, Replicas]], counts: Mapping[int, int], source: int
) -> list[tuple[TopicPartition, int, int]]:
    """The changes (partition, from, to) that take one from `source` and give one to a broker with two fewer, the last
    first; none if there are none.
    """
    came: dict[int, tuple[TopicPartition, int]] = {}
    queue = deque([source])
    while queue:
        broker = queue.popleft()
        for name, replicas in led[broker].items():
            for other in replicas[1:]:
                if other not in led or other == source or other in came:
                    continue
                came[other] = (name, broker)
                queue.append(other)
                if counts[source] - counts[other] > 1:
                    chain = []
                    while other != source:
                        name, former = came[other]
                        chain.append((name, former, other))
                        other = former
                    return chain
    return []
