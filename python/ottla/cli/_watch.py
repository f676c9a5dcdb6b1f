"""`ottla cluster status --watch`: a look at the cluster again and again, and how old the last one is."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from ottla.cli._output import print_json

if TYPE_CHECKING:
    from ottla.cli._status import Status

#: How often a terminal is drawn anew: what is shown grows older while no broker answers.
DRAWN_S = 1.0
#: Where lines follow each other, a look that takes longer than this is told of on stderr.
LONG_S = 5.0


async def watch(look: Callable[[], Awaitable[Status]], interval_s: float, *, as_json: bool) -> None:
    """Looks every `interval_s` seconds, for ever. On a terminal each look replaces the last one, else they follow each
    other. A look that fails is told, and the next may succeed.
    """
    import trio

    from ottla.errors import KafkaError

    shown = _Terminal(interval_s) if sys.stdout.isatty() and not as_json else _Lines(interval_s, as_json=as_json)
    ended: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shown.grow_older)
        try:
            while True:
                try:
                    found = await look()
                except (OSError, KafkaError) as problem:
                    shown.fail(problem)
                else:
                    shown.show(found)
                await trio.sleep(interval_s)
        except Exception as problem:  # which the nursery would wrap
            ended = problem
            nursery.cancel_scope.cancel()
    if ended is not None:
        raise ended


class _Terminal:
    """The last look, and when it was."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._found: Status | None = None
        self._seen_s = 0.0
        self._problem: Exception | None = None

    def show(self, found: Status) -> None:
        import trio

        self._found, self._seen_s, self._problem = found, trio.current_time(), None
        self._draw()

    def fail(self, problem: Exception) -> None:
        self._problem = problem
        self._draw()

    async def grow_older(self) -> None:
        import trio

        while True:
            await trio.sleep(DRAWN_S)
            self._draw()

    def _draw(self) -> None:
        from datetime import datetime

        import trio

        from ottla.cli._status import as_text

        age = "nothing seen yet"
        if self._found is not None:
            age_s = trio.current_time() - self._seen_s
            age = f"seen {age_s:.0f} s ago"
            if age_s > self._interval_s + DRAWN_S:
                age = click.style(f"{age}: no broker has answered since", fg="red")
        click.clear()
        click.echo(f"{datetime.now():%H:%M:%S}, {age}; every {self._interval_s:g} s, Ctrl-C ends")
        if self._problem is not None:
            click.echo(f"nothing to be seen: {self._problem}")
        if self._found is not None:
            click.echo(as_text(self._found))
        sys.stdout.flush()


class _Lines:
    """Looks one after the other."""

    def __init__(self, interval_s: float, *, as_json: bool) -> None:
        self._long_s = interval_s + LONG_S
        self._as_json = as_json
        self._shown_s: float | None = None

    def show(self, found: Status) -> None:
        import trio

        from ottla.cli import _status

        self._shown_s = trio.current_time()
        if self._as_json:
            print_json(_status.as_json(found))
        else:
            click.echo(_status.as_text(found) + "\n")
        sys.stdout.flush()

    def fail(self, problem: Exception) -> None:
        click.echo(f"nothing to be seen: {problem}", err=True)

    async def grow_older(self) -> None:
        import trio

        while True:
            await trio.sleep(LONG_S)
            if self._shown_s is not None and (age_s := trio.current_time() - self._shown_s) > self._long_s:
                click.echo(f"no broker has answered; what was shown last is {age_s:.0f} s old", err=True)
