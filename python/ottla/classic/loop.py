"""Tasks in the one loop of blocking clients (`ottla.client.facade`): sessions with ZooKeeper, and consumers.

That loop ends with the interpreter; what must not be lost is closed by `at_exit` before, since what was registered last
is called first.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import trio

from ottla.client import facade

logger = logging.getLogger(__name__)

T = TypeVar("T")


class _Closable(Protocol):
    def close(self) -> None: ...


class Loop:
    """The process's loop, that of `ottla.client.sync`, for tasks that go on between calls."""

    def __init__(self) -> None:
        self._loop = facade.loop()

    def run(self, call: Callable[..., Awaitable[T]], *args: object) -> T:
        """Runs it in the loop and gives its result; for threads other than the loop's. Ctrl-C cancels it."""
        return self._loop.call(lambda: call(*args))

    def start(self, call: Callable[..., Awaitable[Any]], *args: object) -> Any:
        """Starts a task that goes on; gives what it says with `task_status.started`, and raises what it raises before.
        What it raises after that is logged: the loop is everybody's.
        """
        return self.run(self._loop.nursery.start, _guarded, call, *args)

    def soon(self, call: Callable[[], object]) -> None:
        """Calls it in the loop, soon. Nothing happens once the loop is gone."""
        with contextlib.suppress(trio.RunFinishedError):
            self._loop._token.run_sync_soon(call)


class _Status:
    """Remembers whether the task was started."""

    def __init__(self, inner: trio.TaskStatus[Any]) -> None:
        self._inner = inner
        self.is_started = False

    def started(self, value: Any = None) -> None:
        self.is_started = True
        self._inner.started(value)


async def _guarded(call: Callable[..., Awaitable[Any]], *args: object, task_status: trio.TaskStatus[Any]) -> None:
    status = _Status(task_status)
    try:
        await call(*args, task_status=status)
    except Exception:
        if not status.is_started:
            raise
        logger.exception("a task of the classic clients ended")


_forks = 0


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)


def forks() -> int:
    """How many forks lie between this process and the one that imported this module: cheaper than its id."""
    return _forks


_open: set[Any] = set()


def at_exit(what: _Closable) -> None:
    """Has it closed when the interpreter ends, unless it was, or was made in another process. Nobody else needs to keep
    it.
    """
    _open.add(what)


def closed(what: _Closable) -> None:
    """It was closed already."""
    _open.discard(what)


@atexit.register
def _close_all() -> None:
    for each in list(_open):
        if each.pid == os.getpid():
            with contextlib.suppress(Exception):
                each.close()
