"""The one rule of commands that delete, overwrite or move something: the plan is shown, then it is asked for.

`--dry-run` ends after the plan, `--yes` asks nothing, and where nobody can be asked the command ends with exit status
2: a script says what it wants. What only adds, such as a topic or records, is not asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])

NOTHING = "nothing was changed"


def plan_options(function: Function) -> Function:
    """Adds `--dry-run` and `--yes` to a command, which hands both to `agreed`."""
    function = click.option("-y", "--yes", is_flag=True, help="Do it without asking.")(function)
    return click.option("-n", "--dry-run", is_flag=True, help="Only show what would be done.")(function)


def agreed(question: str, would: str, *, yes: bool, dry_run: bool, otherwise: str = NOTHING) -> bool:
    """Whether a plan that was shown is to be carried out: not with --dry-run, else with --yes, or if the answer on a
    terminal is yes.

    would: a sentence without its end, e.g. "topic orders would be deleted". otherwise: what is true if it is not done.
    Raises click.ClickException if the answer is no (exit status 1), click.UsageError where nobody can be asked (2).
    """
    if dry_run:
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        raise click.UsageError(f"{would}, and nobody can be asked here: --yes does it without asking")
    try:
        is_wanted = click.confirm(question, err=True)  # the plan may go into a file
    except click.Abort:  # Ctrl-C
        click.echo(f"\n{otherwise}", err=True)
        raise
    if not is_wanted:
        raise click.ClickException(otherwise)
    return True
