"""`ottla log`: look into a log's files, find damage, repair it. For files of Apache Kafka as for ours."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import click

from ottla.cli import _log_aside, _log_import
from ottla.cli._ask import agreed, plan_options
from ottla.cli._errors import explained
from ottla.cli._output import ROWS_MAX, counted, print_json

existing = click.argument("path", metavar="PATH", type=click.Path(exists=True))
folder = click.argument("path", metavar="FOLDER", type=click.Path(exists=True))


@click.group()
def command() -> None:
    """Look into log files, find damage, repair it, import other formats, and take back logs that were put aside.

    FOLDER is a data directory or a partition's folder; PATH may also be one file.
    """


for each in (_log_import.command, _log_aside.listing, _log_aside.take_back):
    command.add_command(each)


@command.command()
@existing
@click.option("--records", is_flag=True, help="Show every record too, not only the batches.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per batch, record, index entry or line.")
def dump(path: str, records: bool, as_json: bool) -> None:
    """Print what the files hold. Works beside a running broker, and changes nothing.

    Exit code 1 if something in them is damaged, 2 if there are none. Beside a running broker the end of a log may look
    torn: that is a batch on its way.
    """
    from ottla.log.dump import files, rows

    found = files(path)
    if not found:
        raise _NothingThere(f"there is no log file in {path}")
    damages = 0

    def counted_rows(file: str) -> Iterator[dict[str, Any]]:
        nonlocal damages
        for row in rows(file, records=records):
            damages += "damage" in row
            yield row

    with explained("cannot dump"):
        for file in found:
            if as_json:
                _print_json(counted_rows(file))
            else:
                _print_file(file, counted_rows(file))
    if damages:
        raise SystemExit(1)


@command.command()
@folder
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def verify(path: str, as_json: bool) -> None:
    """Read everything and report every damage with file and position. Changes nothing.

    Exit code 1 if there is any damage, 2 if there is no log. Beside a running broker the end of a log may look torn:
    that is a batch on its way.
    """
    from ottla.log import verify

    _partitions(path)
    with explained("cannot verify"):
        report = verify(path)
    if as_json:
        from dataclasses import asdict

        print_json(asdict(report))
    else:
        for damage in report.damage:
            click.echo(str(damage))
        click.echo(
            f"{counted(report.partitions, 'partition')}, {counted(report.segments, 'segment')}, "
            f"{counted(report.batches, 'batch', 'batches')}, {counted(report.records, 'record')}, "
            f"{counted(report.bytes, 'byte')}: {_damages(len(report.damage)) if report.damage else 'all whole'}"
        )
    if report.damage:
        raise SystemExit(1)


@command.command()
@folder
@plan_options
def repair(path: str, dry_run: bool, yes: bool) -> None:
    """Cut each log at its first damaged batch and rebuild indexes and producer state. That batch and what is behind it
    are lost!

    On a replica whose partition has others, it is better to delete the partition's folder and let the broker copy it
    again. No broker may run on the data directory; `ottla log verify` says beforehand what is damaged.
    """
    from ottla import _core
    from ottla.errors import KafkaError
    from ottla.log import LogConfig, verify
    from ottla.log.foreign import foreign_file, without_segment

    with explained("cannot look for damage"):
        found = {folder: verify(folder) for folder in _partitions(path)}
    damaged = {folder: report for folder, report in found.items() if report.damage}
    if not damaged:
        click.echo("nothing is damaged")
        return
    for folder in damaged:
        if (foreign := without_segment(folder) or foreign_file(folder)) is not None:
            raise click.ClickException(f"{foreign}; nothing was repaired")
    names = ", ".join(os.path.basename(folder) for folder in damaged)
    if dry_run or not yes:
        lines = [str(each) for report in damaged.values() for each in report.damage]
        more = [f"... and {counted(len(lines) - ROWS_MAX, 'more damage')}"] if len(lines) > ROWS_MAX else []
        click.echo("\n".join([*lines[:ROWS_MAX], *more]))
    would, otherwise = f"{names} would be cut", "nothing was repaired"
    if not agreed(f"Cut and rebuild {names}?", would, yes=yes, dry_run=dry_run, otherwise=otherwise):
        return
    for folder, before in damaged.items():
        unreadable, is_all = _unreadable(folder)
        try:
            start, end = _core.repair_log(folder, LogConfig().native)
        except KafkaError as error:
            raise click.ClickException(str(error)) from None
        after = verify(folder)
        behind = before.records - after.records
        lost = counted(unreadable + behind, "record")
        click.echo(
            f"{os.path.basename(folder)}: offsets {start} to {end}, {'' if is_all else 'at least '}{lost} lost "
            f"({unreadable:,} in damaged batches, {behind:,} readable behind them), "
            f"{_damages(len(after.damage))} left"
        )


def _unreadable(folder: str) -> tuple[int, bool]:
    """How many records the damaged batches of a log have by their headers, and whether all damage has such a header."""
    from ottla.log.dump import files, rows

    count, is_all = 0, True
    for file in files(folder):
        if not file.endswith(".log"):
            continue
        for row in rows(file):
            if "damage" not in row:
                continue
            # A header that was hit itself says anything.
            if 0 < row.get("records", 0) <= row["last_offset"] - row["base_offset"] + 1:
                count += row["records"]
            else:
                is_all = False
    return count, is_all


def _partitions(path: str) -> list[str]:
    """The partitions' folders. Ends with exit code 2 if there are none: a wrong path is not a whole log."""
    from ottla.log.verify import partitions

    if not os.path.isdir(path):
        raise _NothingThere(
            f"{path} is a file; name the partition's folder, {os.path.dirname(os.path.abspath(path))}, or the data "
            "directory (`ottla log dump` shows single files)"
        )
    with explained("cannot look for logs"):
        found = partitions(path)
    if not found:
        raise _NothingThere(
            f"there is no log in {path}: it is neither a partition's folder (such as orders-0) nor has it any"
        )
    return found


class _NothingThere(click.ClickException):
    """There is nothing to look at, which is neither whole nor damaged."""

    exit_code = 2


def _print_file(file: str, content: Iterable[dict[str, Any]]) -> None:
    click.secho(f"\n{file}", bold=True)
    for row in content:
        del row["file"]
        if "size_bytes" in row:
            click.echo(f"  {_batch(row)}")
            if "damage" in row:
                click.secho(f"    DAMAGED: {row['damage']}", fg="red")
        elif "damage" in row:
            click.secho(f"  DAMAGED at byte {row.get('position', 0)}: {row['damage']}", fg="red")
        elif "value" in row and "key" in row:
            headers = "".join(f" {name}={value}" for name, value in row["headers"])
            click.echo(f"    {row['offset']} at {row['timestamp_ms']}: {row['key']!r} = {row['value']!r}{headers}")
        elif "line" in row:
            click.echo(f"  {row['line']}")
        else:
            click.echo("  " + "  ".join(f"{name} {value}" for name, value in row.items()))


def _batch(row: dict[str, Any]) -> str:
    producer = ""
    if row["producer_id"] >= 0:
        producer = f", producer {row['producer_id']} epoch {row['producer_epoch']} from sequence {row['base_sequence']}"
    flags = "".join(f", {flag}" for flag in row["flags"])
    size = f"{counted(row['records'], 'record')}, {counted(row['size_bytes'], 'byte')}"
    return (
        f"byte {row['position']}: offsets {row['base_offset']}-{row['last_offset']}, {size}, {row['compression']}, "
        f"to {row['max_timestamp_ms']}, epoch {row['leader_epoch']}{producer}{flags}"
    )


def _print_json(content: Iterable[dict[str, Any]]) -> None:
    for row in content:
        print_json(row)


def _damages(number: int) -> str:
    return counted(number, "damage")
