"""Who leads and who is in sync, by every rule and for every state there can be."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.controller import decisions
from ottla.controller.model import Partition
from ottla.coordination.znodes import PartitionState
from ottla.kafka import NO_LEADER

EPOCH = 9


def partition(replicas: tuple[int, ...], leader: int, isr: tuple[int, ...], leader_epoch: int = 4) -> Partition:
    made = Partition(replicas)
    made.state = PartitionState(leader, leader_epoch, isr, 1, {"leader_recovery_state": 0})
    return made


def after(made: Partition, *online: int, unclean: bool = False) -> tuple[int, int, tuple[int, ...]] | None:
    state = decisions.after_replicas_left(made, online, EPOCH, unclean=unclean)
    if state is None:
        return None
    assert state.controller_epoch == EPOCH
    assert state.extra == {"leader_recovery_state": 0}
    return state.leader, state.leader_epoch, state.isr


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
