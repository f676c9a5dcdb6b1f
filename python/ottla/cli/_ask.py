"""Questions before something is lost."""

from __future__ import annotations

import sys

import click


def confirm(question: str, otherwise: str, *, yes: bool, would: str) -> None:
    """Returns if something is to be lost: with --yes, or if the answer on a terminal is yes. Ends the command if not,
    also where nobody can be asked: a script says what it wants.

    would: a sentence without its end, e.g. "topic orders would be deleted".
    """
    if yes:
        return
    if not is_terminal():
        raise click.UsageError(f"{would}, and nobody can be asked here: --yes does it without asking")
    ask(question, otherwise)


def ask(question: str, otherwise: str) -> None:
    """Asks on the terminal. Ends the command if the answer is no (exit code 1) or Ctrl-C, and says so.

    otherwise: what is true then, e.g. "nothing was deleted".
    """
    try:
        agreed = click.confirm(question)
    except click.Abort:
        click.echo(f"\n{otherwise}", err=True)
        raise
    if not agreed:
        raise click.ClickException(otherwise)


def agreed(question: str, *, yes: bool, dry_run: bool) -> bool:
    """Whether a plan that was shown is to be carried out: with --yes, or if the answer on a terminal is yes. Where
    nobody can be asked it is not. Ends the command if the answer is no.
    """
    if dry_run:
        return False
    if yes:
        return True
    if not is_terminal():
        click.echo("nothing was changed; --yes carries it out", err=True)
        return False
    ask(question, "nothing was changed")
    return True


def is_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty()
