"""The command `ottla` itself: finds the commands, and turns every expected error into one line and an exit code."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

import click

CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EBADF)


class Commands(click.Group):
    """The commands are the files of this folder, with dashes for underscores; only the one that is asked for is
    imported.
    """

    def list_commands(self, context: click.Context) -> list[str]:
        """The names of all commands."""
        names = (entry.removesuffix(".py") for entry in os.listdir(os.path.dirname(__file__)) if entry.endswith(".py"))
        return sorted(name.replace("_", "-") for name in names if not name.startswith("_") and name != "main")

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command of one file."""
        if name not in self.list_commands(context):
            return None
        command = import_module(f"ottla.cli.{name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the nearest name in the message about an unknown one."""
        try:
            return super().resolve_command(context, arguments)
        except click.UsageError as error:
            from ottla.config.nearest import hint

            found = hint(arguments[0], self.list_commands(context))
            raise click.UsageError(error.message.removesuffix(".") + found, context) from None


def _show_version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from ottla.cli._version import line

        click.echo(line())
        context.exit()


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version, the commit and the build profile, and exit.",
)
def ottla() -> None:
    """A commit-log broker that is byte-compatible with Apache Kafka, and its tools."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs `ottla` with the process's arguments (or these) and ends the process.

    Exit codes: 0 done, 1 an error that the message explains (or, silently, that nobody reads our output any more), 2
    the command line is wrong, 130 interrupted.
    """
    try:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # as `ottla.cli` has left it
            signal.signal(signal.SIGINT, signal.default_int_handler)
        _have_standard_streams()
        # https://no-color.org; None leaves it to click, which asks whether the output is a terminal.
        color = False if os.environ.get("NO_COLOR") else None
        result = ottla.main(arguments, prog_name="ottla", standalone_mode=False, color=color)
        sys.exit(result if isinstance(result, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except OSError as error:
        # Commands explain those of their own work.
        if error.filename is not None or error.errno not in CANNOT_WRITE:
            raise
        click.echo(f"Error: cannot write the output: {error.strerror}", err=True)
        _forget_output()
        sys.exit(1)
    except BaseExceptionGroup as group:
        # Ctrl-C in the middle of concurrent work arrives wrapped.
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        sys.exit(130)


def _have_standard_streams() -> None:
    """Of stdin, stdout and stderr, a shell may close each (`<&-`): a file or connection would get its number. What
    their encoding lacks is written as escapes.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        stream = getattr(sys, name)
        if stream is None:
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - for all of the process
        elif mode == "w" and isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _forget_output() -> None:
    """What could not be written would be tried again when the interpreter ends, with a complaint."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
