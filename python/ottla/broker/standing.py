"""Tells whether others may lead what this broker leads, without its having heard.

A broker that does not hear the coordination tree goes on: the tree may be away, and then nobody elects. But its session
may have ended for all others, or a neighbour may have taken it for dead and a controller removed its registration. What
such a broker says of its own memory, without a write that others confirm, may be long untrue.

A process that stands still (SIGSTOP, a machine that is moved or sleeps) does not hear that its session ends. When it
goes on, requests wait in its sockets, and it may come to them before it hears anything. So it knows by a clock that it
has stood still.

| this broker                                                 | may have been replaced |
|-------------------------------------------------------------|------------------------|
| does not hear the tree                                      | yes                    |
| hears it again, and has not looked at its registration yet  | yes                    |
| has stood still, and has not looked at its registration yet | yes                    |
| has another session, in which it is not registered yet      | yes                    |
| is registered anew, and the controller has told nothing yet | yes                    |
| was told by a controller what it leads since it registered  | no                     |
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from ottla.coordination.tree import SessionState

if TYPE_CHECKING:
    from ottla.controller.registration import Registration
    from ottla.coordination.tree import Tree


def since_boot() -> float:
    """Seconds, those in which the machine slept included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Standing:
    """The place of this broker among the others, as far as it knows. `session_s` is how long its session lasts without
    a sign of life.
    """

    def __init__(
        self, tree: Tree, registration: Registration, session_s: float, clock: Callable[[], float] = since_boot
    ) -> None:
        self._tree = tree
        self._registration = registration
        self._told = -1
        self._clock = clock
        # A client gives a sign of life in every third of its session, so that two thirds may be left.
        self._still_s = session_s / 3
        self._beat_at = clock()

    async def run(self) -> None:
        """Notices when this process has stood still, until cancelled."""
        while True:
            await trio.sleep(self._still_s / 4)
            self.beat()

    def beat(self) -> None:
        """This process goes on. If it has stood still, its registration is looked at before anything is certain."""
        if self._has_stood_still():
            self._registration.doubt()
        self._beat_at = self._clock()

    def _has_stood_still(self) -> bool:
        return self._clock() - self._beat_at > self._still_s

    def told(self, broker_epoch: int) -> None:
        """A LeaderAndIsr for the registration with this epoch was carried out; -1 from controllers that name none."""
        self._told = max(self._told, self._registration.epoch if broker_epoch < 0 else broker_epoch)

    def may_be_replaced(self) -> bool:
        """True if others may lead what this broker leads, as the table has it."""
        registration = self._registration
        is_heard = self._tree.state is SessionState.CONNECTED and registration.is_seen
        return not is_heard or self._told < registration.epoch or self._has_stood_still()
