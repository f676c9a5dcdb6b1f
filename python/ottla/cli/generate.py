"""`ottla generate`: invented activity, to try pipelines with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli._client import client_options, with_cluster
from ottla.cli._completion import topics as complete_topics
from ottla.cli._errors import explained, without
from ottla.cli._interrupts import end_interrupted
from ottla.cli._output import counted
from ottla.cli._settings import INT32_MAX, Finite, at_most_one, on_command_line

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.pipelines.generator.settings import Settings

MANY = 10_000_000
"""What fits into memory, and into the four numbers of an address."""
HOURS_MAX = 1_000_000


@click.command()
@click.argument("topic", required=False, shell_complete=complete_topics)
@click.option(
    "-f",
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write lines of JSON here instead of to TOPIC.",
)
@click.option("-n", "--events", type=click.IntRange(1), default=100_000, show_default=True, help="How many events.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="The same seed, the same bytes.")
@click.option("--hours", type=Finite(0, HOURS_MAX, min_open=True), default=24, show_default=True, help="Over how long.")
@click.option("--members", type=click.IntRange(1, MANY), default=10_000, show_default=True)
@click.option("--items", type=click.IntRange(1, MANY), default=2_000, show_default=True)
@click.option("--bots", type=click.IntRange(0, MANY), default=5, show_default=True, help="How many crawlers.")
@click.option("--late", type=Finite(0, 1), default=0.02, show_default=True, help="Share of late events.")
@click.option("--duplicates", type=Finite(0, 1), default=0.01, show_default=True, help="Share sent twice.")
@click.option(
    "--answers",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write here, as JSON, what is true of the events.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1, INT32_MAX),
    default=4,
    show_default=True,
    help="Of TOPIC, if it is to be created.",
)
@click.option(
    "-z",
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
)
@client_options
def command(
    topic: str | None,
    file: Path | None,
    events: int,
    seed: int,
    hours: float,
    members: int,
    items: int,
    bots: int,
    late: float,
    duplicates: float,
    answers: Path | None,
    partitions: int,
    compression: str,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Invent the activity of a web site: page views, impressions, clicks, searches, logins, profile updates; into TOPIC
    or a file.

    \b
    ottla generate activity
    ottla generate --file activity.jsonl --events 1000000 --seed 7 --answers answers.json
    """
    if (topic is None) == (file is None):
        raise click.UsageError("say where to: either TOPIC or --file FILE")
    for option in ("partitions", "compression", "bootstrap"):
        at_most_one({"--file": file is not None, f"--{option}": on_command_line(option)})
    if file is not None and answers is not None and file.absolute() == answers.absolute():
        raise click.UsageError(f"--file and --answers are both {file}: the one would replace the other")
    try:
        from ottla.pipelines.generator.settings import HOUR_MS, Settings
    except ModuleNotFoundError as missing:
        raise click.ClickException(without(missing)) from None
    try:
        settings = Settings(
            events=events,
            seed=seed,
            span_ms=max(1, round(hours * HOUR_MS)),
            members=members,
            items=items,
            bots=bots,
            late_share=late,
            duplicate_share=duplicates,
        )
    except ValueError as problem:
        raise click.UsageError(str(problem)) from None
    done = _Done()
    try:
        _generate(settings, topic, file, answers, partitions, compression, bootstrap, timeout_ms, done)
    except (click.Abort, KeyboardInterrupt):
        raise end_interrupted(f"generated {done.events:,} of {counted(events, 'event')} into {topic or file}") from None
    click.echo(f"generated {counted(events, 'event')} into {topic or file}", err=True)


@dataclass
class _Done:
    """How many events were written, or given to the producer."""

    events: int = 0


def _generate(
    settings: Settings,
    topic: str | None,
    file: Path | None,
    answers: Path | None,
    partitions: int,
    compression: str,
    bootstrap: str,
    timeout_ms: int,
    done: _Done,
) -> None:
    from ottla.cli._progress import progress

    try:
        from ottla.pipelines.generator.answers import Answers
        from ottla.pipelines.generator.output import to_file, to_topic
    except ModuleNotFoundError as missing:
        raise click.ClickException(without(missing)) from None
    truth = Answers(settings)
    with progress(f"generating {topic or file}", settings.events, unit="records") as advance:

        def advanced(count: int) -> None:
            done.events += count
            advance(count, count)

        if file is not None:
            with explained(f"cannot write {file}"), file.open("wb") as out:
                to_file(settings, out, advance=advanced, seen=truth.add)
        else:
            assert topic is not None
            name = topic

            async def work(cluster: Cluster) -> None:
                await to_topic(
                    settings,
                    cluster,
                    name,
                    partitions=partitions,
                    compression=compression,
                    advance=advanced,
                    seen=truth.add,
                )

            with_cluster(f"cannot generate into topic {topic!r}", bootstrap, timeout_ms, work)
    if answers is not None:
        with explained(f"cannot write {answers}"):
            answers.write_text(truth.json() + "\n")
