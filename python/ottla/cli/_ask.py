"""Questions before something is lost."""

from __future__ import annotations

import sys

import click


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


def is_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty()
