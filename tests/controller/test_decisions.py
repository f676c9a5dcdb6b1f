"""Who leads and who is in sync, by every rule and for every state there can be."""

from __future__ import annotations

import re
from itertools import chain, combinations, permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.controller import decisions
from ottla.controller.model import Partition
from ottla.coordination.znodes import ORDERED, PartitionState
from ottla.errors import UnknownTopicOrPartition
from ottla.kafka import NO_LEADER
from tests.support.readme import block

EPOCH = 9


def partition(replicas: tuple[int, ...], leader: int, isr: tuple[int, ...], leader_epoch: int = 4) -> Partition:
    made = Partition(replicas)
    made.state = PartitionState(leader, leader_epoch, isr, 1, {"leader_recovery_state": 0})
    return made


def after(made: Partition, *online: int, unclean: bool = False) -> tuple[int, int, tuple[int, ...]] | None:
    state = decisions.after_replicas_left(made, online, EPOCH, unclean=unclean)
    if state is None:
        return None
    assert decisions.Phase.of(state) in decisions.TRANSITIONS[decisions.Phase.of(made.state)]
    assert state.controller_epoch == EPOCH
    assert state.extra == {"leader_recovery_state": 0}
    return state.leader, state.leader_epoch, state.isr


def test_an_operator_has_led_who_is_in_sync_or_has_the_most() -> None:
    offline = partition((1, 2, 3), NO_LEADER, (3,))

    def ordered(
        online: list[int], suspected: list[int], ends: dict[int, tuple[int, int]]
    ) -> tuple[int, tuple[int, ...], bool] | None:
        state = decisions.ordered_leader(offline, online, suspected, ends, EPOCH)
        if state is None:
            return None
        assert (state.leader_epoch, state.controller_epoch) == (5, EPOCH)
        return state.leader, state.isr, ORDERED in state.extra

    assert ordered([1, 3], [], {1: (9, 9)}) == (3, (3,), False)
    assert ordered([1, 2], [], {1: (2, 5), 2: (3, 1)}) == (2, (2,), False)
    assert ordered([1, 2], [], {}) == (1, (1,), False)
    # Who may have lost records leads only where that is marked.
    assert ordered([1, 2], [3], {1: (2, 5), 2: (2, 6), 3: (2, 7)}) == (3, (3,), True)
    assert ordered([1, 2], [3], {1: (2, 5), 2: (2, 6), 3: (2, 5)}) == (2, (2,), False)
    assert ordered([1, 2], [3], {}) == (3, (3,), True)
    assert ordered([], [3], {}) == (3, (3,), True)
    assert ordered([], [], {}) is None


def test_an_order_is_for_one_election() -> None:
    made = partition((1, 2), NO_LEADER, (2,))
    made.state = decisions.ordered_leader(made, [], [2], {}, EPOCH)
    assert made.state is not None
    assert made.state.extra == {"leader_recovery_state": 0, ORDERED: True}
    for later in (
        decisions.next_epoch(made, EPOCH),
        decisions.altered_isr(made, 2, decisions.IsrChange(5, (1, 2), 0), EPOCH),
    ):
        assert isinstance(later, PartitionState)
        assert later.extra == {"leader_recovery_state": 0}


def test_first_state() -> None:
    assert decisions.first_state([2, 3], EPOCH) == PartitionState(2, 0, (2, 3), EPOCH)
    assert decisions.first_state([], EPOCH) is None


def test_nothing_changes_while_all_are_there() -> None:
    assert after(partition((1, 2, 3), 2, (2, 3)), 1, 2, 3) is None


def test_the_next_leader_is_the_first_in_assignment_order_that_is_in_sync() -> None:
    assert after(partition((1, 2, 3, 4), 1, (1, 4, 3)), 2, 3, 4) == (3, 5, (4, 3))


def test_a_follower_that_left_is_taken_from_the_isr() -> None:
    assert after(partition((1, 2, 3), 1, (1, 2, 3)), 1, 3) == (1, 5, (1, 3))


def test_one_that_was_not_in_sync_makes_no_difference() -> None:
    assert after(partition((1, 2, 3), 1, (1, 2)), 1, 2) is None


def test_without_anyone_in_sync_there_is_no_leader_and_the_isr_stays() -> None:
    assert after(partition((1, 2, 3), 1, (1, 2)), 3) == (NO_LEADER, 5, (1, 2))
    assert after(partition((1, 2, 3), NO_LEADER, (1, 2)), 3) is None
    assert after(partition((1, 2, 3), NO_LEADER, (1, 2)), 2, 3) == (2, 5, (2,))


def test_unclean_election_only_if_allowed_and_only_if_nobody_in_sync_is_there() -> None:
    assert after(partition((1, 2, 3), 1, (1,)), 3, 2, unclean=True) == (2, 5, (2,))
    assert after(partition((1, 2, 3), 1, (1, 3)), 2, 3, unclean=True) == (3, 5, (3,))
    assert decisions.needs_unclean_election(partition((1, 2), 1, (1,)), [2])
    assert not decisions.needs_unclean_election(partition((1, 2), 1, (1,)), [])
    assert not decisions.needs_unclean_election(partition((1, 2), 1, (1, 2)), [2])


brokers = (1, 2, 3)
subsets = [tuple(s) for s in chain.from_iterable(combinations(brokers, n) for n in range(4))]


@pytest.mark.parametrize("unclean", [False, True])
@given(
    replicas=st.permutations(brokers).map(tuple),
    isr=st.sampled_from([s for s in subsets if s]),
    leads=st.sampled_from([NO_LEADER, *brokers]),
    online=st.sampled_from(subsets),
)
def test_what_holds_always(
    unclean: bool, replicas: tuple[int, ...], isr: tuple[int, ...], leads: int, online: tuple[int, ...]
) -> None:
    if leads not in (NO_LEADER, *isr):
        return
    made = partition(replicas, leads, isr)
    state = decisions.after_replicas_left(made, online, EPOCH, unclean=unclean)
    new = state or made.state
    assert new is not None
    assert new.isr, "the ISR is never empty"
    if state is not None:
        assert state.leader_epoch == 5
        # Deciding again from the result changes nothing.
        again = Partition(replicas)
        again.state = state
        assert decisions.after_replicas_left(again, online, EPOCH, unclean=unclean) is None
    if new.leader != NO_LEADER:
        assert new.leader in online
        assert new.leader in new.isr
        assert set(new.isr) <= set(online)
    else:
        assert set(new.isr) == set(isr)
        assert not set(isr) & set(online)
        assert not (unclean and online)
    if not unclean:
        assert set(new.isr) <= set(isr), "only leaders add to the ISR"


def shrunk(made: Partition, *online: int, leaving: tuple[int, ...], unclean: bool = False) -> object:
    state = decisions.after_replicas_left(made, online, EPOCH, leaving=leaving, unclean=unclean)
    return None if state is None else (state.leader, state.leader_epoch, state.isr)


def test_a_leader_that_shuts_down_leads_until_another_can() -> None:
    assert shrunk(partition((1, 2, 3), 1, (1, 2, 3)), 2, 3, leaving=(1,)) == (2, 5, (2, 3))
    assert shrunk(partition((1, 2, 3), 1, (1,)), 2, 3, leaving=(1,)) is None
    assert shrunk(partition((1, 2, 3), 1, (1,)), 2, 3, leaving=(1,), unclean=True) is None
    assert shrunk(partition((1, 2, 3), 1, (1, 2)), 3, leaving=(1,)) == (1, 5, (1,)), "2 is dead"
    assert shrunk(partition((1, 2, 3), 1, (1, 2)), 3, leaving=(1, 2)) == (1, 5, (1,)), "2 leaves, too"
    assert shrunk(partition((1, 2, 3), 1, (1, 2)), 3, leaving=()) == (NO_LEADER, 5, (1, 2))
    assert not decisions.needs_unclean_election(partition((1, 2), 1, (1,)), [2], [1])


def test_a_follower_that_shuts_down_leaves_the_isr() -> None:
    assert shrunk(partition((1, 2, 3), 1, (1, 2, 3)), 1, 3, leaving=(2,)) == (1, 5, (1, 3))
    assert shrunk(partition((1, 2, 3), 1, (1, 3)), 1, 3, leaving=(2,)) is None


def test_an_isr_is_altered_within_the_leader_epoch() -> None:
    made = partition((1, 2, 3), 1, (1, 2))
    change = decisions.IsrChange(4, (1, 2, 3), 7)
    assert decisions.altered_isr(made, 1, change, EPOCH) == PartitionState(
        1, 4, (1, 2, 3), EPOCH, {"leader_recovery_state": 0}
    )
    assert decisions.altered_isr(made, 1, decisions.IsrChange(4, (2, 1), 7), EPOCH) is made.state
    assert made.state is not None
    assert decisions.next_epoch(made, EPOCH) == PartitionState(1, 5, (1, 2), EPOCH, {"leader_recovery_state": 0})
    assert isinstance(decisions.altered_isr(Partition((1,)), 1, change, EPOCH), UnknownTopicOrPartition)
    assert decisions.next_epoch(Partition((1,)), EPOCH) is None


moved = st.sampled_from(list(chain.from_iterable(permutations((1, 2, 3, 4), n) for n in (1, 2, 3))))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("move"), st.one_of(st.none(), moved)),
        st.tuples(st.just("catches up"), st.integers(1, 4)),
        st.tuples(st.just("goes or returns"), st.integers(1, 4)),
        st.tuples(st.just("ends"), st.none()),
    ),
    max_size=25,
)


@settings(max_examples=1500, deadline=None)
@given(steps=steps)
def test_moves_never_leave_the_last_copy_behind(steps: list[tuple[str, Any]]) -> None:
    """Whatever is ordered, comes and goes: in sync are replicas alone, one of them leads if one is there, and somebody
    that was in sync before a move still is.
    """
    made = partition((1, 2), 1, (1, 2))
    online = {1, 2, 3, 4}

    def take(state: PartitionState | None) -> None:
        if state is None:
            return
        old = made.state
        assert old is not None
        assert state.leader_epoch == old.leader_epoch + 1
        assert set(state.isr) & set(old.isr), "nobody has what was committed"
        made.state = state

    def assign(plan: decisions.Reassigned) -> None:
        made.replicas, made.adding, made.removing = plan

    def end() -> None:
        target = decisions.Reassigned(made.replicas, made.adding, made.removing).target
        if (made.adding or made.removing) and (
            state := decisions.after_reassignment(made, target, online, EPOCH)
        ) is not None:  # fmt: skip
            take(state)
            assign(decisions.Reassigned(target, (), ()))

    for kind, what in steps:
        assert made.state is not None
        if kind == "move":
            plan = decisions.reassigned(made, what, online & set(made.replicas))
            if plan is not None:
                if what is not None:
                    assert plan.target == what
                assign(plan)
                take(decisions.begun_reassignment(made, online, EPOCH))
        elif kind == "catches up":
            state = made.state
            if state.leader != NO_LEADER and what in made.replicas and what in online and what not in state.isr:
                made.state = PartitionState(state.leader, state.leader_epoch, (*state.isr, what), EPOCH, state.extra)
        elif kind == "goes or returns":
            online ^= {what}
            take(decisions.after_replicas_left(made, [one for one in made.replicas if one in online], EPOCH))
        else:
            end()
        state = made.state
        assert state is not None
        assert state.isr
        assert set(state.isr) <= set(made.replicas)
        if set(state.isr) & online:
            assert state.leader in set(state.isr) & online
        else:
            assert state.leader == NO_LEADER


def test_a_leader_that_nobody_tells_to_recover_has_recovered() -> None:
    """Kafka 3.2 and later note it after an unclean election; what nobody knows stays."""
    made = partition((1, 2), 1, (1,))
    assert made.state is not None
    made.state = PartitionState(1, 4, (1,), 1, {"leader_recovery_state": 1, "later": [7]})
    for state in (
        decisions.altered_isr(made, 1, decisions.IsrChange(4, (1, 2), 7), EPOCH),
        decisions.next_epoch(made, EPOCH),
        decisions.after_replicas_left(made, (), EPOCH),
    ):
        assert isinstance(state, PartitionState)
        assert state.extra == {"leader_recovery_state": 0, "later": [7]}


def test_a_kept_replica_is_on_its_way_in_and_out() -> None:
    """2 alone was in sync when 3 was wanted instead of it: it belongs to neither end, whether it is online or not."""
    made = Partition((2, 1), (2,), (1,), PartitionState(2, 4, (2,), EPOCH))
    for online in ([2], []):
        plan = decisions.reassigned(made, (3,), online)
        assert plan == decisions.Reassigned((3, 1, 2), (3, 2), (1, 2))
        assert plan.target == (3,)
    assert decisions.reassigned(made, None, [2]) == decisions.Reassigned((1, 2), (2,), (2,))


def test_the_picture_of_a_partition_has_each_of_its_transitions() -> None:
    drawn = re.findall(r"(\w+) --> (\w+):", block("mermaid", "NewPartition", "docs/states.md"))
    table = decisions.TRANSITIONS
    assert sorted(drawn) == sorted((one.value, other.value) for one in table for other in table[one])
    assert table.keys() == set(decisions.Phase)
