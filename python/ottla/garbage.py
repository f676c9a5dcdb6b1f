"""When Python looks for garbage in a broker.

References are counted, so nearly everything goes when its last user does. What is left are cycles, for which the
collector looks through all objects that it watches: with ten thousand partitions 20 ms, in which nobody is answered,
again and again. Nearly all of what it finds is in use and will be. So what a look through many objects has left is
frozen (`gc.freeze`): later looks pass it by. And what is kept of each partition is made so that the collector does not
watch it where it can have no part in a cycle (structs with `gc=False`, of numbers and tuples of numbers): that is all
but one object of a partition, and was two thirds of a look.

Cycles of frozen objects that fall out of use, those of deleted topics, would stay for ever. Therefore everything is
looked at again when twice as much is frozen as after the last such look: there is never more garbage than data. What a
large request makes is frozen too while it is handled (`ottla.slices`), and goes when it is answered. Everything is not
looked at again before that, since its millions of rows would be looked at.

The collector is the process's, so only who owns the process starts a `Freezer`. A broker inside somebody's process
leaves their collector alone.
"""

from __future__ import annotations

import gc
from typing import Any, Final

MANY: Final = 50_000
"""Objects through which one look may go each time: about 10 ms."""


_is_started = False
_large_requests = 0


def hold() -> None:
    """The rows of one more large request are in memory."""
    global _large_requests
    _large_requests += 1


def let_go() -> None:
    """The rows of a large request are freed."""
    global _large_requests
    _large_requests -= 1


def freeze() -> None:
    """Has later looks pass by all that there is now, if a `Freezer` was started: it has all looked at again in time."""
    if _is_started:
        gc.freeze()


class Freezer:
    """Freezes what stays. One for a process, since the collector is; `start` when everything that a broker begins with
    is there.
    """

    def __init__(self, many: int = MANY) -> None:
        self._many = many
        self._frozen_by_whole_look = 0
        self._is_whole = False

    def start(self) -> None:
        global _is_started
        gc.freeze()
        self._frozen_by_whole_look = gc.get_freeze_count()
        gc.callbacks.append(self._after)
        _is_started = True

    def _after(self, phase: str, info: dict[str, Any]) -> None:
        if phase != "stop" or info["generation"] != 2:
            return
        if self._is_whole:
            gc.freeze()
            self._frozen_by_whole_look = gc.get_freeze_count()
            self._is_whole = False
        elif len(gc.get_objects(generation=2)) > self._many:
            gc.freeze()
            if gc.get_freeze_count() > 2 * self._frozen_by_whole_look and not _large_requests:
                gc.unfreeze()
                self._is_whole = True
