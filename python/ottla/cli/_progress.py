"""A progress bar on stderr, for people only: nothing is shown where stderr is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

Advance = Callable[[int, int], None]
"""advance(units, records) tells how far the work has come since the last call; what it counts may be other things."""


@contextmanager
def progress(
    doing: str,
    total: int | None,
    *,
    unit: Literal["bytes", "records"],
    is_shown: bool = True,
    counted: str = "records",
) -> Iterator[Advance]:
    """Shows how many records the block has worked on, and a bar towards `total` units if that is known.

    counted: what is counted beside the units where it is not records, e.g. "of 7 partitions".
    """
    if not is_shown or not sys.stderr.isatty():
        yield lambda units, records: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn

    columns: list[str | ProgressColumn] = ["{task.description}", BarColumn()]
    if unit == "bytes":
        columns.append(DownloadColumn())
    columns += [TextColumn(f"{{task.fields[records]}} {counted}"), TimeElapsedColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=total, records=0)
        done = 0

        def advance(units: int, records: int) -> None:
            nonlocal done
            done += records
            bar.update(task, advance=units, records=f"{done:,}")

        yield advance
