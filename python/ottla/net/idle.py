"""Turns of the hub without a pass of the scheduler for each.

When a wake-up brings one request, trio's part of it (arming the descriptor again, waiting, rescheduling one task) costs
more than the request: 12 us warm, and three times that where a broker that is seldom asked finds its caches cold. But
whenever trio is about to wait, no task can run, so nobody is in the way of a turn. `Turns` is the instrument that then
waits for both, the hub and whatever else trio waits for, and runs the hub's turns until something else is to be done.

The task that waits for the hub's descriptor stays where it is, and does the same work whenever this cannot.
"""

from __future__ import annotations

import select
from collections.abc import Callable

import trio

#: After so many turns without a wait between them trio looks round: others' sockets wait no longer than these take.
TURNS_MAX = 16
#: A shorter time was none, in seconds.
_NO_WAIT = 20e-6
#: More than this trio never waits, in seconds.
_DAY = 24 * 3600.0


class Turns(trio.abc.Instrument):
    """Calls `turn()` whenever `fd` is readable while no task is runnable. Must be made inside the run it is added to,
    where a task waits for `fd` as well.

    What `turn` raises goes to `failed`. Raises ImportError or AttributeError where trio's run loop is not as expected:
    the descriptor that it waits on, its runnable tasks and the next deadline are no part of its interface.
    """

    def __init__(self, fd: int, turn: Callable[[], object], failed: Callable[[BaseException], object]) -> None:
        from trio._core._run import GLOBAL_RUN_CONTEXT

        runner = GLOBAL_RUN_CONTEXT.runner
        self._runnable = runner.runq
        self._next_deadline = runner.deadlines.next_deadline
        self._sleep_time = runner.clock.deadline_to_sleep_time
        self._force_wakeup = runner.io_manager.force_wakeup
        self._fd = fd
        self._poll = select.poll()
        # In this order they are told.
        self._poll.register(fd, select.POLLIN)
        self._poll.register(runner.io_manager._epoll.fileno(), select.POLLIN)
        self._turn = turn
        self._failed = failed
        self._ended = False

    def end(self) -> None:
        """From now on turns are the task's alone, also if one of these is going on."""
        self._ended = True

    @trio.lowlevel.enable_ki_protection
    def before_io_wait(self, timeout: float) -> None:
        """Returns when trio has something to do. Its wait, whose `timeout` is settled already, ends at once then."""
        deadline = self._next_deadline()
        left = self._sleep_time(deadline)
        if self._ended or timeout <= 0 or timeout < min(left, _DAY):
            return  # tasks can run, or somebody waits for trio to be idle
        in_a_row = 0
        while in_a_row < TURNS_MAX and left > 0:
            ready = self._poll.poll(min(left, _DAY) * 1000)
            if not ready:
                break  # the deadline
            if ready[0][0] != self._fd:
                return  # something else, and trio's own wait will find it
            # Whoever had to be waited for is alone: had something else been ready, the wait would have been none.
            in_a_row = 0 if left - self._sleep_time(deadline) > _NO_WAIT else in_a_row + 1
            try:
                self._turn()
            except BaseException as error:
                self._failed(error)
                break
            if self._ended or self._runnable or self._next_deadline() < deadline:
                break
            left = self._sleep_time(deadline)
        self._force_wakeup()
