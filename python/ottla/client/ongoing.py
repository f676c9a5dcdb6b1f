"""A call that goes on while those that wait for it come and go.

A connection that is being made, or a request that a broker holds back until it has records, outlives the `poll` that
began it: the next poll takes up what came of it. Objects of this package need no nursery, so the call is a system task
of trio. It ends by itself, since every call has a timeout, or with the run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import trio

from ottla.client.errors import ConnectionLost

T = TypeVar("T")


class Ongoing(Generic[T]):
    """Begins a call. `is_done` says whether it has ended; `result` is what came of it then. Then `then` is
    called, which raises nothing. While it goes on it is one of `among`, so that their owner can `cancel` what is left.
    """

    def __init__(self, among: set[Ongoing[Any]], call: Callable[[], Awaitable[T]], then: Callable[[], object]) -> None:
        self.began_at = trio.current_time()
        self.is_done = False
        self.problem: Exception | None = None
        """What the call raised, if it did."""
        self._value: T | None = None
        self._then = then
        self._among = among
        self._scope = trio.CancelScope()
        among.add(self)
        trio.lowlevel.spawn_system_task(self._run, call)

    def cancel(self) -> None:
        """Ends the call, with ConnectionLost."""
        self._scope.cancel()

    def result(self) -> T:
        """What the call gave. Raises what it raised. Only when it is done."""
        assert self.is_done
        if self.problem is not None:
            raise self.problem
        return self._value  # type: ignore[return-value]

    async def _run(self, call: Callable[[], Awaitable[T]]) -> None:
        try:
            with self._scope:
                self._value = await call()
            if self._scope.cancelled_caught:
                self.problem = ConnectionLost("the connection was closed here")
        except Exception as problem:
            # An exception that leaves a system task ends the whole run.
            self.problem = problem
        finally:
            self._among.discard(self)
        self.is_done = True
        self._then()


class Bell:
    """Wakes the one task that waits for any of several things. What rang while nobody waited is not forgotten."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def ring(self) -> None:
        """Something happened."""
        self._event.set()

    async def wait_until(self, deadline: float) -> None:
        """Returns when it rings, or has rung since it was last waited for, or at this time of trio's clock."""
        with trio.move_on_at(deadline):
            await self._event.wait()
        if self._event.is_set():
            self._event = trio.Event()
