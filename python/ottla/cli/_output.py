"""How commands print: aligned columns for people, JSON for programs."""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence

import click

from ottla.cli._errors import on_one_line
from ottla.errors import counted as counted

COMMANDS_MAX = 5
"""How many commands an error names at most."""
ROWS_MAX = 40
"""Of what a table for people shows of many; the others are only counted, and --json has all."""


async def while_read(work: Callable[[], Awaitable[None]]) -> None:
    """Runs `work`, which prints now and then. Ends it when nobody reads the pipe any more that stdout is.

    Raises:
        BrokenPipeError: it was ended so.
    """
    import trio

    problem: Exception | None = None
    pipe = _pipe()
    async with trio.open_nursery() as nursery:

        async def watch(pipe: int) -> None:
            nonlocal problem
            await trio.lowlevel.wait_readable(pipe)  # the end for writing is that when the other one is closed
            problem = BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
            nursery.cancel_scope.cancel()

        if pipe is not None:
            nursery.start_soon(watch, pipe)
        try:
            await work()
        except Exception as error:  # which the nursery would wrap
            problem = error
        nursery.cancel_scope.cancel()
    if problem is not None:
        raise problem


def is_read() -> bool:
    """False if stdout is a pipe whose other end is closed."""
    if (pipe := _pipe()) is None:
        return True
    asked = select.poll()
    asked.register(pipe, 0)
    return not any(found & select.POLLERR for _, found in asked.poll(0))


def _pipe() -> int | None:
    """The descriptor of stdout if that is a pipe."""
    try:
        descriptor = sys.stdout.fileno()
        return descriptor if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else None
    except (OSError, ValueError):  # closed, or not a file at all
        return None


def columns(rows: Iterable[Sequence[object]], header: Sequence[str]) -> str:
    """Rows under a header, each column as wide as its widest cell; numbers stand to the right. What a terminal would
    not show as it is, such as the end of a line in the name of a group, is escaped.
    """
    table = [[on_one_line(str(cell)) for cell in row] for row in rows]
    widths = [max(len(line[index]) for line in [list(header), *table]) for index in range(len(header))]
    numeric = [
        bool(table) and all(line[index].lstrip("-").replace(",", "").isdigit() for line in table)
        for index in range(len(header))
    ]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join([line(header), *(line(cells) for cells in table)])


def quoted(names: Iterable[object]) -> str:
    """`'orders', 'a\\nb'`: names as they stand in errors, whatever is in them."""
    return ", ".join(map(repr, names))


def sized(count: int) -> str:
    """`0 B`, `12.3 kB`, `1.2 GB`: bytes for people, in powers of 1000."""
    from rich.filesize import decimal

    return "0 B" if count == 0 else decimal(count).replace(" bytes", " B").replace(" byte", " B")


def print_json(value: object) -> None:
    """One line of JSON on stdout."""
    import json

    click.echo(json.dumps(value, ensure_ascii=False))


def print_names(names: list[str], *, as_json: bool) -> None:
    """A line each, nothing for none; or one JSON array."""
    if as_json:
        print_json(names)
    elif names:
        click.echo("\n".join(names))
