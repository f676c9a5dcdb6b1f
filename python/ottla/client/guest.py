"""A run of trio as the guest of an asyncio loop: both take turns in one thread.

The client is written for trio. Here its tasks run between the callbacks of an asyncio loop (`trio.lowlevel.
start_guest_run`), so that what they have decoded is read without any switch, and what needs no waiting, such as `seek`,
is an ordinary call. Trio waits for sockets in a thread of its own, which ends some seconds after the last wait.

Who holds a `Guest` keeps the run alive, and the last holder that lets go waits for its end. A thread has at most one
run, and so at most one loop with clients at a time. Three ends are no holder's:

- Ctrl-C where trio would get it: it is raised in the loop instead, as without a guest.
- A loop that is closed while the run is alive: nobody takes turns any more. The next loop of the thread that has
  clients, or the end of the interpreter, finishes the run, which closes its connections; nothing is delivered and
  nothing committed.
- A fork: the child has neither the run nor its connections. Its own clients are those of `ottla.client.sync`, or live
  in another thread.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

import trio

T = TypeVar("T")

FINISH_S = 10.0
"""How long the end of a run is awaited whose loop was closed: its tasks are cancelled, and close sockets."""


class Guest:
    """The run of trio beside one asyncio loop. Everything here is for the thread of that loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.pid = os.getpid()
        self.thread = threading.get_ident()
        self.holders = 0
        self.is_over = False
        self.callbacks: set[trio.Event] = set()
        """The ends that tasks of trio wait for of what asyncio does."""
        self._due: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._end = trio.Event()
        self._waiters: list[asyncio.Future[None]] = []
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self._soon,
            run_sync_soon_not_threadsafe=self._soon_here,
            done_callback=self._ended,
            host_uses_signal_set_wakeup_fd=True,
        )

    # --- who takes turns ---

    def _soon(self, function: Callable[[], object]) -> None:
        """From any thread."""
        self._due.put(function)
        with suppress(RuntimeError):  # the loop is closed: `finish` does what is due
            self.loop.call_soon_threadsafe(self._turn)

    def _soon_here(self, function: Callable[[], object]) -> None:
        self._due.put(function)
        with suppress(RuntimeError):
            self.loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._due.get_nowait()()

    async def _main(self) -> None:
        while not self._end.is_set():
            try:
                await self._end.wait()
            except KeyboardInterrupt:
                self.loop.call_soon(_interrupt)

    def _ended(self, _outcome: object) -> None:
        self.is_over = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    # --- who holds it ---

    def check(self) -> None:
        """Raises RuntimeError: this is not the loop of the run, or the run has ended."""
        if self.pid != os.getpid():
            raise RuntimeError("this was made before a fork, and its connections are not the child's")
        if running_loop() is not self.loop:
            raise RuntimeError("this belongs to another event loop: each loop opens a Cluster of its own")
        if self.is_over:
            raise RuntimeError("the cluster is closed")

    async def let_go(self) -> None:
        """One holder less. The last one waits until the run has ended."""
        self.holders -= 1
        if self.holders or self.is_over:
            return
        _here.guest = None
        self._end.set()
        problem: asyncio.CancelledError | None = None
        while not self.is_over:
            waiter = self.loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError as found:
                problem = found
        if problem is not None:
            raise problem

    def finish(self) -> None:
        """Ends a run whose loop is closed, in this thread."""
        _here.guest = None
        self._end.set()
        for event in self.callbacks:
            event.set()
        hooks = sys.get_asyncgen_hooks()
        with suppress(Empty):
            while not self.is_over:
                self._due.get(timeout=FINISH_S)()
        # Trio puts back those of the loop that is closed, where another one may run by now.
        sys.set_asyncgen_hooks(*hooks)

    # --- what it does ---

    async def call(self, work: Callable[[], Awaitable[T]], *, late: Callable[[T], object] | None = None) -> T:
        """Runs it as a task of trio, and waits. Where the caller is cancelled, so is the work, and its end is awaited;
        what it had given all the same goes to `late`.
        """
        self.check()
        call = Call(self, work)
        return await call.wait(late)

    async def ask(self, work: Callable[[], Awaitable[T]]) -> T:
        """The other way round: a task of trio has asyncio do this, in the context of who called, and waits.

        Raises:
            RuntimeError: the loop is closed.
        """
        over = trio.Event()
        task = self.loop.create_task(_awaited(work))
        task.add_done_callback(lambda _: over.set())
        self.callbacks.add(over)
        try:
            await over.wait()
        except trio.Cancelled:
            task.cancel()
            with trio.CancelScope(shield=True):
                await over.wait()
            raise
        finally:
            self.callbacks.discard(over)
        if not task.done():
            raise RuntimeError("the event loop was closed meanwhile")
        return task.result()


class Call(Generic[T]):
    """Work in a task of trio, whose end one task of asyncio waits for."""

    def __init__(self, guest: Guest, work: Callable[[], Awaitable[T]]) -> None:
        self.scope = trio.CancelScope()
        self._guest = guest
        self._is_over = False
        self._value: T | None = None
        self._problem: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        trio.lowlevel.spawn_system_task(self._run, work, context=copy_context())

    async def _run(self, work: Callable[[], Awaitable[T]]) -> None:
        try:
            with self.scope:
                self._value = await work()
            if self.scope.cancelled_caught:
                self._problem = asyncio.CancelledError()
        except trio.Cancelled:
            self._problem = RuntimeError("the cluster was closed meanwhile")
            raise
        except BaseException as problem:
            # An exception that leaves a system task ends the whole run.
            self._problem = problem
        finally:
            self._is_over = True
            if self._waiter is not None and not self._waiter.done():
                with suppress(RuntimeError):  # the loop is closed
                    self._waiter.set_result(None)

    async def wait(self, late: Callable[[T], object] | None = None) -> T:
        """Returns or raises as the work did. A caller that is cancelled cancels it, and still waits for its end."""
        cancelled: asyncio.CancelledError | None = None
        while not self._is_over:
            self._waiter = self._guest.loop.create_future()
            try:
                await self._waiter
            except asyncio.CancelledError as problem:
                cancelled = problem
                self.scope.cancel()
            except BaseException:
                # The coroutine is thrown away, perhaps in another thread.
                if not self._guest.is_over and self._guest.thread == threading.get_ident():
                    self.scope.cancel()
                raise
        if cancelled is not None:
            if self._problem is None and late is not None:
                late(self._value)  # type: ignore[arg-type]
            raise cancelled
        if self._problem is not None:
            raise self._problem
        return self._value  # type: ignore[return-value]


async def _awaited(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


def _interrupt() -> None:
    raise KeyboardInterrupt


def running_loop() -> asyncio.AbstractEventLoop:
    """The loop that runs here. Raises RuntimeError: none does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError("ottla.client.aio needs a running asyncio loop; ottla.client.sync needs none") from None


class _Here(threading.local):
    guest: Guest | None = None


_here = _Here()


def hold() -> Guest:
    """The run beside the loop that runs here, which is started if there is none. It is held until `let_go`.

    Raises:
        RuntimeError: no loop runs here, or another loop of this thread has clients that are open.
    """
    loop = running_loop()
    guest = _here.guest
    if guest is not None and guest.loop is not loop:
        if not guest.loop.is_closed():
            raise RuntimeError("another event loop of this thread has a Cluster that is open: close it first")
        guest.finish()
        guest = None
    if guest is None:
        if trio.lowlevel.in_trio_run():
            raise RuntimeError("trio runs in this thread, or did before a fork: asyncio cannot have it here as well")
        guest = _here.guest = Guest(loop)
    guest.holders += 1
    return guest


def _at_exit() -> None:
    if (guest := _here.guest) is not None and guest.pid == os.getpid() and guest.loop.is_closed():
        guest.finish()


def _forget() -> None:
    _here.guest = None


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_forget)
