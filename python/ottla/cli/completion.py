"""`ottla completion`: the script by which a shell completes commands, options, and names of topics and groups."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")
#: A shell runs the command with this variable to ask for completions.
VARIABLE = "_OTTLA_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the script that has SHELL complete command lines of ottla, with names of topics and groups.

    \b
    eval "$(ottla completion bash)"                                       # in ~/.bashrc
    eval "$(ottla completion zsh)"                                        # in ~/.zshrc, after compinit
    ottla completion fish > ~/.config/fish/completions/ottla.fish

    Names are those of the cluster that the line names by -b or --command-config, or else of $OTTLA_BOOTSTRAP.
    """
    from click.shell_completion import get_completion_class

    from ottla.cli.main import ottla

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(ottla, {}, "ottla", VARIABLE).source())
