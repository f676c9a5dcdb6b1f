"""Ranges into tasks: nothing lost, nothing twice, and no more tasks than pay."""

import random

import pytest

from ottla.client import TopicPartition
from ottla.spark.planning import TASK_BYTES, TASK_BYTES_MAX, TASKS_PER_CORE, Range, plan, plan_whole

MIB = 1024 * 1024


def a_range(number: int, offsets: int, size_bytes: int, start: int = 0, topic: str = "t") -> Range:
    return Range(TopicPartition(topic, number), start, start + offsets, size_bytes, ("host", 9092))


def joined(tasks: list[list[Range]]) -> list[tuple[TopicPartition, int, int]]:
    """The tasks' ranges with neighbours put together again."""
    whole: list[tuple[TopicPartition, int, int]] = []
    for each in (each for task in tasks for each in task):
        if whole and whole[-1][0] == each.partition and whole[-1][2] == each.start:
            whole[-1] = (each.partition, whole[-1][1], each.end)
        else:
            whole.append((each.partition, each.start, each.end))
    return whole


def test_nothing_to_read() -> None:
    assert plan([]) == []
    assert plan([a_range(0, 0, 1), a_range(1, -5, 1)]) == []


def test_a_thousand_small_partitions_are_one_task() -> None:
    assert len(plan([a_range(number, 1, 100) for number in range(1000)])) == 1


def test_one_large_partition_is_shared() -> None:
    tasks = plan([a_range(0, 3_000_000, 400 * MIB, start=17)], cores=2)
    assert len(tasks) == 2 * TASKS_PER_CORE
    assert joined(tasks) == [(TopicPartition("t", 0), 17, 3_000_017)]
    assert max(task[0].offsets for task in tasks) - min(task[0].offsets for task in tasks) <= 1


def test_more_tasks_only_when_they_would_be_too_large() -> None:
    def count(size_bytes: int) -> int:
        return len(plan([a_range(0, 10_000_000, size_bytes)], cores=2))

    assert count(TASK_BYTES) == 1
    assert count(TASK_BYTES + MIB) == 2
    assert count(3 * TASK_BYTES) == 4, "a third task alone would leave a core without work"
    assert count(6 * TASK_BYTES) == 6
    assert count(6 * TASK_BYTES_MAX) == 6
    assert count(60 * TASK_BYTES_MAX) == 60


def test_partitions_min_is_a_floor_but_no_task_is_empty() -> None:
    assert len(plan([a_range(0, 1000, 10_000)], partitions_min=7)) == 7
    assert len(plan([a_range(0, 3, 10_000)], partitions_min=7)) == 3


def test_records_max_is_a_ceiling() -> None:
    tasks = plan([a_range(0, 1000, 10_000), a_range(1, 55, 10_000)], records_max=100)
    assert all(sum(each.offsets for each in task) <= 100 for task in tasks)
    assert joined(tasks) == [(TopicPartition("t", 0), 0, 1000), (TopicPartition("t", 1), 0, 55)]


@pytest.mark.parametrize("seed", range(200))
def test_tasks_are_exactly_the_ranges(seed: int) -> None:
    source = random.Random(seed)
    ranges = [
        a_range(
            number,
            source.choice([0, 1, 2, 1000, 10**7]),
            source.choice([1, 1000, 10**8, 10**10]),
            source.randint(0, 10**9),
        )
        for number in range(source.randint(1, 40))
    ]
    tasks = plan(ranges, source.choice([None, 1, 50]), source.choice([None, 10**6]), cores=source.choice([1, 2, 64]))
    assert all(task for task in tasks)
    assert all(each.offsets > 0 and each.size_bytes > 0 for task in tasks for each in task)
    assert joined(tasks) == [(each.partition, each.start, each.end) for each in ranges if each.offsets]


def test_whole_partitions_are_never_split_and_shared_out_evenly() -> None:
    ranges = [a_range(number, 1000, (number + 1) * 40 * MIB, start=5) for number in range(8)]
    tasks = plan_whole([*ranges, a_range(8, 0, 1)], cores=2)
    read = [each for task in tasks for each in task]
    assert sorted(read, key=lambda each: each.partition) == ranges
    sizes = [sum(each.size_bytes for each in task) for task in tasks]
    assert len(sizes) == 6
    assert max(sizes) == 8 * 40 * MIB, "no task has more than the largest partition"
    assert plan_whole([]) == []
