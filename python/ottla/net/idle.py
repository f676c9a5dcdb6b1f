"""Turns of the hub without a pass of the scheduler for each.

When a wake-up brings one request, trio's part of it (arming the descriptor again, waiting, rescheduling one task) costs
more than the request: 12 us warm, and three times that where a broker that is seldom asked finds its caches cold. So
the hub waits in trio's place: before each of its waits trio calls its instruments, and `Turns` is one that waits there
for the hub and, as one more descriptor of the hub's, for whatever trio would have waited for. What the hub can do alone
(sending on what a full socket held back) it does without Python, and while no task can run, turn follows turn.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import trio

from ottla._core import Completion, Disconnected, Hub, Request, Served

Event = Request | Completion | Disconnected | Served

#: More than this trio never waits, in seconds.
_DAY = 24 * 3600.0
_taken: trio.lowlevel.RunVar[bool] = trio.lowlevel.RunVar("the hub that waits for this run", default=False)


def is_taken() -> bool:
    """True if a hub waits for this run already: a second one would see nothing while the first one waits."""
    return _taken.get()


class Turns(trio.abc.Instrument):
    """Waits for `hub`, and calls `turn` with the first event of each turn that has one for Python.

    Made inside a run, in whose every pass the hub gets a turn from then on, until `end`; nobody else may wait for the
    hub meanwhile. What `turn` raises goes to `failed`. Raises ImportError or AttributeError where trio's run loop is
    not as expected: the descriptor that it waits on, its runnable tasks and the next deadline are no part of its
    interface.
    """

    def __init__(self, hub: Hub, turn: Callable[[Event], object], failed: Callable[[BaseException], object]) -> None:
        from trio._core._run import GLOBAL_RUN_CONTEXT

        runner = GLOBAL_RUN_CONTEXT.runner
        self._runnable = runner.runq
        self._next_deadline = runner.deadlines.next_deadline
        self._sleep_time = runner.clock.deadline_to_sleep_time
        self._force_wakeup = runner.io_manager.force_wakeup
        self._hub = hub
        self._wait = hub.wait
        self._turn = turn
        self._failed = failed
        self._ended = False
        hub.watch_beside(runner.io_manager._epoll.fileno())
        trio.lowlevel.add_instrument(self)
        _taken.set(True)

    def end(self) -> None:
        """Leaves trio to itself."""
        if not self._ended:
            self._ended = True
            _taken.set(False)
            self._hub.watch_beside(None)
            with suppress(KeyError):  # one that raised is gone already
                trio.lowlevel.remove_instrument(self)

    @trio.lowlevel.enable_ki_protection
    def before_io_wait(self, timeout: float) -> None:
        """Returns when trio has something to do. Its own wait of `timeout` seconds ends at once then."""
        if self._ended:
            return
        deadline = self._next_deadline()
        # Somebody waits until trio was idle for so long, and then nothing but the wait itself may tell.
        only_once = timeout < min(self._sleep_time(deadline), _DAY)
        came, left = False, timeout
        while True:
            try:
                event = self._wait(left)
                if event is None:
                    break
                came = True
                self._turn(event)
                # A request that was dropped without an answer is closed now, not when the next event comes.
                del event
            except BaseException as error:
                self._failed(error)
                break
            if only_once or self._ended or self._runnable or self._next_deadline() < deadline:
                break
            left = min(self._sleep_time(deadline), _DAY)
            if left <= 0:
                break
        if timeout > 0 and (came or not only_once):
            self._force_wakeup()
