"""From offset ranges to Spark tasks, by bytes.

A task of a Python source costs Spark about 60 ms before its first row, so one task per partition (what Spark's own
source does) or per segment loses seconds with thousands of partitions, and one large partition among small ones keeps
one core busy while the others wait. Here the ranges are laid end to end and the whole is cut into equal parts: small
ranges share a task, large ones are split between several. How many parts: one per 64 MiB, but not more than three per
core until a part would exceed 256 MiB, and as many for each core.
"""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ottla.reading.ranges import Range

__all__ = ["Range", "plan", "plan_whole", "task_count"]

TASK_BYTES = 64 * 1024 * 1024
TASK_BYTES_MAX = 256 * 1024 * 1024
TASKS_PER_CORE = 3


def task_count(ranges: Sequence[Range], partitions_min: int | None, cores: int | None = None) -> int:
    """Into how many tasks these ranges should be cut."""
    total_bytes = sum(each.size_bytes for each in ranges)
    offsets = sum(each.offsets for each in ranges)
    cores = cores or os.cpu_count() or 1
    count = max(
        min(math.ceil(total_bytes / TASK_BYTES), TASKS_PER_CORE * cores),
        math.ceil(total_bytes / TASK_BYTES_MAX),
    )
    if count > cores:
        # A last wave that leaves cores without work takes as long as a full one.
        count = math.ceil(count / cores) * cores
    return min(max(count, partitions_min or 1), offsets)


def plan(
    ranges: Iterable[Range], partitions_min: int | None = None, records_max: int | None = None, cores: int | None = None
) -> list[list[Range]]:
    """One list of ranges per task; together they are exactly the given ranges without the empty ones.

    `partitions_min` is Spark's minPartitions (about so many tasks at least), `records_max` its maxRecordsPerPartition
    (no task has more offsets).
    """
    todo = sorted((each for each in ranges if each.offsets > 0), key=lambda each: each.partition)
    if not todo:
        return []
    count = task_count(todo, partitions_min, cores)
    task_bytes = sum(each.size_bytes for each in todo) / count
    tasks: list[list[Range]] = [[]]
    filled = 0.0
    for each in todo:
        bytes_per_offset = each.size_bytes / each.offsets
        start = each.start
        while start < each.end:
            room = max(1, round((task_bytes - filled) / bytes_per_offset))
            if records_max is not None:
                room = min(room, records_max - sum(part.offsets for part in tasks[-1]))
            end = min(each.end, start + room)
            taken = (end - start) * bytes_per_offset
            tasks[-1].append(replace(each, start=start, end=end, size_bytes=max(1, round(taken))))
            filled += taken
            start = end
            full = records_max is not None and sum(part.offsets for part in tasks[-1]) >= records_max
            if full or filled >= task_bytes - bytes_per_offset / 2:
                tasks.append([])
                filled = 0.0
    return [task for task in tasks if task]


def plan_whole(ranges: Iterable[Range], cores: int | None = None) -> list[list[Range]]:
    """The same, but no range is split: what a task reads of a partition is all that is read of it, in order.

    The largest ranges are given out first, each to the task that has least.
    """
    todo = sorted((each for each in ranges if each.offsets > 0), key=lambda each: (-each.size_bytes, each.partition))
    if not todo:
        return []
    tasks: list[list[Range]] = [[] for _ in range(min(task_count(todo, None, cores), len(todo)))]
    filled = [0] * len(tasks)
    for each in todo:
        least = filled.index(min(filled))
        tasks[least].append(each)
        filled[least] += each.size_bytes
    return tasks
