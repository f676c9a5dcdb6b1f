"""Clusters of many partitions: the controller gives way to the loop's other tasks. Counted by calls, since time is the
machine's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import pytest
import trio
import trio.testing

from ottla.controller import NewTopic, create_topic
from ottla.controller.batches import BATCHES_AT_ONCE, PARTITIONS_AT_ONCE, overlapping
from ottla.controller.events import PartitionModifications
from ottla.controller.topics import TOPICS_AT_ONCE
from ottla.slices import ROWS
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR
from tests.controller.conftest import TestCluster

pytestmark = pytest.mark.trio

MANY = 4 * PARTITIONS_AT_ONCE
#: The most calls that a partition costs in one step: about ten when it is decided on, written and told of.
CALLS_PER_PARTITION = 20


class _Steps(trio.abc.Instrument):
    """Counts the calls of Python functions in each step of the controllers, or of the one that is named."""

    def __init__(self, only: str = "") -> None:
        self._only = only
        self.calls = 0
        self.most = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task.name.endswith(("TestCluster._run", "overlapping.<locals>.go_on")):
            self.calls = 0
            sys.setprofile(self._count)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        sys.setprofile(None)
        self.most = max(self.most, self.calls)

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        self.calls += event == "call" and self._only in ("", frame.f_code.co_qualname)


@contextmanager
def counted(only: str = "") -> Iterator[_Steps]:
    steps = _Steps(only)
    trio.lowlevel.add_instrument(steps)
    try:
        yield steps
    finally:
        trio.lowlevel.remove_instrument(steps)


async def test_no_step_of_the_controller_is_for_all_partitions(cluster: TestCluster) -> None:
    broker = await cluster.broker(0)
    cluster.controller(broker)
    with counted() as created:
        await create_topic(cluster.admin, NewTopic("t", MANY, 1))
        await broker.until(lambda: len(broker.metadata("t")) == MANY)
    roles = broker.of(LEADER_AND_ISR)[-1].topic_states[0].partition_states
    assert len(roles) == MANY, "told in one piece all the same"

    await cluster.kill(broker)
    await cluster.restart_dead(broker)
    told = len(broker.of(LEADER_AND_ISR))
    with counted() as taken_over:
        cluster.controller(broker)
        await broker.until(lambda: len(broker.of(LEADER_AND_ISR)) > told)
    for steps in (created, taken_over):
        assert ROWS < steps.most < CALLS_PER_PARTITION * PARTITIONS_AT_ONCE


async def test_topics_are_read_some_at_a_time(cluster: TestCluster) -> None:
    broker = await cluster.broker(0)
    cluster.controller(broker)
    topics = 2 * TOPICS_AT_ONCE + 1
    for number in range(topics):
        await create_topic(cluster.admin, NewTopic(f"t{number}", 1, 1))
    await broker.until(lambda: broker.metadata(f"t{topics - 1}"))
    await cluster.kill(broker)
    await cluster.restart_dead(broker)
    told = len(broker.of(LEADER_AND_ISR))
    with counted("TopicAssignment.decode") as steps:
        cluster.controller(broker)
        await broker.until(lambda: len(broker.of(LEADER_AND_ISR)) > told)
    assert len(broker.of(LEADER_AND_ISR)[-1].topic_states) == topics
    assert steps.most == TOPICS_AT_ONCE


async def test_batches_overlap_and_an_error_is_raised_as_it_is() -> None:
    begun: list[int] = []
    may_end = trio.Event()

    async def work(batch: Sequence[int]) -> int:
        begun.append(batch[0])
        await may_end.wait()
        if batch[0] == 2 * PARTITIONS_AT_ONCE:
            raise ZeroDivisionError
        return len(batch)

    async def run() -> None:
        results.append(await overlapping(work, range(2 * PARTITIONS_AT_ONCE + few)))

    results: list[list[int]] = []
    few = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()
        assert begun == [0, PARTITIONS_AT_ONCE]
        assert len(begun) == BATCHES_AT_ONCE
        may_end.set()
    assert results == [[PARTITIONS_AT_ONCE] * 2]
    assert await overlapping(work, []) == []
    few = 1
    with pytest.raises(ZeroDivisionError):
        await run()


async def test_events_with_little_to_do_are_not_all_in_one_slice(cluster: TestCluster) -> None:
    """Each topic that goes is one."""
    broker = await cluster.broker(0)
    controller = cluster.controller(broker)
    await create_topic(cluster.admin, NewTopic("t"))
    await broker.until(lambda: len(broker.metadata("t")) == 1)
    await trio.testing.wait_all_tasks_blocked()
    for number in range(MANY):
        controller._events.put(PartitionModifications(f"gone-{number}"))
    at_once = [0]
    while waiting := controller.events_waiting:
        await trio.lowlevel.checkpoint()
        at_once.append(waiting - controller.events_waiting)
    # The end of one slice and the next one may come between two looks.
    assert max(at_once) <= 2 * ROWS
