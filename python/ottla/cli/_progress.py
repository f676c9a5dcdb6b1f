"""A progress bar on stderr, for people only: nothing is shown where stderr is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int, int], None]
"""advance(bytes, records) tells how far the work has come since the last call."""


@contextmanager
def progress(doing: str, total_bytes: int | None) -> Iterator[Advance]:
    """Shows bytes and records while the block runs, and a bar if the total is known."""
    if not sys.stderr.isatty():
        yield lambda size, records: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, TextColumn("{task.fields[records]} records"), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task(doing, total=total_bytes, records=0)
        done = 0

        def advance(size: int, records: int) -> None:
            nonlocal done
            done += records
            bar.update(task, advance=size, records=f"{done:,}")

        yield advance
