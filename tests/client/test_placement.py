"""Plans for replicas: few copies, even loads, racks kept, and nothing on brokers that are to be empty."""

import random
from collections import Counter

import pytest

from ottla.client import placement as module
from ottla.client.placement import (
    Placement,
    Replicas,
    balanced,
    copies,
    spread,
    with_even_leaders,
    without_leaders,
    without_replicas,
)
from ottla.kafka import TopicPartition

#: Six partitions with three replicas on three brokers, leaders even.
SIX: dict[TopicPartition, Replicas] = {
    TopicPartition("t", i): tuple((i + step) % 3 + 1 for step in range(3)) for i in range(6)
}
NO_RACKS: dict[int, str | None] = dict.fromkeys((1, 2, 3, 4))


def leaders(placement: Placement) -> dict[TopicPartition, int]:
    return {name: replicas[0] for name, replicas in placement.items()}


def counts(placement: Placement, *, preferred: bool = False) -> list[int]:
    return sorted(
        Counter(each for replicas in placement.values() for each in (replicas[:1] if preferred else replicas)).values()
    )


def test_a_drained_broker_is_preferred_for_nothing_and_keeps_its_replicas() -> None:
    plan = without_leaders(SIX, leaders(SIX), SIX, [1])
    assert plan.targets.keys() == {name for name, replicas in SIX.items() if replicas[0] == 1}
    assert not plan.stuck
    assert copies(SIX, plan.targets) == []
    assert all(target[-1] == 1 and sorted(target) == [1, 2, 3] for target in plan.targets.values())
    assert counts({**SIX, **plan.targets}, preferred=True) == [3, 3]


def test_what_no_other_can_lead_is_stuck() -> None:
    alone, late, held = (TopicPartition("t", i) for i in range(3))
    placement = {alone: (1,), late: (1, 2), held: (2, 1)}
    plan = without_leaders(placement, {alone: 1, late: 1, held: 1}, {alone: (1,), late: (1,), held: (1,)}, [1])
    assert plan.targets == {}
    assert plan.stuck == {
        alone: "it has no other replica",
        late: "no other replica is in sync",
        held: "no other replica is in sync",
    }


def test_what_a_drained_broker_leads_for_another_that_is_not_in_sync_goes_to_a_third() -> None:
    (name,) = placement = {TopicPartition("t", 0): (2, 1, 3)}
    assert without_leaders(placement, {name: 1}, {name: (1, 3)}, [1]).targets == {name: (3, 2, 1)}
    assert without_leaders(placement, {name: 1}, {name: (1, 2, 3)}, [1]).targets == {}, "an election is enough"


def test_an_emptied_broker_has_nothing_and_the_others_are_even() -> None:
    plan = without_replicas(SIX, NO_RACKS, [2])
    assert not plan.stuck
    after = {**SIX, **plan.targets}
    assert not any(2 in replicas for replicas in after.values())
    assert all(len(set(replicas)) == 3 for replicas in after.values())
    assert len(copies(SIX, plan.targets)) == 6, "one for each replica that it had"
    assert counts(after, preferred=True) == [2, 2, 2]


def test_an_emptied_broker_whose_replicas_nobody_can_take_keeps_them() -> None:
    plan = without_replicas(SIX, dict.fromkeys((1, 2, 3)), [2])
    assert plan.targets == {}
    assert plan.stuck == dict.fromkeys(SIX, "there is no other broker that has it not yet")


def test_a_dead_broker_can_be_emptied() -> None:
    plan = without_replicas(SIX, dict.fromkeys((1, 3, 4)), [2])
    assert all(set(target) == {1, 3, 4} for target in plan.targets.values())


def test_replicas_go_to_another_rack_first() -> None:
    racks = {1: "a", 2: "b", 3: "c", 4: "a", 5: "c"}
    plan = without_replicas(SIX, racks, [3])
    assert plan.targets
    assert all(5 in target and 4 not in target for target in plan.targets.values())


def test_a_new_broker_gets_its_share_by_as_few_copies_as_that_takes() -> None:
    targets = balanced(SIX, NO_RACKS)
    after = {**SIX, **targets}
    assert counts(after) == [4, 4, 5, 5]
    assert len(copies(SIX, targets)) == 4
    assert counts(after, preferred=True) == [1, 1, 2, 2]


def test_what_is_even_stays() -> None:
    assert balanced(SIX, dict.fromkeys((1, 2, 3))) == {}
    assert with_even_leaders(SIX, (1, 2, 3), SIX) == {}
    assert spread(SIX, dict.fromkeys((1, 2, 3))) == {}


def test_leaders_become_even_through_a_chain() -> None:
    """Broker 1 has two more than 3 and shares nothing with it: 2 leads one for 1, and 3 one for 2."""
    names = [TopicPartition("t", i) for i in range(6)]
    placement = dict(zip(names, [(1, 2), (1, 2), (1, 2), (2, 3), (2, 3), (3, 2)], strict=True))
    targets = with_even_leaders(placement, (1, 2, 3), placement)
    assert counts({**placement, **targets}, preferred=True) == [2, 2, 2]
    assert len(targets) == 2
    assert copies(placement, targets) == []


def test_leaders_that_are_not_in_sync_are_not_moved_to() -> None:
    placement = {TopicPartition("t", i): (1, 2) for i in range(4)}
    in_sync = dict.fromkeys(placement, (1,))
    assert with_even_leaders(placement, (1, 2), in_sync) == {}


def test_a_topic_is_spread_over_some_brokers_with_another_number_of_replicas() -> None:
    targets = spread(SIX, dict.fromkeys((3, 4)), 2)
    assert targets.keys() == SIX.keys()
    assert all(sorted(target) == [3, 4] for target in targets.values())
    assert counts(targets, preferred=True) == [3, 3]
    fewer = spread(SIX, dict.fromkeys((1, 2, 3)), 1)
    assert counts(fewer) == [2, 2, 2]
    assert copies(SIX, fewer) == []
    with pytest.raises(ValueError, match="t-0 is to have 3 replicas, but there are only 2 brokers for them"):
        spread(SIX, dict.fromkeys((3, 4)))


@pytest.mark.parametrize("seed", range(20))
def test_any_placement_becomes_even_and_keeps_its_racks(seed: int) -> None:
    chance = random.Random(seed)
    # Racks of one size: where one is smaller, its brokers must have more.
    racks = {broker: f"rack-{broker % 3}" for broker in range(chance.choice((6, 9)))}
    old = sorted(racks)[: chance.randint(3, len(racks))]
    placement = {TopicPartition(f"t{i % 4}", i): tuple(chance.sample(old, chance.randint(2, 3))) for i in range(60)}
    targets = balanced(placement, dict(racks))
    after = {**placement, **targets}

    def count(replicas: Replicas) -> int:
        return len({racks[each] for each in replicas})

    for name, replicas in after.items():
        assert len(set(replicas)) == len(replicas) == len(placement[name])
        assert count(replicas) >= count(placement[name])
    first = counts(after, preferred=True)
    assert len(first) == len(racks)
    # Who may lead what is bounded by who has it.
    assert first[-1] - first[0] <= 2
    total = counts(after)
    assert total[-1] - total[0] <= 1
    emptied = without_replicas(placement, dict(racks), old[:1])
    kept = {**placement, **emptied.targets}
    assert {name for name, replicas in kept.items() if old[0] in replicas} == set(emptied.stuck)


def test_the_partition_that_moves_is_of_the_most_uneven_topic() -> None:
    """The same as if all topics were sorted anew for each move, which is too slow for many."""
    for seed in range(300):
        source = random.Random(seed)
        brokers = range(1, source.randint(3, 8) + 1)
        racks: dict[int, str | None] = {}
        for broker in brokers:
            racks[broker] = source.choice("abc"[: source.randint(1, 3)])
        likely = [broker for broker in brokers for _ in range(source.choice((1, 1, 8)))]
        before: dict[TopicPartition, Replicas] = {}
        for topic in range(source.randint(1, 4)):
            hot = [broker for broker in likely if source.random() < 0.6] or likely
            for index in range(source.randint(1, 14)):
                drawn = dict.fromkeys(source.choice(hot) for _ in range(source.randint(1, 4)))
                before[TopicPartition(f"t{topic}", index)] = tuple(drawn)
        new = dict(before)
        module._level(new, module._Loads(before, racks))
        assert new == leveled_by_sorting(before, racks), f"seed {seed}"


def leveled_by_sorting(before: Placement, racks: dict[int, str | None]) -> dict[TopicPartition, Replicas]:
    new = dict(before)
    while True:
        total = Counter(broker for replicas in new.values() for broker in replicas)
        of_topic = Counter((name.topic, broker) for name, replicas in new.items() for broker in replicas)
        moves = [
            (
                total[target] - total[source],
                (source, target),
                of_topic[name.topic, target] - of_topic[name.topic, source],
                name.topic,
                replicas[0] == source,
                name,
            )
            for name, replicas in new.items()
            for source in replicas
            for target in racks
            if source in racks and target not in replicas and total[source] - total[target] > 1
            if rack_count(racks, swapped(replicas, source, target)) >= rack_count(racks, replicas)
        ]
        if not moves:
            return new
        _, (source, target), *_, chosen = min(moves)
        new[chosen] = swapped(new[chosen], source, target)


def swapped(replicas: Replicas, source: int, target: int) -> Replicas:
    return tuple(target if each == source else each for each in replicas)


def rack_count(racks: dict[int, str | None], replicas: Replicas) -> int:
    return len({racks.get(each) for each in replicas} - {None})
