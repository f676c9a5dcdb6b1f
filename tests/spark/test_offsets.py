"""The arithmetic of micro-batches, without Spark and without brokers."""

import pytest

from ottla.client import TopicPartition
from ottla.spark.offsets import from_json, limited, spans, to_json, waiting

A, B, C = (TopicPartition("t", number) for number in range(3))


def test_the_form_of_sparks_kafka_source() -> None:
    positions = {TopicPartition("b", 10): 7, TopicPartition("b", 2): 0, TopicPartition("a", 0): 3}
    assert to_json(positions) == {"a": {"0": 3}, "b": {"2": 0, "10": 7}}
    assert list(to_json(positions)["b"]) == ["2", "10"]
    assert from_json(to_json(positions)) == positions
    assert from_json({}) == {}


@pytest.mark.parametrize("found", [7, {"t": 7}, {"t": {"0": "7"}}, {"t": {"x": 7}}, {"t": {"0": -1}}])
def test_a_checkpoint_of_something_else(found: object) -> None:
    with pytest.raises(ValueError, match="the checkpoint has no offsets of topics"):
        from_json(found)


def test_what_is_waiting_counts_new_partitions_from_zero() -> None:
    assert waiting({A: 3}, {A: 10, B: 5}) == 12


@pytest.mark.parametrize(
    ("most", "start", "latest", "new", "end"),
    [
        (10, {A: 0, B: 0}, {A: 30, B: 10}, {}, {A: 7, B: 2}),  # by what is waiting, rounded down
        (2, {A: 0, B: 0}, {A: 999, B: 1}, {}, {A: 1, B: 1}),  # but nobody starves
        (100, {A: 5}, {A: 9}, {}, {A: 9}),  # never past the end
        (10, {A: 4}, {A: 4}, {}, {A: 4}),  # nothing there
        (10, {A: 0}, {A: 30, B: 40}, {B: 30}, {A: 7, B: 32}),  # a new one from where it begins
        (10, {A: 0}, {A: 30, B: 40}, {}, {A: 10, B: 40}),  # a new one that is gone again
        (10, {A: 9}, {A: 4}, {}, {A: 4}),  # an end that went back is for `spans` to tell
        (10, {}, {}, {}, {}),
    ],
)
def test_a_limit_is_shared_out(
    most: int,
    start: dict[TopicPartition, int],
    latest: dict[TopicPartition, int],
    new: dict[TopicPartition, int],
    end: dict[TopicPartition, int],
) -> None:
    assert limited(most, start, latest, new) == end


@pytest.mark.parametrize(
    ("start", "end", "new", "found", "lost"),
    [
        ({A: 1, B: 2}, {A: 5, B: 2}, {}, {A: (1, 5)}, []),
        ({A: 1}, {A: 1, B: 4}, {B: 0}, {B: (0, 4)}, []),
        ({A: 1}, {A: 1, B: 4}, {B: 2}, {B: (2, 4)}, ["added partition t-1 starts from 2 instead of 0"]),
        (
            {A: 1},
            {A: 3, B: 4},
            {},
            {A: (1, 3)},
            ["cannot find the earliest offsets of t-1; they may have been deleted"],
        ),
        ({A: 1, B: 2, C: 3}, {B: 4}, {}, {B: (2, 4)}, ["t-0, t-2 are gone"]),
        ({A: 9}, {A: 4}, {}, {}, ["the offset of t-0 was changed from 9 to 4"]),
    ],
)
def test_what_a_batch_reads_and_what_is_lost(
    start: dict[TopicPartition, int],
    end: dict[TopicPartition, int],
    new: dict[TopicPartition, int],
    found: dict[TopicPartition, tuple[int, int]],
    lost: list[str],
) -> None:
    assert spans(start, end, new) == (found, lost)
