"""Role changes of many partitions give way to the loop's other tasks. Counted by calls, since time is the machine's."""

import sys
from pathlib import Path
from types import FrameType

import pytest
import trio

from ottla.replication.roles import PartitionState
from ottla.slices import ROWS
from tests.replication.internal import ME, opened

pytestmark = pytest.mark.trio

TOPICS = 4 * ROWS
OTHER = ME + 1
#: Of what the slowest pass over them does: applying the state.
CALLS_PER_PARTITION = 30


class _Steps(trio.abc.Instrument):
    """Counts the calls of Python functions in each step of the task that changes roles."""

    def __init__(self, task: trio.lowlevel.Task) -> None:
        self._task = task
        self._calls = 0
        self.most = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._calls = 0
            sys.setprofile(self._count)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        sys.setprofile(None)
        self.most = max(self.most, self._calls)

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        self._calls += event in ("call", "c_call")


def state(topic: int, epoch: int) -> PartitionState:
    """This broker leads every other partition, and each in turn."""
    leader = ME if (topic + epoch) % 2 else OTHER
    return PartitionState(1, leader, epoch, (ME, OTHER), (ME, OTHER), 0)


async def test_no_step_of_a_role_change_is_for_all_partitions(tmp_path: Path) -> None:
    async with opened(tmp_path) as here:
        replicas = here.replicas
        for epoch in (1, 2):
            states = {(f"t{number}", 0): state(number, epoch) for number in range(TOPICS)}
            async with replicas.changing:
                steps = _Steps(trio.lowlevel.current_task())
                trio.lowlevel.add_instrument(steps)
                try:
                    assert await replicas.apply_changing(states, new=states if epoch == 1 else ()) == {}
                    await trio.lowlevel.checkpoint()  # the last step counts, too
                finally:
                    trio.lowlevel.remove_instrument(steps)
        # The last one found all logs there: it is not for I/O that it gave way.
        assert ROWS < steps.most < CALLS_PER_PARTITION * ROWS
        leading = [partition.is_leader for partition in replicas.partitions.values()]
        assert leading.count(True) == TOPICS // 2
