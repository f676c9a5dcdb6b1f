"""Ctrl-C: the work of a command is cancelled at its next wait, as trio does it, and the command ends quietly.

trio's own way raises KeyboardInterrupt at any bytecode of any task, which leaves errors in groups and coroutines that
nobody awaits. A second Ctrl-C is such a KeyboardInterrupt: it also ends what does not wait, such as a write to a pipe
that nobody reads.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    import trio

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C has ended: 128 and the signal's number, as in shells."""

T = TypeVar("T")


def run(work: Callable[[], Awaitable[T]]) -> T:
    """trio.run for commands. Raises click.Abort at Ctrl-C."""
    import trio

    results: list[T] = []

    async def keep() -> None:
        results.append(await work())

    if trio.run(until_interrupted, keep):
        raise click.Abort
    return results[0]


async def until_interrupted(work: Callable[[], Awaitable[object]]) -> bool:
    """Runs `work`; the first Ctrl-C cancels it. Returns whether that happened."""
    import trio

    with trio.CancelScope() as scope, _at_first_interrupt(scope.cancel):
        await work()
    return scope.cancel_called


async def ended_in_order(work: Callable[[trio.CancelScope], Awaitable[None]]) -> None:
    """Runs `work`, which Ctrl-C does not cancel as a whole: only the scope that it is given is cancelled, around what
    may end at any moment. What has to be done after that, with tasks of its own, is done.
    """
    import trio

    problem: Exception | None = None
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def watch() -> None:
            try:
                await trio.sleep_forever()
            finally:
                scope.cancel()

        nursery.start_soon(watch)
        try:
            with trio.CancelScope(shield=True):
                await work(scope)
        except Exception as error:  # which the nursery would wrap
            problem = error
        nursery.cancel_scope.cancel()
    if problem is not None:
        raise problem
    await trio.lowlevel.checkpoint_if_cancelled()


@contextmanager
def _at_first_interrupt(call: Callable[[], object]) -> Iterator[None]:
    """Has trio `call` at the first Ctrl-C within the block; the next one goes where it went before."""
    import trio

    before = signal.getsignal(signal.SIGINT)
    # Ignored: in the background of a shell, or under nohup. Python runs handlers in the main thread only.
    if before in (signal.SIG_IGN, None) or threading.current_thread() is not threading.main_thread():
        yield
        return
    token = trio.lowlevel.current_trio_token()

    def first(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        token.run_sync_soon(call)

    signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def end_interrupted(done: str) -> click.exceptions.Exit:
    """Says on stderr what was done; the caller raises the result, which ends the command with the exit code of
    Ctrl-C.
    """
    click.echo(done, err=True)
    return click.exceptions.Exit(INTERRUPTED)
