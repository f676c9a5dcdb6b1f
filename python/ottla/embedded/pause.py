"""A broker that stands still, as a process does that gets SIGSTOP or whose machine sleeps.

The loop of the broker waits in one of its tasks, and so for nothing else: no request is read or answered, no timer
fires. Threads beside the loop serve under leases and fetch from leaders without it; so the leases end first, and the
fetchers have nothing to fetch. What a thread has begun with the disk, it ends. Connections stay open, and the system
takes new ones, as it does for a stopped process. (A thread beside the loop goes on reading what clients send, and
closes the connection of one that sends no request. A stopped process would do so later.)

| who          | what it believes meanwhile                                                                     |
|--------------|------------------------------------------------------------------------------------------------|
| the tree     | the broker lives, until its session's timeout has passed; then it is gone                       |
| neighbours   | it lives: nobody is refused                                                                     |
| the others   | it leads what it led and is in sync where it was, until the session ends, or, as a follower,    |
|              | until it has not fetched for `replica.lag.time.max.ms`                                          |
| clients      | nothing: answers are late, until their own timeouts                                             |
| the broker   | nothing. When it goes on, it hears first of its session; then time has passed for all its timers |

A tree that belongs to the broker alone has no session that could end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

#: How often it is looked whether a broker that is to stand still, or to go on, has ended.
LOOK_S: Final = 0.1


class Pause:
    """One pause of a broker. `hold` is called in its loop, all else by others."""

    def __init__(self, is_alive: Callable[[], bool]) -> None:
        self._is_alive = is_alive
        self._began = threading.Event()
        self._ends = threading.Event()
        self._ended = threading.Event()
        self._then: Callable[[], object] | None = None

    def hold(self) -> None:
        """Stops the thread that calls it until `end`, and then does what that wants first of all."""
        self._began.set()
        self._ends.wait()
        if self._then is not None:
            self._then()

    def over(self) -> None:
        """The broker has gone on, and knows what has become of its session."""
        self._ended.set()

    def wait(self) -> None:
        """Returns when the broker stands still, or has ended."""
        self._wait_for(self._began)

    def end(self, then: Callable[[], object] | None = None) -> None:
        """Has the broker go on, and do `then` before anything else."""
        self._then = then
        self._ends.set()

    def wait_for_end(self) -> None:
        """Returns when the broker has gone on, or has ended."""
        self._wait_for(self._ended)

    def _wait_for(self, event: threading.Event) -> None:
        while not event.wait(LOOK_S) and self._is_alive():
            pass
