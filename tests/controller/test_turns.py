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
from ottla.controller.controller import TOPICS_PER_TURN
from ottla.controller.turns import PARTITIONS_PER_TURN, PIECES_AT_ONCE, in_turns, overlapping, pieces
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR
from tests.controller.conftest import TestCluster

pytestmark = pytest.mark.trio

MANY = 4 * PARTITIONS_PER_TURN
#: What a partition costs in one turn at most: about ten when it is decided on, written and told of.
CALLS_PER_PARTITION = 20


class _Turns(trio.abc.Instrument):
    """Counts the calls of Python functions in each turn of the controllers, or of the one that is named."""

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
def counted(only: str = "") -> Iterator[_Turns]:
    turns = _Turns(only)
    trio.lowlevel.add_instrument(turns)
    try:
        yield turns
    finally:
        trio.lowlevel.remove_instrument(turns)


async def test_no_turn_of_the_controller_is_for_all_partitions(cluster: TestCluster) -> None:
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
    for turns in (created, taken_over):
        assert PARTITIONS_PER_TURN < turns.most < CALLS_PER_PARTITION * PARTITIONS_PER_TURN


async def test_topics_are_read_some_at_a_time(cluster: TestCluster) -> None:
    broker = await cluster.broker(0)
    cluster.controller(broker)
    topics = 2 * TOPICS_PER_TURN + 1
    for number in range(topics):
        await create_topic(cluster.admin, NewTopic(f"t{number}", 1, 1))
    await broker.until(lambda: broker.metadata(f"t{topics - 1}"))
    await cluster.kill(broker)
    await cluster.restart_dead(broker)
    told = len(broker.of(LEADER_AND_ISR))
    with counted("TopicAssignment.decode") as turns:
        cluster.controller(broker)
        await broker.until(lambda: len(broker.of(LEADER_AND_ISR)) > told)
    assert len(broker.of(LEADER_AND_ISR)[-1].topic_states) == topics
    assert turns.most == TOPICS_PER_TURN


async def test_others_have_their_turn_in_between() -> None:
    others = 0

    async def other() -> None:
        nonlocal others
        while True:
            others += 1
            await trio.lowlevel.checkpoint()

    seen = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await trio.lowlevel.checkpoint()
        before = others
        async for item in in_turns(range(MANY + 1)):
            seen.append(item)
        # One fewer, since trio shuffles whose turn it is.
        assert others - before >= MANY // PARTITIONS_PER_TURN - 1
        nursery.cancel_scope.cancel()
    assert seen == list(range(MANY + 1))
    assert [each for piece in pieces(seen) for each in piece] == seen
    assert max(map(len, pieces(seen))) == PARTITIONS_PER_TURN


async def test_pieces_overlap_and_an_error_is_raised_as_it_is() -> None:
    begun: list[int] = []
    may_end = trio.Event()

    async def work(piece: Sequence[int]) -> int:
        begun.append(piece[0])
        await may_end.wait()
        if piece[0] == 2 * PARTITIONS_PER_TURN:
            raise ZeroDivisionError
        return len(piece)

    async def run() -> None:
        results.append(await overlapping(work, range(2 * PARTITIONS_PER_TURN + few)))

    results: list[list[int]] = []
    few = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()
        assert begun == [0, PARTITIONS_PER_TURN]
        assert len(begun) == PIECES_AT_ONCE
        may_end.set()
    assert results == [[PARTITIONS_PER_TURN] * 2]
    assert await overlapping(work, []) == []
    few = 1
    with pytest.raises(ZeroDivisionError):
        await run()


async def test_events_with_little_to_do_are_not_all_in_one_turn(cluster: TestCluster) -> None:
    """Each topic that goes is one."""
    broker = await cluster.broker(0)
    controller = cluster.controller(broker)
    await create_topic(cluster.admin, NewTopic("t"))
    await broker.until(lambda: len(broker.metadata("t")) == 1)
    await trio.testing.wait_all_tasks_blocked()
    for number in range(MANY):
        controller._events.put(("topic", f"gone-{number}"))
    turns = 0
    while controller.events_waiting:
        await trio.lowlevel.checkpoint()
        turns += 1
    assert turns >= MANY
