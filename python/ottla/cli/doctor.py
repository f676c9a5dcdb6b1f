"""`ottla doctor`: what is wrong with a cluster, seen from here."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from ottla.cli._client import client_options_with, parsed_bootstrap, security
from ottla.cli._settings import at_most_one, on_command_line, zookeeper_servers
from ottla.cli._zookeeper_access import access, access_option

if TYPE_CHECKING:
    from ottla.doctor.findings import Finding, Report
    from ottla.doctor.mirrors import Mirrors

_MARKS = {"ok": ("✓", "green"), "skipped": ("-", "bright_black"), "warning": ("!", "yellow"), "problem": ("✗", "red")}


@click.command()
@click.argument("target", metavar="[HOST:PORT,...]", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object for programs.")
@click.option(
    "--write", "may_write", is_flag=True, help="Also compare clocks: writes to a topic of its own, and deletes it."
)
@click.option(
    "--lag",
    "lag_max",
    type=click.IntRange(0),
    default=100_000,
    show_default=True,
    help="From which lag on a group, or a partition of a mirror, is late.",
)
@click.option(
    "--migration", "migrates", is_flag=True, help="Also say whether Ottla's brokers can take the brokers' places."
)
@click.option(
    "--zookeeper",
    metavar="HOST:PORT/chroot",
    callback=zookeeper_servers,
    help="With --migration: the brokers' zookeeper.connect, to look at what is there.",
)
@access_option
@click.option(
    "--mirror", "mirror_file", metavar="FILE", help="Also look at the mirrors of this file of `ottla mirror`."
)
@click.option(
    "--config",
    "broker_file",
    type=click.Path(),
    metavar="FILE",
    help="Look at the security of a broker's server.properties on this machine; at a cluster only if one is named.",
)
@partial(client_options_with, timeout_ms=5_000)
def command(
    target: str | None,
    as_json: bool,
    may_write: bool,
    lag_max: int,
    migrates: bool,
    zookeeper: str | None,
    mirror_file: str | None,
    broker_file: str | None,
    bootstrap: str,
    timeout_ms: int,
) -> int:
    """Look at a cluster as a client does, and say what is wrong and what to do.

    The addresses are those of --bootstrap. Works with Ottla and with Apache Kafka, and changes nothing without --write.
    Ends with 0 if all is well, 1 if there are warnings, 2 if there are problems.
    """
    from ottla.cli._errors import explained
    from ottla.cli._interrupts import run
    from ottla.doctor.examine import Options, examine_all
    from ottla.doctor.findings import Report

    at_most_one({"HOST:PORT": target is not None, "--bootstrap": on_command_line("bootstrap")})
    addresses = parsed_bootstrap(target or bootstrap, "HOST:PORT" if target else "--bootstrap")
    if zookeeper is not None and not migrates:
        raise click.UsageError("--zookeeper is looked at with --migration only: add that.")
    with explained("cannot look at ZooKeeper"):
        way = None if zookeeper is None else access()
    options = Options(
        timeout_s=timeout_ms / 1000,
        may_write=may_write,
        lag_max=lag_max,
        security=security(),
        migrates=migrates,
        zookeeper=zookeeper,
        access=way,
        mirrors=None if mirror_file is None else _mirrors(mirror_file),
    )
    if broker_file is not None and target is None and not on_command_line("bootstrap"):
        report = Report(broker_file)
    else:
        report = run(partial(examine_all, addresses, options))
    if broker_file is not None:
        _look_at(report, broker_file)
    if as_json:
        from ottla.cli._output import print_json

        print_json(report.as_json())
    else:
        _print(report)
    return report.exit_code


def _look_at(report: Report, file: str) -> None:
    from ottla.doctor import broker_file

    broker_file.check(report, file)


def _mirrors(file: str) -> Mirrors:
    from ottla.cli._errors import explained

    with explained("cannot look at the mirrors"):
        from ottla.doctor.mirrors import Mirrors
        from ottla.mirror.config import load

        return Mirrors(file, load(file))


def _print(report: Report) -> None:
    width = max(len(finding.check) for finding in report.findings)
    for finding in report.findings:
        click.echo(_line(finding, width))
        if finding.todo:
            click.echo(f"  {' ' * width}  → {finding.todo}")


def _line(finding: Finding, width: int) -> str:
    mark, color = _MARKS[finding.level]
    return f"{click.style(mark, fg=color)} {finding.check.ljust(width)}  {finding.found}"
