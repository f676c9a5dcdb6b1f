"""Where replicas go: Kafka's own examples, and what holds for every cluster."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.controller import assign
from ottla.errors import InvalidPartitions, InvalidReplicationFactor


def no_racks(count: int) -> dict[int, str | None]:
    return dict.fromkeys(range(count))


def test_the_table_of_adminutils() -> None:
    """Kafka's documentation of the placement, with its fixed start (AdminTest.testReplicaAssignment)."""
    assert assign(no_racks(5), 10, 3, start=0) == {
        0: (0, 1, 2),
        1: (1, 2, 3),
        2: (2, 3, 4),
        3: (3, 4, 0),
        4: (4, 0, 1),
        5: (0, 2, 3),
        6: (1, 3, 4),
        7: (2, 4, 0),
        8: (3, 0, 1),
        9: (4, 1, 2),
    }


def test_racks_alternate() -> None:
    """Kafka's AdminRackAwareTest: 0 3 1 5 4 2 is the order of the brokers, so partition 6 does not repeat partition
    0.
    """
    racks: dict[int, str | None] = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert assign(racks, 7, 3, start=0) == {
        0: (0, 3, 1),
        1: (3, 1, 5),
        2: (1, 5, 4),
        3: (5, 4, 2),
        4: (4, 2, 0),
        5: (2, 0, 3),
        6: (0, 4, 2),
    }


def test_racks_that_are_not_all_known_are_not_looked_at() -> None:
    assert assign({0: "a", 1: None, 2: "b"}, 3, 2, start=0) == assign(no_racks(3), 3, 2, start=0)


def test_more_partitions_go_on_where_the_others_ended() -> None:
    assert list(assign(no_racks(3), 2, 2, first_partition=4, start=0)) == [4, 5]


@pytest.mark.parametrize(
    ("partitions", "replicas", "error"),
    [(0, 1, InvalidPartitions), (-1, 1, InvalidPartitions), (1, 0, InvalidReplicationFactor), (1, 4,
    InvalidReplicationFactor)],
)  # fmt: skip
def test_what_cannot_be_placed(partitions: int, replicas: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        assign(no_racks(3), partitions, replicas)


def test_a_broker_alone() -> None:
    assert assign({7: None}, 3, 1) == {0: (7,), 1: (7,), 2: (7,)}


@given(
    brokers=st.sets(st.integers(0, 1000), min_size=1, max_size=12),
    rounds=st.integers(1, 4),
    data=st.data(),
)
def test_leaders_are_even_and_replicas_are_on_different_brokers(
    brokers: set[int], rounds: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    rack_count = data.draw(st.integers(0, 4))
    ordered = sorted(brokers)
    racks = {broker: f"r{index % rack_count}" if rack_count else None for index, broker in enumerate(ordered)}
    placed = assign(racks, len(brokers) * rounds, factor)
    assert Counter(replicas[0] for replicas in placed.values()) == dict.fromkeys(brokers, rounds)
    for replicas in placed.values():
        assert len(set(replicas)) == factor
        if rack_count:
            used = len({racks[broker] for broker in replicas})
            assert used == min(factor, len(set(racks.values())))
