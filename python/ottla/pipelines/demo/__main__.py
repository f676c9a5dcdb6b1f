"""`make demo`: a broker, somebody else's client, Spark, a picture, and a proof that the numbers are right."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ottla.pipelines.demo import broker, direct, job, picture, produce, weblog
from ottla.pipelines.demo.summary import Summary

TOPIC = "web-requests"
PARTITIONS = 4
INVENTED_LINES = 10_000
INVENTED_SEED = 20150517
BAR_CHARACTERS = 40

console = Console(highlight=False, soft_wrap=True)


@contextmanager
def step(text: str) -> Iterator[list[str]]:
    """Shows what is going on, and how long it took; what is added to the list is shown too."""
    notes: list[str] = []
    started = time.monotonic()
    with console.status(text + " ..."):
        yield notes
    console.print(f"[green]✓[/] {text} [dim]({', '.join([*notes, f'{time.monotonic() - started:.1f} s'])})[/]")


@contextmanager
def quiet(log: Path) -> Iterator[None]:
    """Sends stderr to a file, with all that Java writes from its start on: most of it concerns nobody."""
    kept = os.dup(sys.stderr.fileno())
    with log.open("wb") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    try:
        yield
    finally:
        os.dup2(kept, sys.stderr.fileno())
        os.close(kept)


@click.command()
@click.option(
    "--file",
    "given",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="An access log in the combined format.",
)
@click.option(
    "--repeat", type=click.IntRange(1), default=300, show_default=True, help="How often the file is produced."
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default="demo-output",
    show_default=True,
    help="Where the picture goes.",
)
@click.option("--bootstrap", help="Use the broker at HOST:PORT instead of starting one; the topic must not exist.")
@click.option("--cores", type=click.IntRange(1), help="Cores for Spark; all unless given.")
def main(given: Path | None, repeat: int, output: Path, bootstrap: str | None, cores: int | None) -> None:
    """Produces web requests into a broker, counts them with Spark and compares with a direct count of the file."""
    with tempfile.TemporaryDirectory(prefix="ottla-demo-") as folder:
        lines = _lines(given)
        with nullcontext(bootstrap) if bootstrap else broker.running(Path(folder)) as address:
            console.print(f"[green]✓[/] {'using the' if bootstrap else 'started a'} broker at {address}")
            _produce(address, lines, repeat)
            counted = _count(address, cores, Path(folder))
        if not bootstrap:
            console.print("[green]✓[/] stopped the broker")
    expected = direct.count(lines, repeat)
    _print(counted)
    with step("picture") as notes:
        path = output / "web-requests.png"
        picture.draw(counted, f"{counted.requests:,} web requests through one broker", path)
        notes.append(str(path))
    if counted != expected:
        console.print(f"[red]✗ Spark and the direct count differ:[/]\n{_difference(counted, expected)}")
        sys.exit(1)
    console.print(
        f"[green]✓[/] the direct count of the file, {repeat} times, agrees: {expected.requests:,} requests, "
        f"{expected.errors:,} errors, {expected.malformed:,} malformed lines, {len(expected.hours)} hours, "
        f"{len(expected.pages)} pages"
    )


def _lines(given: Path | None) -> list[str]:
    if given is not None:
        lines = weblog.read(given)
        console.print(f"[green]✓[/] input: {len(lines):,} lines of {given}")
    else:
        lines = list(weblog.lines(INVENTED_LINES, INVENTED_SEED))
        console.print(f"[green]✓[/] input: {len(lines):,} invented requests (FILE=access.log takes yours)")
    return lines


def _produce(address: str, lines: list[str], repeat: int) -> None:
    produce.create_topic(address, TOPIC, PARTITIONS)
    total = len(lines) * repeat
    started = time.monotonic()
    columns = (TextColumn("  producing"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total)
        client = produce.produce(address, TOPIC, lines, repeat, lambda count: progress.advance(task, count))
    seconds = time.monotonic() - started
    speed = f"[dim]({seconds:.1f} s, {total / seconds:,.0f} records/s)[/]"
    console.print(f"[green]✓[/] produced {total:,} records with {client} {speed}")


def _count(address: str, cores: int | None, folder: Path) -> Summary:
    from ottla.spark import session

    with step("started Spark") as notes, quiet(folder / "spark.log"):
        spark = session("ottla demo", cores=cores)
        notes.append(f"pyspark {spark.version}")
    try:
        with step("counted with Spark") as notes:
            started = time.monotonic()
            records = (
                spark.read.format("ottla")
                .option("kafka.bootstrap.servers", address)
                .option("subscribe", TOPIC)
                .schema("value binary")
                .load()
            )
            summary = job.run(records)
            rate = (summary.requests + summary.malformed) / (time.monotonic() - started)
            notes.append(f"{rate:,.0f} records/s with parsing")
    finally:
        spark.stop()
    return summary


def _print(summary: Summary) -> None:
    most = max((hour.requests for hour in summary.hours), default=1)
    hours = Table("hour", title="requests and errors per hour", title_justify="left", box=None, padding=(0, 2, 0, 0))
    hours.add_column("requests", justify="right")
    hours.add_column("errors", justify="right")
    for hour in summary.hours:
        bar = "█" * round(BAR_CHARACTERS * hour.requests / most)
        hours.add_row(f"{hour.start:%a %d %b %H:00}", f"{hour.requests:,}", f"{hour.errors:,}", f"[blue]{bar}[/]")
    pages = Table("page", title="\nthe most requested pages", title_justify="left", box=None, padding=(0, 2, 0, 0))
    pages.add_column("requests", justify="right")
    for page in summary.pages:
        pages.add_row(page.path, f"{page.requests:,}")
    console.print(hours)
    console.print(pages)
    console.print()


def _difference(counted: Summary, expected: Summary) -> str:
    lines = [
        f"{what}: Spark {ours:,}, file {theirs:,}"
        for what, ours, theirs in (
            ("requests", counted.requests, expected.requests),
            ("errors", counted.errors, expected.errors),
            ("malformed", counted.malformed, expected.malformed),
        )
    ]
    lines += [
        f"hour: Spark {ours}, file {theirs}"
        for ours, theirs in zip(counted.hours, expected.hours, strict=False)
        if ours != theirs
    ]
    lines += [
        f"page: Spark {ours}, file {theirs}"
        for ours, theirs in zip(counted.pages, expected.pages, strict=False)
        if ours != theirs
    ]
    return "\n".join(lines[:20])


if __name__ == "__main__":
    main()
