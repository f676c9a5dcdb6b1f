"""`ottla user`: users with SCRAM credentials, whose passwords the cluster never sees."""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING

import click

from ottla.cli._ask import agreed, plan_options
from ottla.cli._client import client_options, with_cluster
from ottla.cli._first_start import asks_no_broker, first_start_options
from ottla.cli._output import columns, print_json
from ottla.cli._stored_users import write_user

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.user_admin import Credentials

NAMES = ("SCRAM-SHA-256", "SCRAM-SHA-512")

mechanism_option = click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(NAMES, case_sensitive=False),
    help="Only this one; may be given twice. Without it: all.",
)


@click.group()
def command() -> None:
    """List users with SCRAM credentials, set their passwords, and remove them."""


@command.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each, one a line.")
@client_options
def list_(as_json: bool, bootstrap: str, timeout_ms: int) -> None:
    """List the users that have SCRAM credentials, with the iterations of each."""

    async def work(cluster: Cluster) -> dict[str, Credentials]:
        from ottla.client.user_admin import UserAdmin

        return await UserAdmin(cluster).users()

    found = with_cluster("cannot list users", bootstrap, timeout_ms, work)
    if as_json:
        for user in sorted(found):
            print_json({"user": user, "iterations": dict(found[user])})
        return
    rows = [(user, *(found[user].get(name, "-") for name in NAMES)) for user in sorted(found)]
    click.echo(columns(rows, ("user", *NAMES)))


@command.command()
@click.argument("user")
@mechanism_option
@click.option(
    "--iterations",
    type=click.IntRange(4096, 16384),
    default=4096,
    show_default=True,
    help="How often the password is hashed.",
)
@click.option(
    "--password-file",
    type=click.File(encoding="utf-8"),
    metavar="FILE",
    help="Its first line is the password; - is stdin. Without it the password is asked for.",
)
@first_start_options
@client_options
def add(
    user: str,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_file: IO[str] | None,
    data_dir: str | None,
    zookeeper: str | None,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Set the password of USER, who need not exist before.

    The first user of a cluster, and the one by which its brokers let each other in, is added before the first start,
    with --data-dir or --zookeeper.
    """
    has_no_broker = asks_no_broker(data_dir, zookeeper)
    password = _password(user, password_file)
    doing = f"cannot set the password of user '{user}'"

    async def work(cluster: Cluster) -> None:
        from ottla.client.user_admin import UserAdmin

        await UserAdmin(cluster).set_password(user, password, mechanisms or NAMES, iterations)

    if has_no_broker:
        write_user(doing, data_dir, zookeeper, user, password, mechanisms or NAMES, iterations)
    else:
        with_cluster(doing, bootstrap, timeout_ms, work)
    click.echo(f"user {user} can come in by {' and '.join(mechanisms or NAMES)}")


def _password(user: str, file: IO[str] | None) -> str:
    if file is not None:
        password = str(file.readline()).rstrip("\r\n")
    elif sys.stdin is not None and sys.stdin.isatty():
        password = str(click.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True, err=True))
    else:
        raise click.UsageError("nobody can be asked for the password here; give --password-file FILE, or - for stdin")
    if not password:
        raise click.UsageError("the password is empty")
    return password


@command.command()
@click.argument("user")
@mechanism_option
@plan_options
@client_options
def remove(user: str, mechanisms: tuple[str, ...], dry_run: bool, yes: bool, bootstrap: str, timeout_ms: int) -> None:
    """Remove the SCRAM credentials of USER. Connections that are open stay open."""
    doing = f"cannot remove credentials of user '{user}'"

    async def look(cluster: Cluster) -> Credentials:
        from ottla.client.user_admin import UserAdmin

        return (await UserAdmin(cluster).users([user]))[user]

    there = with_cluster(doing, bootstrap, timeout_ms, look)
    chosen = mechanisms or tuple(there)
    if missing := [name for name in chosen if name not in there]:
        raise click.ClickException(f"{doing}: there is none for {' and '.join(missing)}")
    credentials = f"credentials of user {user} for {' and '.join(chosen)}"
    click.echo(f"to remove: {credentials}")
    if not agreed(f"Remove {credentials}?", f"{credentials} would be removed", yes=yes, dry_run=dry_run):
        return

    async def work(cluster: Cluster) -> None:
        from ottla.client.user_admin import UserAdmin

        await UserAdmin(cluster).remove(user, chosen)

    with_cluster(doing, bootstrap, timeout_ms, work)
    click.echo(f"removed {credentials}")
