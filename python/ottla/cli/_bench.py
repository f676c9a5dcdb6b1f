"""What `ottla bench` shows: a line while it runs, and at the end the rate and the latencies."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ottla.cli._output import counted

if TYPE_CHECKING:
    from ottla.bench.latencies import Latencies
    from ottla.cli._progress import Advance

MB = 1_000_000
BAR_CHARACTERS = 40
PERCENTILES = (50, 95, 99, 99.9)


@contextmanager
def live(doing: str, records: int) -> Iterator[Advance]:
    """Shows records, rate and time on stderr while the block runs; nothing where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield lambda size, count: None
        return
    import time

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=records, rate="")
        sizes = counts = 0
        begun = shown = time.monotonic()

        def advance(size: int, count: int) -> None:
            nonlocal sizes, counts, shown
            sizes += size
            counts += count
            now = time.monotonic()
            # The terminal is slower than the load.
            if now - shown > 0.1:
                shown, seconds = now, now - begun
                rate = f"{counts:,} records, {counts / seconds:,.0f} records/s, {sizes / seconds / MB:,.1f} MB/s"
                bar.update(task, completed=counts, rate=rate)

        yield advance


@contextmanager
def shown_at_the_end(show: Callable[[], None]) -> Iterator[None]:
    """Shows what was measured when the block ends, also by Ctrl-C or an error of the cluster."""
    try:
        yield
    except (click.Abort, click.ClickException):
        show()
        raise
    show()


def rate_line(doing: str, records: int, size_bytes: int, seconds: float) -> str:
    """One line in the manner of Kafka's tools; MB are 10^6 bytes."""
    seconds = max(seconds, 1e-9)
    return (
        f"{counted(records, 'record')} {doing} in {seconds:,.3f} s, {records / seconds:,.1f} records/sec "
        f"({size_bytes / seconds / MB:,.2f} MB/sec)"
    )


def show_latencies(latencies: Latencies, of: str) -> None:
    """Mean, percentiles and the histogram on stdout."""
    if not latencies.count:
        return
    parts = [f"{latencies.percentile_ms(percent):,.3f} ms {percent:g}th" for percent in PERCENTILES]
    click.echo(f"{of}: {latencies.mean_ms:,.3f} ms avg, {', '.join(parts)}, {latencies.max_s * 1e3:,.3f} ms max")
    bars = latencies.bars()
    most = max(count for *_, count in bars)
    for least_ms, most_ms, count in bars:
        length = round(count / most * BAR_CHARACTERS)
        click.echo(f"  {least_ms:10,.3f} - {most_ms:10,.3f} ms {count:10,}  {'#' * length}".rstrip())


def producer_properties(texts: tuple[str, ...], known: dict[str, str]) -> dict[str, str]:
    """NAME=VALUE settings by the names of Kafka's producer, over what they are otherwise.

    Raises click.BadParameter for one that means nothing here.
    """
    from ottla.cli._settings import assignments
    from ottla.config.nearest import hint

    found = dict(known)
    for name, value in assignments(texts, "--producer-props").items():
        if name not in known:
            raise click.BadParameter(
                f"{name!r} means nothing here{hint(name, list(known))}", param_hint="--producer-props"
            )
        found[name] = value
    return found
