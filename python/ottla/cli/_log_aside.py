"""`ottla log aside` and `ottla log take-back`: logs of topics that are no more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli._ask import agreed, plan_options
from ottla.cli._errors import explained
from ottla.cli._output import print_json

if TYPE_CHECKING:
    from ottla.replication.aside import Aside

directory = click.argument("directory", metavar="DIRECTORY", type=click.Path(exists=True, file_okay=False))


@click.command(name="aside")
@directory
@click.option("--json", "as_json", is_flag=True, help="One JSON object per log.")
def listing(directory: str, as_json: bool) -> None:
    """List the logs of a data directory that were put aside. Works beside a running broker.

    A broker puts a log aside where the log's topic was deleted and made anew while the broker was away. Nobody reads
    it; its files stay until somebody removes them.
    """
    from datetime import UTC, datetime

    from ottla.replication.aside import found

    with explained(f"cannot look into {directory}"):
        logs = list(found(Path(directory)))
    if not logs and not as_json:
        click.echo(f"no log was put aside in {directory}")
    for identity, aside in logs:
        if as_json:
            print_json(_row(identity, aside))
        else:
            click.echo(
                f"{identity}: {aside.folder_name}, offsets {aside.start_offset} to {aside.end_offset}, "
                f"put aside at {datetime.fromtimestamp(aside.put_aside_ms // 1000, UTC).isoformat()}"
            )


def _row(identity: str, aside: Aside) -> dict[str, Any]:
    return {
        "id": identity,
        "topic": aside.topic,
        "partition": aside.partition,
        "start_offset": aside.start_offset,
        "end_offset": aside.end_offset,
        "put_aside_ms": aside.put_aside_ms,
    }


@click.command(name="take-back")
@directory
@click.argument("identity", metavar="ID")
@click.option("--replace", is_flag=True, help="Put the log aside that is there.")
@plan_options
def take_back(directory: str, identity: str, replace: bool, dry_run: bool, yes: bool) -> None:
    """Make a log that was put aside that of the topic that has its name now.

    No broker may run on the data directory. Where other brokers have replicas of the partition, theirs must be the same
    log: take it back on each of them while all are stopped, or remove their folders. ID is one of `ottla log aside`.
    """
    from ottla.replication import taking_back
    from ottla.replication.aside import described

    path = Path(directory)
    with explained(f"cannot look into {directory}"):
        aside = described(path, identity)
    if aside is None:
        raise click.UsageError(f"there is no {identity} in {directory}: `ottla log aside {directory}` lists the logs")
    what = f"the log of {aside.folder_name} with offsets {aside.start_offset} to {aside.end_offset}"
    would = f"{what} would be that of the topic {aside.topic} of today"
    if dry_run:
        click.echo(would)
    if not agreed(f"Make {what} that of the topic {aside.topic} of today?", would, yes=yes, dry_run=dry_run):
        return
    with explained(f"cannot take back {identity}"):
        replaced = taking_back.take_back(path, identity, aside, replace=replace)
    if replaced is not None:
        click.echo(f"the log that was there is put aside: {replaced}")
    click.echo(f"{path / aside.folder_name} has offsets {aside.start_offset} to {aside.end_offset}")
